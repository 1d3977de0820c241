"""One segment of a log: a file of batches and its indexes.

A segment is *growing* (the last of its log: indexes in memory), then *sealed* (nothing is appended any more, but the
indexes are still in memory and their files not complete), then *closed* (flushed whole; the indexes are searched on
disk and all files open on use). Index files are written when a segment is flushed after its sealing, or when the log is
closed: a segment that can still lose its indexes in a crash is one that recovery scans.

`size_bytes` is what has been published. What a failed write left after it is never read; recovery cuts it.
`pin` and `unpin` keep the files open while a slice is under way or a flush runs.

The owner is the log's task. A flush is planned by it, carried out by a thread (`SegmentFlush.sync`), which touches
nothing of the segment, and noted by the owner.
"""

import logging
from collections import deque
from dataclasses import dataclass
from random import Random

from barnabas.protocol.batch import CURRENT_MAGIC, LOG_OVERHEAD_BYTES, BatchHeader, CorruptBatch
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from barnabas.storage.growing_indexes import GrowingIndexes, SegmentCut
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, OffsetIndex, StoredIndex, TimeIndex
from barnabas.storage.log_config import MAX_INT32, LogConfig
from barnabas.storage.open_files import OpenFiles
from barnabas.storage.remembered_places import RememberedPlaces
from barnabas.storage.scan import LOOKUP_WINDOW_BYTES, CorruptSegment, header_at, iterate_file_headers, verify_at
from barnabas.storage.segment_flush import SegmentFlush
from barnabas.storage.txn_index import AbortedTxn, decode_aborted, encode_aborted

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class SegmentFiles:
    """Where segments live and how their files are opened."""

    disk: Disk
    open_files: OpenFiles


