"""`barnabas.unsynced` of a log directory: a sync failed there, so the page cache may hold what never reaches the disk.

After an fsync that failed Linux takes the pages for clean though they were not written: they read well, and no later
fsync writes them. A broker that starts anew on the same start of the machine would trust them until a power cut. So it
writes again what was not synced (PostgreSQL's "fsyncgate" of 2018). The mark need not be durable: with the
page cache all that it speaks of is gone.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from barnabas.runtime.disk import Disk, File

UNSYNCED_MARK: Final = "barnabas.unsynced"
_PIECE_BYTES: Final = 1 << 20


def sync_or_mark(sync: Callable[[], None], disk: Disk, directory: str) -> None:
    """Call `sync`, and mark the directory if that fails. Raises OSError."""
    try:
        sync()
    except OSError:
        mark_unsynced(disk, directory)
        raise


def mark_unsynced(disk: Disk, directory: str) -> None:
    """Say that a sync failed here, as far as the disk still takes it."""
    with contextlib.suppress(OSError):
        disk.open(f"{directory}/{UNSYNCED_MARK}", create=True).close()


def write_again(file: File, end: int) -> None:
    """Write the first `end` bytes of the file to where they are, so that the next sync writes them. Raises OSError."""
    position = 0
    while position < end:
        data = file.pread(min(_PIECE_BYTES, end - position), position)
        assert data, f"{position} of {end} bytes"
        file.pwrite(data, position)
        position += len(data)
