"""`barnabas.unsynced` of a log directory: a sync failed there, so the page cache may hold what never reaches the disk.

After an fsync that failed Linux takes the pages for clean though they were not written: they read well, and no later
fsync writes them. A broker that starts anew on the same start of the machine would trust them until a power cut. So it
writes again what was not synced (PostgreSQL's "fsyncgate" of 2018), and what it finds is doubtful: pages that were
taken for clean may have been dropped meanwhile. The mark goes when the boot record says so. It need not be durable:
with the page cache all that it speaks of is gone. Nor does it take room: that it is there is all that it says.
"""

import contextlib
import errno
from collections.abc import Callable
from typing import Final

from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File

UNSYNCED_MARK: Final = "barnabas.unsynced"
_PIECE_BYTES: Final = 1 << 20


def sync_or_mark(sync: Callable[[], None], disk: Disk, directory: str) -> None:
    """Call `sync`, and mark the directory if that fails. Raises OSError."""
    try:
        sync()
    except FileNotFoundError:
        # Of a partition that is deleted meanwhile: then the directory goes on.
        raise
    except OSError:
        mark_unsynced(disk, directory)
        raise


def mark_unsynced(disk: Disk, directory: str) -> None:
    """Say that a sync failed here, as far as the disk still takes it."""
    with contextlib.suppress(OSError):
        disk.open(f"{directory}/{UNSYNCED_MARK}", create=True).close()


def forget_unsynced(disk: Disk, directory: str) -> None:
    """Take the mark away; what stays of it costs the next start time, and no more."""
    with contextlib.suppress(OSError):
        disk.remove(f"{directory}/{UNSYNCED_MARK}")


def write_again(file: File, position: int, end: int) -> None:
    """Write what the file has there to where it is, so that the next sync writes it. Raises OSError."""
    while position < end:
        data = file.pread(min(_PIECE_BYTES, end - position), position)
        if not data:
            raise OSError(errno.EIO, f"the file ends at byte {position}, expected {end}", file.path)
        file.pwrite(data, position)
        position += len(data)
