"""Reading a part of a segment in windows of whole entries: no more of it is held than a window or one entry."""

from collections.abc import Iterator
from typing import Final

from barnabas.protocol.batch import LOG_OVERHEAD_BYTES
from barnabas.protocol.message_set import LEAST_ENTRY_BYTES
from barnabas.runtime.files import File

WINDOW_BYTES: Final = 4 * 1024 * 1024
_MAGIC_END: Final = 17


def read_windows(
    file: File, position: int, end: int, *, zeros_end_it: bool, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[int, bytes]]:
    """The bytes from `position` to `end` as (position, bytes), cut between entries by the lengths they say.

    What cannot be cut, because a length is impossible or goes over the end, is the last window. With `zeros_end_it` the
    log ends where there are only zeros up to `end`: so a file looks that was preallocated, or lost what was written.
    """
    while position < end:
        window = file.pread(min(window_bytes, end - position), position)
        whole, wanted = _whole_bytes(window)
        if not whole and len(window) < wanted <= end - position:
            window = file.pread(wanted, position)
            whole = len(window)
        if not whole:
            if not (zeros_end_it and _is_zero(file, position, end, window_bytes)):
                yield position, window
            return
        yield position, window[:whole]
        position += whole


def _whole_bytes(window: bytes) -> tuple[int, int]:
    """How many bytes at the start are whole entries, and how many the first needs where that is none."""
    at, size = 0, len(window)
    while at + _MAGIC_END <= size:
        length = int.from_bytes(window[at + 8 : at + 12], "big", signed=True)
        entry_bytes = LOG_OVERHEAD_BYTES + length
        if entry_bytes < LEAST_ENTRY_BYTES:
            return at, 0
        if at + entry_bytes > size:
            return at, entry_bytes
        at += entry_bytes
    return at, 0


def _is_zero(file: File, position: int, end: int, window_bytes: int) -> bool:
    while position < end:
        window = file.pread(min(window_bytes, end - position), position)
        if not window:
            return True
        if window.count(0) < len(window):
            return False
        position += len(window)
    return True
