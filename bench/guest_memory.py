"""Keeps a virtual machine's free memory from going back to its host between two runs.

A guest may tell its host of free memory, in blocks of 2 MiB and more (free page reporting), and the host takes it. Who
then writes there pays for each page again, several times what the writing costs, and whose turn that is depends on what
ran before: CPU by gigabyte of one and the same run came to between 5 and 16 s. So one page of each half megabyte is
held while contestants take turns: what is free between does not come together to such blocks. The price is paid once,
before anything is measured, and for all contestants alike.
"""

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

_REPORTING: Final = Path("/sys/module/page_reporting")
_DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
_COMPACTION: Final = Path("/proc/sys/vm/compaction_proactiveness")
_PAGE_BYTES: Final = mmap.PAGESIZE
_APART_BYTES: Final = 512 * 1024
_SHARE: Final = 0.92
"""Of the free memory: the rest is for whatever else the machine does meanwhile."""


@contextlib.contextmanager
def kept_from_host() -> Iterator[bool]:
    """Hold it so, where the kernel can give memory back; yields whether that is so."""
    if not _REPORTING.exists():
        yield False
        return
    with contextlib.suppress(PermissionError):
        # What is cached now is free later, and is to be held apart too.
        _DROP_CACHES.write_text("1\n")
    size = int(psutil.virtual_memory().free * _SHARE) // _APART_BYTES * _APART_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    with mmap.mmap(-1, size, flags=flags) as held, _uncompacted():
        for at in range(0, size, _APART_BYTES):
            held.madvise(mmap.MADV_DONTNEED, at + _PAGE_BYTES, _APART_BYTES - _PAGE_BYTES)
        yield True


@contextlib.contextmanager
def _uncompacted() -> Iterator[None]:
    """Have the kernel not move pages together meanwhile, if this process may say so."""
    try:
        before = _COMPACTION.read_text()
        _COMPACTION.write_text("0\n")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        _COMPACTION.write_text(before)
