"""How this process gets memory for large blocks.

glibc asks the kernel for each large block, and gives it back when it is freed: a frame of a megabyte then costs 256
page faults, and the clearing of as many pages, however often one of its size was there before. Kept by the process
they cost that once.
"""

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 32 * 1024 * 1024
"""So much that is free at the end of the heap stays there: the frames that are under way at once, as a rule."""
_LARGE_BYTES: Final = 16 * 1024 * 1024
"""Blocks of that size and larger are the kernel's again when they are freed."""


def keep_freed_memory() -> bool:
    """Let blocks up to some megabytes be used again without the kernel; False where the C library is another."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)) and bool(mallopt(_MMAP_THRESHOLD, _LARGE_BYTES))
