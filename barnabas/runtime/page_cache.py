"""How many pages of a file are in memory: cachestat(2) of Linux 6.5 and later, which Python does not know.

A question for a MiB takes some 2 us. A page is counted from the time that it is being read.
"""

import ctypes
import os
import struct
from typing import Final

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_CACHESTAT: Final = 451
"""The same number on every architecture that brokers run on."""
_Counts = ctypes.c_uint64 * 5
"""struct cachestat: pages in the cache, dirty, in writeback, evicted, evicted recently."""
_pack_range: Final = struct.Struct("=QQ").pack
# With the interpreter's lock held: it waits for nothing, and to give the lock back would take longer.
_syscall: Final = ctypes.PyDLL(None).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint)


def pages_of(position: int, size: int) -> int:
    """How many pages a range touches, of one byte at least."""
    return (position + size - 1) // PAGE_BYTES - position // PAGE_BYTES + 1


def pages_in_memory(descriptor: int, position: int, size: int) -> int | None:
    """How many of the pages that a range touches are in memory; None where the kernel or the file system cannot say.

    Overlay file systems say 0: the pages belong to the file below.
    """
    counts = _Counts()
    if _syscall(_CACHESTAT, descriptor, _pack_range(position, size), ctypes.addressof(counts), 0):
        return None
    return int(counts[0])
