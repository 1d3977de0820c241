"""Putting good bytes where a segment is damaged: over the damage where they are as many, else in a new segment.

What is to be put there is gathered in a spool, a file beside the segment that a start removes. Bytes over the damage
need no care: a crash in the middle leaves damage that is still known. A segment that is written anew takes the place of
the old one as a cleaned one does (`replacement.py`); its aborted transactions are those of the old one's index.

All of this runs in a thread, touches no segment in memory and raises OSError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.cleaning.clean_job import CleanedSegment
from barnabas.storage.damage import DamagedRange
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from barnabas.storage.leftovers import remove_cleaned
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import CorruptSegment, scan_segment

_COPY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fill:
    """What takes the place of a damaged range: `size_bytes` of the spool from `position` on."""

    damaged: DamagedRange
    position: int
    size_bytes: int

    @property
    def fits(self) -> bool:
        """Whether it can be written over the damage."""
        return self.size_bytes == self.damaged.size_bytes


@dataclass(frozen=True, slots=True)
class DamagedSegment:
    """A closed segment that is to be written anew; its last batch ends below `next_base_offset`."""

    directory: str
    base_offset: int
    next_base_offset: int
    size_bytes: int
    has_txn_index: bool
    index_interval_bytes: int

    def path(self, suffix: str, ending: str = "") -> str:
        return f"{self.directory}/{segment_file(self.base_offset, suffix)}{ending}"


def spool_path(directory: str, base_offset: int) -> str:
    """Where the good bytes for a segment are gathered."""
    return f"{directory}/{segment_file(base_offset, '.mended')}{TEMPORARY_SUFFIX}"


def write_over(target: File, spool: File, fill: Fill) -> None:
    """Write good bytes over the damage, durably."""
    assert fill.fits
    at = fill.damaged.position
    for data in _pieces(spool, fill.position, fill.position + fill.size_bytes):
        target.pwrite(data, at)
        at += len(data)
    target.fsync()


def write_anew(disk: Disk, segment: DamagedSegment, spool: File, fills: Sequence[Fill]) -> CleanedSegment:
    """Write the segment with `fills` instead of all its damage, as `.cleaned`. Raises CorruptSegment if more is bad."""
    remove_cleaned(disk, segment.directory)
    log_path = segment.path(LOG_SUFFIX, CLEANED_SUFFIX)
    source = disk.open(segment.path(LOG_SUFFIX), writable=False)
    target = disk.open(log_path, create=True)
    try:
        target.truncate(0)
        at = position = 0
        for fill in sorted(fills, key=lambda each: each.damaged.position):
            at = _append(target, at, _pieces(source, position, fill.damaged.position))
            at = _append(target, at, _pieces(spool, fill.position, fill.position + fill.size_bytes))
            position = fill.damaged.end_position
        _append(target, at, _pieces(source, position, segment.size_bytes))
        target.fsync()
    finally:
        source.close()
        target.close()
    scan = scan_segment(
        disk,
        log_path,
        base_offset=segment.base_offset,
        next_base_offset=segment.next_base_offset,
        index_interval_bytes=segment.index_interval_bytes,
        producers=ProducerState(end_offset=segment.base_offset),
    )
    if scan.problem is not None:
        disk.remove(log_path)
        raise CorruptSegment(f"{log_path}: {scan.problem}")
    scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp - segment.base_offset)
    _write(disk, segment.path(INDEX_SUFFIX, CLEANED_SUFFIX), scan.offset_index.encode())
    _write(disk, segment.path(TIME_INDEX_SUFFIX, CLEANED_SUFFIX), scan.time_index.encode())
    if segment.has_txn_index:
        aborted = disk.read_bytes(segment.path(TXN_INDEX_SUFFIX))
        _write(disk, segment.path(TXN_INDEX_SUFFIX, CLEANED_SUFFIX), aborted)
    return CleanedSegment(
        segment.base_offset,
        (segment.base_offset,),
        scan.valid_bytes,
        scan.next_offset,
        scan.first_timestamp,
        scan.max_timestamp,
        scan.offset_of_max_timestamp,
        segment.has_txn_index,
        disk.modified_ms(segment.path(LOG_SUFFIX)),
    )


def _pieces(file: File, position: int, end: int) -> Iterator[bytes]:
    while position < end:
        data = file.pread(min(_COPY_BYTES, end - position), position)
        if not data:
            return
        yield data
        position += len(data)


def _append(target: File, at: int, pieces: Iterator[bytes]) -> int:
    for data in pieces:
        target.pwrite(data, at)
        at += len(data)
    return at


def _write(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
    finally:
        file.close()
