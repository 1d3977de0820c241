"""The files of one cleaned segment while they are written: `.cleaned` log, indexes and, if need be, aborted index.

Entries of the indexes stand as the log's own appends would have put them, index.interval.bytes apart. When the segment
is complete all files are synced, and the log has the time of change of the last segment that it stands for. Where it is
given up the files are removed; those of a worker that was killed are begun anew, or removed when the log is loaded.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np

from barnabas.runtime.disk import Disk
from barnabas.storage.cleaning.clean_job import CleanedSegment, CleanLimits
from barnabas.storage.cleaning.clean_plan import SourceSegment
from barnabas.storage.cleaning.record_filter import KeptBatches
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from barnabas.storage.txn_index import AbortedTxn, encode_aborted

_SYNC_BYTES: Final = 16 * 1024 * 1024
"""Written at most before a sync: a large one at the end would hold up the appends to other logs."""


class CleanedSegmentWriter:
    """Writes the segment that `sources` become."""

    __slots__ = (
        "_base_offset",
        "_directory",
        "_disk",
        "_file",
        "_first_timestamp",
        "_last_indexed",
        "_limits",
        "_max_timestamp",
        "_next_offset",
        "_offset_of_max_timestamp",
        "_offsets",
        "_sources",
        "_synced_bytes",
        "_times",
        "size_bytes",
    )

    def __init__(self, disk: Disk, directory: str, sources: Sequence[SourceSegment], limits: CleanLimits) -> None:
        self._disk = disk
        self._directory = directory
        self._sources = sources
        self._limits = limits
        self._base_offset = self._next_offset = sources[0].base_offset
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._first_timestamp: int | None = None
        self._max_timestamp = self._offset_of_max_timestamp = -1
        self._last_indexed = self._synced_bytes = self.size_bytes = 0
        disk.remove(self._path(TXN_INDEX_SUFFIX))
        self._file = disk.open(self._path(LOG_SUFFIX), create=True)
        self._file.truncate(0)

    def add(self, kept: KeptBatches) -> None:
        """Append batches. Raises OSError."""
        if len(kept) == 0:
            return
        self._file.pwrite(kept.data, self.size_bytes)
        self._index(kept)
        self.size_bytes += len(kept.data)
        if self.size_bytes - self._synced_bytes >= _SYNC_BYTES:
            self._file.fsync()
            self._synced_bytes = self.size_bytes

    def _index(self, kept: KeptBatches) -> None:
        ends = self.size_bytes + np.cumsum(kept.size_bytes)
        starts = ends - kept.size_bytes
        # For each batch the greatest timestamp up to it, and which batch had it first; -1: one before these.
        greatest = np.maximum(np.maximum.accumulate(kept.max_timestamp), self._max_timestamp)
        is_new = greatest > np.append(self._max_timestamp, greatest[:-1])
        first_had = np.maximum.accumulate(np.where(is_new, np.arange(len(kept)), -1))
        if self._first_timestamp is None:
            self._first_timestamp = int(kept.max_timestamp[0])

        # There may be an entry for each batch: lists are quicker than arrays to go over one by one.
        interval = self._limits.index_interval_bytes
        columns = (starts, kept.last_offset, greatest, first_had)
        positions, last_offsets, times, had_at = (column.tolist() for column in columns)
        place = bisect_right(positions, self._last_indexed + interval)
        while place < len(positions):
            self._add_entry(last_offsets[place], positions[place])
            had = had_at[place]
            offset = last_offsets[had] if had >= 0 else self._offset_of_max_timestamp
            self._add_time(times[place], offset, closing=False)
            self._last_indexed = positions[place]
            place = max(place + 1, bisect_right(positions, self._last_indexed + interval))

        if had_at[-1] >= 0:
            self._max_timestamp, self._offset_of_max_timestamp = times[-1], last_offsets[had_at[-1]]
        self._next_offset = last_offsets[-1] + 1

    def _add_entry(self, last_offset: int, position: int) -> None:
        # An index may have fewer entries than it could, never more than its file has room for.
        if len(self._offsets) < self._limits.segment_index_bytes // OFFSET_ENTRY.size:
            self._offsets.append(last_offset - self._base_offset, position)

    def _add_time(self, timestamp: int, offset: int, *, closing: bool) -> None:
        room = self._limits.segment_index_bytes // TIME_ENTRY.size - (0 if closing else 1)
        if len(self._times) < room:
            self._times.maybe_append(timestamp, offset - self._base_offset)

    def finish(self, aborted: Sequence[AbortedTxn]) -> CleanedSegment:
        """Write the indexes and sync everything. Raises OSError."""
        modified_ms = self._sources[-1].modified_ms
        self._add_time(self._max_timestamp, self._offset_of_max_timestamp, closing=True)
        self._write_whole(INDEX_SUFFIX, self._offsets.encode())
        self._write_whole(TIME_INDEX_SUFFIX, self._times.encode())
        if aborted:
            self._write_whole(TXN_INDEX_SUFFIX, encode_aborted(aborted))
        self._disk.set_modified_ms(self._path(LOG_SUFFIX), modified_ms)
        self._file.fsync()
        self._file.close()
        return CleanedSegment(
            self._base_offset,
            tuple(source.base_offset for source in self._sources),
            self.size_bytes,
            self._next_offset,
            self._first_timestamp,
            self._max_timestamp,
            self._offset_of_max_timestamp,
            bool(aborted),
            modified_ms,
        )

    def discard(self) -> None:
        """Give up: close and remove the files. Raises OSError."""
        self._file.close()
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self._path(suffix))

    def _write_whole(self, suffix: str, data: bytes) -> None:
        file = self._disk.open(self._path(suffix), create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.fsync()
        finally:
            file.close()

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{segment_file(self._base_offset, suffix)}{CLEANED_SUFFIX}"