class Segment:
    """A segment by its base offset. `growing` is None once it is closed."""

    __slots__ = (
        "_closing",
        "_files",
        "_index_file",
        "_log_file",
        "_pins",
        "_places",
        "_time_index_file",
        "base_offset",
        "created_ms",
        "cut_unsynced",
        "directory",
        "directory_synced",
        "file_suffix",
        "first_timestamp",
        "flushed_bytes",
        "growing",
        "has_txn_index",
        "index_problem",
        "indexed_bytes",
        "max_timestamp",
        "offset_of_max_timestamp",
        "roll_jitter_ms",
        "sealed",
        "size_bytes",
    )

    def __init__(self, files: SegmentFiles, directory: str, base_offset: int, *, created_ms: int) -> None:
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.file_suffix = ""
        self.size_bytes = 0
        self.flushed_bytes = 0
        self.indexed_bytes = -1
        self.directory_synced = False
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.offset_of_max_timestamp = -1
        self.roll_jitter_ms = 0
        self.cut_unsynced = False
        self.growing: GrowingIndexes | None = GrowingIndexes()
        self.sealed = False
        self.has_txn_index = False
        self.index_problem: str | None = None
        """Why the index or the time index of a closed segment goes unused, until they are built again."""
        self._log_file: File | None = None
        self._index_file: StoredIndex | None = None
        self._time_index_file: StoredIndex | None = None
        self._places = RememberedPlaces()
        self._pins = 0
        self._closing = False

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{segment_file(self.base_offset, suffix)}{self.file_suffix}"

    def choose_jitter(self, config: LogConfig, random: Random) -> None:
        """Draw how much earlier than segment.ms the segment is rolled, so that many logs do not roll at once."""
        if config.segment_jitter_ms:
            self.roll_jitter_ms = random.randrange(min(config.segment_jitter_ms, config.roll_ms))

    def create_files(self) -> None:
        """Make the files of a new segment; what a lost life of the log left under these names is emptied."""
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            file = self._files.disk.open(self.path(suffix), create=True)
            if file.size():
                file.truncate(0)
            if suffix != LOG_SUFFIX:
                file.close()
            else:
                self._log_file = file
        self._files.disk.remove(self.path(TXN_INDEX_SUFFIX))

    @property
    def log_file(self) -> File:
        """The file of batches, opened if need be."""
        file = self._log_file
        if file is None:
            file = self._log_file = self._files.disk.open(self.path(LOG_SUFFIX))
        if self.growing is None:
            self._files.open_files.touch(self)
        return file

    # Growing

    def roll_reason(
        self, config: LogConfig, *, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> str | None:
        """Why these batches must not go into this segment any more, if they must not."""
        growing = self.growing
        assert growing is not None
        assert not self.sealed
        if last_offset - self.base_offset > MAX_INT32:
            return "offset span"
        if self.size_bytes:
            if self.size_bytes + size_bytes > config.segment_bytes:
                return "size"
            first = self.first_timestamp
            age_ms = max_timestamp - first if first is not None and first >= 0 else now_ms - self.created_ms
            if age_ms > config.roll_ms - self.roll_jitter_ms:
                return "age"
            # The time index keeps a slot for the entry that closes it.
            if (
                len(growing.offsets.offsets) >= config.index_entries
                or len(growing.times.offsets) >= config.time_index_entries - 1
            ):
                return "index full"
        return None

    def publish_batch(self, header: BatchHeader, *, interval_bytes: int) -> None:
        """Count in a batch that was written at `size_bytes`."""
        growing = self.growing
        assert growing is not None
        position = self.size_bytes
        size = LOG_OVERHEAD_BYTES + header.length
        last_offset = header.base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            # A header of old messages may stand for several: one of them bears that time, and none before the first.
            self.offset_of_max_timestamp = last_offset if header.magic == CURRENT_MAGIC else header.base_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        if growing.bytes_since_entry > interval_bytes:
            growing.offsets.append(last_offset - self.base_offset, position)
            growing.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
            growing.bytes_since_entry = size
        else:
            growing.bytes_since_entry += size
        self._places.remember(header.base_offset, position)
        self.size_bytes = position + size

    def seal(self) -> None:
        """Say that nothing will be appended any more."""
        self.complete()
        self.sealed = True

    def complete(self) -> None:
        """Bring file and indexes into the form in which another broker may take them over."""
        growing = self.growing
        assert growing is not None
        growing.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)

    # Reading

    def position_of(self, offset: int, *, at_least: int = 0) -> int | None:
        """Where the first batch starts that reaches to `offset` or over it; None when all end before.

        It is not looked for before `at_least`, where a batch starts.
        """
        found = self.find(offset, at_least=at_least)
        return None if found is None else found[0]

    def find(self, offset: int, *, at_least: int = 0) -> tuple[int, int] | None:
        """The same with the size of the batch in bytes, 0 where the place was remembered and nothing was read."""
        position = self._places.get(offset)
        if position is not None:
            return position, 0
        start = at_least
        try:
            start = max(self._lookup(offset - self.base_offset), at_least)
            return self._find_indexed(offset, start) or self._scan_for(offset, start)
        except (CorruptIndex, CorruptSegment) as error:
            if start == at_least and isinstance(error, CorruptSegment):
                raise
            # Indexes of closed segments are looked at cheaply when a log is loaded; what lies is found here.
            found = self._scan_for(offset, at_least)
            self._blame_index(INDEX_SUFFIX, error)
            return found

    def _find_indexed(self, offset: int, start: int) -> tuple[int, int] | None:
        """The batch with the next entry, if it is the one: of large batches most have an entry.

        What lies between is then not read. Entries of closed segments are read themselves, which takes as long.
        """
        if self.growing is None:
            return None
        position = self.growing.offsets.position_from(offset - self.base_offset)
        if position - start <= LOOKUP_WINDOW_BYTES:
            return None
        try:
            header = header_at(self.log_file, position, self.size_bytes)
        except CorruptSegment:
            # The one that is looked for may come before it, and be good.
            return None
        if header.magic < CURRENT_MAGIC or not header.base_offset <= offset <= header.last_offset:
            return None
        self._places.remember(offset, position)
        return position, header.size_bytes

    def _blame_index(self, suffix: str, error: Exception) -> None:
        if self.index_problem is None and self.growing is None:
            log.warning("%s: goes unused: %s", self.path(suffix), error)
            self.index_problem = str(error)

    def reread_indexes(self) -> None:
        """The files of the index and the time index are others now."""
        for stored in (self._index_file, self._time_index_file):
            if stored is not None:
                stored.close()
        self._index_file = self._time_index_file = self.index_problem = None

    def _scan_for(self, offset: int, start: int) -> tuple[int, int] | None:
        for at, header in iterate_file_headers(self.log_file, start, self.size_bytes):
            if at == start and header.base_offset > offset and at:
                raise CorruptSegment(f"the entry for offset {offset} points behind it, to byte {at}")
            if header.last_offset >= offset:
                self._places.remember(offset, at)
                return at, header.size_bytes
        return None

    def remember_end(self, next_offset: int, position: int) -> None:
        """Say that the batch with `next_offset` starts at `position`, as a reader will soon ask."""
        if position < self.size_bytes:
            self._places.remember(next_offset, position)

    def batch_bytes_at(self, position: int) -> int:
        prefix = self.log_file.pread(LOG_OVERHEAD_BYTES, position)
        return LOG_OVERHEAD_BYTES + int.from_bytes(prefix[8:12], "big", signed=True)

    def checksum_at(self, position: int) -> int:
        """What the header of the batch at `position` says. Raises CorruptSegment."""
        return header_at(self.log_file, position, self.size_bytes).crc

    def offset_to_search_from(self, timestamp: int, start_offset: int) -> int:
        """Where a search for the first record at or after `timestamp`, from `start_offset` on, begins."""
        relative = 0
        if self.growing is not None:
            relative = self.growing.times.lookup(timestamp)
        else:
            try:
                entry = self._stored_times().last_at_most(timestamp)
                relative = entry[1] if entry else 0
            except CorruptIndex as error:
                self._blame_index(TIME_INDEX_SUFFIX, error)
        return max(self.base_offset + relative, start_offset)

    def next_indexed_offset(self, position: int) -> int | None:
        """The offset of the first index entry at or after `position`: no earlier batch there has a greater one."""
        if self.growing is not None:
            relative = self.growing.offsets.offset_from(position)
            return None if relative is None else self.base_offset + relative
        try:
            entry = self._stored_offsets().first_at_least(position)
        except CorruptIndex as error:
            self._blame_index(INDEX_SUFFIX, error)
            return None
        return None if entry is None else self.base_offset + entry[0]

    def largest_timestamp(self) -> int:
        """The greatest timestamp of a record; when the file was last changed, where the records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms()

    def find_first_timestamp(self) -> int | None:
        """The greatest timestamp of the first batch; None for an empty segment. Raises CorruptSegment and OSError."""
        if self.first_timestamp is None and self.size_bytes:
            self.first_timestamp = header_at(self.log_file, 0, self.size_bytes).max_timestamp
        return self.first_timestamp

    def modified_ms(self) -> int:
        """When the file of batches was last changed."""
        return self._files.disk.modified_ms(self.path(LOG_SUFFIX))

    def aborted_transactions(self) -> list[AbortedTxn]:
        """The aborted transactions whose marker stands in this segment."""
        if self.growing is not None:
            return self.growing.aborted
        if not self.has_txn_index:
            return []
        data = self._files.disk.read_bytes(self.path(TXN_INDEX_SUFFIX))
        return decode_aborted(data, base_offset=self.base_offset)

    def last_next_offset(self) -> int:
        """The offset after the last batch. Raises CorruptSegment when the file does not end with a good batch."""
        start = self.growing.offsets.last_position if self.growing is not None else 0
        last = deque(iterate_file_headers(self.log_file, start, self.size_bytes), maxlen=1)
        if not last:
            return self.base_offset
        position, header = last[0]
        try:
            verify_at(self.log_file, position, header)
        except CorruptBatch as error:
            raise CorruptSegment(f"{self.log_file.path}: the batch at byte {position}: {error}") from error
        return header.next_offset

    def indexed_position(self, offset: int) -> int:
        """Where the index says that a batch begins, and that none before it reaches over `offset`.

        Raises CorruptIndex and OSError.
        """
        return self._lookup(offset - self.base_offset)

    def _lookup(self, relative_offset: int) -> int:
        if self.growing is not None:
            return self.growing.offsets.lookup(relative_offset)
        entry = self._stored_offsets().last_at_most(relative_offset)
        return entry[1] if entry else 0

    def _stored_offsets(self) -> StoredIndex:
        if self._index_file is None:
            self._index_file = StoredIndex(self._files.disk.open(self.path(INDEX_SUFFIX), writable=False), OFFSET_ENTRY)
        self._files.open_files.touch(self)
        return self._index_file

    def _stored_times(self) -> StoredIndex:
        if self._time_index_file is None:
            file = self._files.disk.open(self.path(TIME_INDEX_SUFFIX), writable=False)
            self._time_index_file = StoredIndex(file, TIME_ENTRY)
        self._files.open_files.touch(self)
        return self._time_index_file

    # Truncation

    def cut(self, cut: SegmentCut) -> None:
        """Carry out a cut; the segment grows on from there. Raises OSError."""
        growing, self.sealed = cut.indexes, False
        if self.growing is not growing:
            self._grow_on(growing)
        if cut.position < self.size_bytes:
            self.log_file.truncate(cut.position)
            self.size_bytes = cut.position
            self.flushed_bytes = min(self.flushed_bytes, cut.position)
        self.indexed_bytes = -1
        # A cut that a power failure took back would leave old batches behind new ones; and the later segments' names
        # must be gone as well.
        self.cut_unsynced, self.directory_synced = True, False
        relative = cut.offset - self.base_offset
        growing.offsets.truncate_to(relative)
        growing.times.truncate_to(relative)
        growing.aborted = [txn for txn in growing.aborted if txn.last_offset < cut.offset]
        growing.bytes_since_entry = 0
        self._places.clear()
        if self.size_bytes == 0:
            self.first_timestamp = None
        self.max_timestamp, self.offset_of_max_timestamp = cut.max_timestamp, cut.offset_of_max_timestamp

    def read_indexes(self) -> GrowingIndexes:
        """The indexes in memory, read where the segment is closed. Raises CorruptIndex."""
        if self.growing is not None:
            return self.growing
        disk = self._files.disk
        offsets = OffsetIndex.decode(disk.read_bytes(self.path(INDEX_SUFFIX)), log_bytes=self.size_bytes)
        times = TimeIndex.decode(disk.read_bytes(self.path(TIME_INDEX_SUFFIX)))
        return GrowingIndexes(offsets, times, self.aborted_transactions())

    def reopen_indexes(self) -> GrowingIndexes:
        """The indexes in memory, read back where the segment was closed: it grows again."""
        self.sealed = False
        if self.growing is None:
            self._grow_on(self.read_indexes())
            self.indexed_bytes = self.size_bytes
        assert self.growing is not None
        return self.growing

    def _grow_on(self, indexes: GrowingIndexes) -> None:
        """Grow again with these indexes. The file of batches stays open: a thread may be reading a slice of it."""
        self._files.open_files.forget(self)
        self.reread_indexes()
        self.growing = indexes

    # Flushing

    @property
    def needs_flush(self) -> bool:
        return self.flushed_bytes < self.size_bytes or self.sealed or self.cut_unsynced or not self.directory_synced

    @property
    def is_complete(self) -> bool:
        """Whether all of it, the indexes too, is on disk as another start would make it."""
        return not self.needs_flush and self.indexed_bytes == self.size_bytes

    def plan_flush(self, *, indexes: bool) -> SegmentFlush:
        """Pin the segment and say what to sync; with `indexes` or once sealed, its index files too."""
        growing = self.growing
        contents: list[tuple[str, bytes]] = []
        if growing is not None and (indexes or self.sealed):
            contents.append((INDEX_SUFFIX, growing.offsets.encode()))
            contents.append((TIME_INDEX_SUFFIX, growing.times.encode()))
            if growing.aborted or self.has_txn_index:
                contents.append((TXN_INDEX_SUFFIX, encode_aborted(growing.aborted)))
        # Opened here, because the segment may have been renamed when the thread comes to it.
        index_files = [(self._files.disk.open(self.path(suffix), create=True), data) for suffix, data in contents]
        self.pin()
        return SegmentFlush(self, self.log_file, self.size_bytes, tuple(index_files), self.sealed)

    def finish_flush(self, flush: SegmentFlush, *, succeeded: bool) -> None:
        """Unpin; after a success, which no truncation has overtaken, note it and close what was sealed before."""
        if succeeded:
            self.flushed_bytes = flush.size_bytes
            if flush.index_files:
                self.indexed_bytes = flush.size_bytes
            self.directory_synced = True
            self.cut_unsynced = False
            if self.growing is not None and flush.is_sealed:
                self.has_txn_index = bool(self.growing.aborted)
                self.growing = None
                self.sealed = False
                self._files.open_files.touch(self)
        self.unpin()

    # Files

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def pin(self) -> None:
        self._pins += 1

    def unpin(self) -> None:
        assert self._pins > 0
        self._pins -= 1
        if self._closing and self._pins == 0:
            self.close_files()

    def close(self) -> None:
        """Close the files, now or when the last slice is done."""
        self._closing = True
        if self._pins == 0:
            self.close_files()

    def close_files(self) -> None:
        self._files.open_files.forget(self)
        for stored in (self._index_file, self._time_index_file):
            if stored is not None:
                stored.close()
        if self._log_file is not None:
            self._log_file.close()
        self._log_file = self._index_file = self._time_index_file = None

    def rename(self, file_suffix: str) -> None:
        """Give all files another ending, `.deleted` when the segment is to go."""
        for suffix in SEGMENT_SUFFIXES:
            source = self.path(suffix)
            if self._files.disk.exists(source):
                self._files.disk.rename(
                    source, f"{self.directory}/{segment_file(self.base_offset, suffix)}{file_suffix}"
                )
        self.file_suffix = file_suffix

    def remove_files(self) -> None:
        """Unlink all files. May run in a thread, after the last slice is done."""
        for suffix in SEGMENT_SUFFIXES:
            self._files.disk.remove(self.path(suffix))
