"""Loading a log from its directory, after a clean stop or a crash.

After a clean stop (the directory's marker says so) files are trusted: indexes are looked at cheaply, and built again
where they are missing or cannot be true of their log, and only the batch that the log ends with is read. After a crash
everything from the recovery point on is read and checked, and of the segment that holds it the headers before it, which
its indexes are made of; at the first bad batch the log is cut, and all later segments go, because offsets must not have
a hole. What lies below the recovery point was synced and is never cut: what is bad there is damage, which the log
keeps, and the segment is checked whole then (`damaged_scan.py`). Of earlier segments not even the headers are read.

The leader epochs and producers that the scanned part tells of are added to what their files say. One log line says
what was scanned and what was cut. The recovery point stays: what was recovered may be in the page cache only.

`LogLoader.steps` is a generator that asks for the scan of each large segment, so that these run in worker processes;
all else, small scans too, happens where it is advanced, in a thread of the log directory.
"""

import logging
from collections.abc import Generator
from dataclasses import replace

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.damage import Damage, DamagedRange
from barnabas.storage.damaged_scan import ScanTask
from barnabas.storage.file_names import (
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_file,
)
from barnabas.storage.growing_indexes import GrowingIndexes
from barnabas.storage.index import CorruptIndex, PointsBehindEnd
from barnabas.storage.index_check import check_indexes
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.leftovers import Contents, drop_swap, finish_swap, tidy
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_parts import LogPorts, LogState
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.recovered_epochs import read_epochs_below, read_epochs_of
from barnabas.storage.recovery_report import RecoveryReport
from barnabas.storage.scan import CorruptSegment, SegmentScan, iterate_file_headers, replay_producers
from barnabas.storage.segment import Segment
from barnabas.storage.segments import Segments
from barnabas.storage.snapshots import Snapshots
from barnabas.storage.txn_index import AbortedTxn, decode_aborted
from barnabas.storage.unsynced_mark import write_again

log = logging.getLogger(__name__)

LARGE_SCAN_BYTES = 16 * 1024 * 1024


LoadSteps = Generator[ScanTask, SegmentScan, None]


class LogLoader:
    """Loads one log. Advance `steps` to its end, then take `result`."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        ports: LogPorts,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        cleaned_to: int = 0,
        is_ours: bool = True,
        writes_again: bool = False,
    ) -> None:
        self._topic_partition = topic_partition
        self._directory = directory
        self._config = config
        self._ports = ports
        self._disk = ports.disk
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._cleaned_to = cleaned_to
        self._is_ours = is_ours
        self._writes_again = writes_again
        self._report = RecoveryReport()
        self._contents = Contents(set(), [], [], [])
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochs()
        self._epochs_said: tuple[EpochEntry, ...] = ()
        self._snapshots = Snapshots(self._disk, directory, [])
        self._producers = ProducerState()
        self._log_end_offset = 0
        self._synced_to = 0
        self._stopped_at: int | None = None
        self._damage: list[DamagedRange] = []
        self._hidden_from: int | None = None
        self.result: Log | None = None
        self._shortened: list[Segment] = []

    def settle(self) -> None:
        """Do what takes away what the damage was found by, once that is kept. Raises OSError."""
        assert self.result is not None
        for segment in self._shortened:
            self._write_indexes(segment)
        if self._writes_again or not self._is_ours:
            # So that no later start has to write it again, or looks at what Kafka wrote by other rules than Kafka's.
            self.result.flush()

    def steps(self) -> LoadSteps:
        """Load the log; asks for scans of large segments. Raises OSError."""
        self._contents = tidy(self._disk, self._directory)
        self._snapshots = Snapshots(self._disk, self._directory, self._contents.snapshots)
        yield from self._finish_swaps()
        bases = self._contents.segments
        self._log_start_offset = max(self._log_start_offset, bases[0] if bases else 0)
        self._read_epochs()
        self._synced_to = self._find_synced_end(bases)
        scan_from = self._first_to_scan(bases)
        for base_offset, next_base_offset in zip(bases[:scan_from], [*bases[1:], None], strict=False):
            self._segments.append(self._open_trusted(base_offset, next_base_offset))
        if self._clean and bases and self._open_active(bases[-1]):
            scan_from = len(bases)
        if scan_from < len(bases):
            yield from self._scan(bases[scan_from:])
        self._finish()

    # After a crash

    def _first_to_scan(self, bases: list[int]) -> int:
        """The place of the first segment that is not trusted; the active one is opened apart after a clean stop."""
        if self._clean:
            return max(len(bases) - 1, 0)
        held = [place for place, base in enumerate(bases) if base <= self._recovery_point]
        return held[-1] if held else 0

    def _find_synced_end(self, bases: list[int]) -> int:
        """Below which offset all was synced: the log's end after a clean stop.

        A checkpoint of ours says one less, unless a segment begins there (`Log.recovery_point_to_keep`); what a clean
        stop wrote last is a snapshot of the producers at the end.
        """
        newest = max(self._snapshots.offsets, default=0)
        if self._clean and newest >= self._recovery_point:
            if self._recovery_point > 0 and newest - 1 <= self._recovery_point:
                # Both of them say so: what ends elsewhere has a damaged base offset, or has lost batches.
                self._stopped_at = newest
            return newest
        return self._recovery_point + (self._is_ours and 0 < self._recovery_point not in bases)

    def _scan(self, bases: list[int]) -> LoadSteps:
        producers = self._producers_at(bases[0])
        # The scan will tell of all epochs from here on; what the file says may be of records that were cut.
        self._epochs_said = self._epochs.entries
        self._epochs.truncate_from_end(bases[0])
        self._log_end_offset = bases[0]
        earliest = self._epochs.earliest
        known_from = bases[0] if earliest is None else earliest.start_offset
        if known_from > self._log_start_offset:
            # The epochs of a start that moved reached the disk before the start did.
            trusted = [segment.base_offset for segment in self._segments]
            self._epochs = read_epochs_below(self._disk, self._directory, trusted, known_from, self._epochs)
        for place, base_offset in enumerate(bases):
            next_base = bases[place + 1] if place + 1 < len(bases) else None
            path = f"{self._directory}/{segment_file(base_offset, LOG_SUFFIX)}"
            interval, point = self._config.index_interval_bytes, self._recovery_point
            end_offset = self._stopped_at if next_base is None else next_base
            may_have_gaps = self._config.compact or self._cleaned_to > 0
            task = ScanTask(
                self._disk, path, base_offset, end_offset, interval, producers, point, may_have_gaps=may_have_gaps
            )
            size_bytes = self._disk.size(path)
            scan = (yield task) if size_bytes >= LARGE_SCAN_BYTES else task.run()
            if scan.problem is not None and scan.next_offset < self._synced_to:
                # A header that was trusted may be what is wrong: each batch is checked now.
                task = replace(
                    task,
                    producers=self._producers_at(base_offset),
                    synced_to=self._synced_to,
                )
                scan = (yield task) if size_bytes >= LARGE_SCAN_BYTES else task.run()
            producers = scan.producers
            told_end = self._told_end(next_base, may_have_gaps=may_have_gaps)
            if scan.problem is None and scan.next_offset < min(told_end, self._synced_to):
                self._note_lost_end(scan, base_offset, told_end)
            elif scan.problem is None and scan.next_offset < told_end:
                # A power cut may keep a segment's name and lose the end of the one before it.
                scan.problem = f"it ends at offset {scan.next_offset}, the next segment begins at {next_base}"
            if scan.problem is not None:
                self._cut_after(scan, path, size_bytes, bases[place + 1 :])
            self._adopt(base_offset, scan, size_bytes, sealed=next_base is not None and scan.problem is None)
            if scan.problem is not None:
                break
            producers.end_offset = max(producers.end_offset, next_base or 0)
            if producers.end_offset > self._log_start_offset and not self._damage and self._hidden_from is None:
                self._snapshots.write_anew(producers)
        self._producers = producers

    def _told_end(self, next_base: int | None, *, may_have_gaps: bool) -> int:
        """Up to where a segment reached, as far as more than its batches tells that; else 0."""
        if next_base is not None:
            # Between segments only the cleaner leaves gaps: what comes with gaps from a leader is rolled at the log's
            # end. Kafka rolls it where the first batch begins.
            may_have_gap = next_base <= self._cleaned_to or (may_have_gaps and not self._is_ours)
            return 0 if may_have_gap else next_base
        if self._clean:
            return self._stopped_at or 0
        # Kafka cuts a log first, and then says how far it is synced.
        return self._synced_to if self._is_ours else 0

    @staticmethod
    def _note_lost_end(scan: SegmentScan, base_offset: int, end_offset: int) -> None:
        """The segment reached to `end_offset` once: its last batches are gone, and what is left of it is sound."""
        end, lost_from = scan.valid_bytes, scan.next_offset
        problem = f"the segment has lost its end: it reached to offset {end_offset - 1}"
        scan.damaged.append(DamagedRange(base_offset, end, end, lost_from, end_offset, problem))
        scan.next_offset = end_offset

    def _adopt(self, base_offset: int, scan: SegmentScan, size_bytes: int, *, sealed: bool) -> None:
        segment = self._new_segment(base_offset)
        segment.size_bytes = scan.valid_bytes
        segment.cut_unsynced = True
        segment.first_timestamp = scan.first_timestamp
        segment.max_timestamp, segment.offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
        segment.has_txn_index = segment_file(base_offset, TXN_INDEX_SUFFIX) in self._contents.names
        segment.growing = GrowingIndexes(
            scan.offset_index, scan.time_index, scan.aborted, scan.valid_bytes - scan.last_indexed_position
        )
        if scan.valid_bytes < size_bytes:
            # Synced at once: behind what is appended next, a power failure could bring old batches back.
            segment.log_file.truncate(scan.valid_bytes)
            segment.log_file.fsync()
        if self._writes_again:
            write_again(segment.log_file, scan.trusted_bytes, scan.valid_bytes)
        if sealed:
            segment.seal()
        self._segments.append(segment)
        if scan.forgets_epochs:
            self._epochs.clear()
        self._damage += scan.damaged
        for entry, floor in zip(scan.epochs, scan.epoch_floors, strict=True):
            # Before the segment's first batch nothing is but what the segments before it hold.
            begun = self._log_end_offset if floor == base_offset else floor
            self._assign_damaged_epochs(scan, below=entry.start_offset)
            self._epochs.assign_from_batch(entry, floor=begun, said=self._epochs_said)
        self._assign_damaged_epochs(scan, below=scan.next_offset)
        self._log_end_offset = scan.next_offset
        self._report.segments += 1
        self._report.batches += scan.batches
        self._report.scanned_bytes += size_bytes - scan.trusted_bytes

    def _assign_damaged_epochs(self, scan: SegmentScan, *, below: int) -> None:
        """Believe the file for the epochs that begin in what is damaged."""
        for damaged in scan.damaged:
            for entry in self._epochs_said:
                is_in_it = damaged.start_offset <= entry.start_offset < min(damaged.end_offset, below)
                if is_in_it and entry.epoch > self._epochs.latest_epoch:
                    self._epochs.assign(entry.epoch, start_offset=entry.start_offset)

    def _cut_after(self, scan: SegmentScan, path: str, size_bytes: int, later: list[int]) -> None:
        self._report.cut.append(
            f"{size_bytes - scan.valid_bytes} bytes of {path} from byte {scan.valid_bytes} ({scan.problem})"
        )
        self._report.cut += [f"the later segment at offset {base_offset}" for base_offset in later]
        # From the last one on, and before the damage goes: of a crash in between no gap must stay that seems to be one
        # of compaction.
        for base_offset in reversed(later):
            segment = self._new_segment(base_offset)
            segment.rename(DELETED_SUFFIX)
            segment.remove_files()
        self._disk.fsync_directory(self._directory)

    def _producers_at(self, offset: int) -> ProducerState:
        """The producers as they were at `offset`, from a snapshot and the trusted segments after it."""
        producers = self._snapshots.load(
            upto=offset,
            log_start_offset=self._log_start_offset,
        )
        ends = [segment.base_offset for segment in self._segments[1:]] + [offset]
        for segment, end in zip(self._segments, ends, strict=False):
            if end <= producers.end_offset:
                continue
            path = segment.path(LOG_SUFFIX)
            try:
                replay_producers(self._disk, path, producers, position=0, end=segment.size_bytes, upto=offset)
            except CorruptSegment as error:
                log.error("%s: producers after this place are not known: %s", self._topic_partition, error)
                if self._hidden_from is None:
                    self._hidden_from = producers.end_offset
        producers.end_offset = offset
        return producers

    # Trusted files

    def _open_trusted(self, base_offset: int, next_base_offset: int | None) -> Segment:
        """A closed segment whose log was synced: at most its indexes need to be built again, or it lost its end."""
        segment = self._new_segment(base_offset)
        segment.size_bytes = segment.flushed_bytes = self._disk.size(segment.path(LOG_SUFFIX))
        segment.has_txn_index = segment_file(base_offset, TXN_INDEX_SUFFIX) in self._contents.names
        segment.directory_synced = True
        try:
            last = check_indexes(self._disk, segment)
        except (CorruptIndex, FileNotFoundError) as error:
            log.warning("%s: the indexes at offset %d are built again: %s", self._topic_partition, base_offset, error)
            scan = self._rebuild_indexes(segment)
            is_short = scan.problem is None and scan.next_offset < (next_base_offset or 0)
            if is_short and isinstance(error, PointsBehindEnd):
                # What is left is sound, and the gap would be taken for one that the cleaner left.
                self._note_lost_end(scan, base_offset, next_base_offset or 0)
                self._damage += scan.damaged
                self._shortened.append(segment)
            else:
                self._write_indexes(segment)
            return segment
        if last is not None:
            segment.max_timestamp, segment.offset_of_max_timestamp = last[0], base_offset + last[1]
        segment.growing = None
        return segment

    def _rebuild_indexes(self, segment: Segment) -> SegmentScan:
        """Build the indexes from the batches. Nothing is cut: what is below the recovery point was synced."""
        scan = self._scan_trusted(segment, ProducerState(end_offset=segment.base_offset))
        if scan.problem is not None:
            log.error("%s: kept, though damaged: %s: %s", self._topic_partition, segment.path(LOG_SUFFIX), scan.problem)
        scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp - segment.base_offset)
        segment.growing = GrowingIndexes(scan.offset_index, scan.time_index, self._aborted(segment, scan))
        segment.max_timestamp, segment.offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
        segment.sealed = True
        return scan

    @staticmethod
    def _write_indexes(segment: Segment) -> None:
        flush = segment.plan_flush(indexes=True)
        flush.sync()
        segment.finish_flush(flush, succeeded=True)
        segment.close_files()

    def _aborted(self, segment: Segment, scan: SegmentScan) -> list[AbortedTxn]:
        """The aborted transactions of a segment, of which a scan that knew no producers has found the markers.

        It has not found where those began that are older than the segment. So what the index says is kept; where that
        does not tell of all the markers, the segment is scanned again with the producers as they were before it.
        """
        kept: list[AbortedTxn] = []
        if segment.has_txn_index:
            try:
                data = self._disk.read_bytes(segment.path(TXN_INDEX_SUFFIX))
                kept = decode_aborted(data, base_offset=segment.base_offset)
            except CorruptIndex as error:
                log.warning("%s: %s: %s", self._topic_partition, segment.path(TXN_INDEX_SUFFIX), error)
        said = {(txn.producer_id, txn.last_offset) for txn in kept}
        if all((txn.producer_id, txn.last_offset) in said for txn in scan.aborted):
            return kept
        found = self._scan_trusted(segment, self._producers_at(segment.base_offset)).aborted
        # Behind a damaged batch nothing is found.
        last = found[-1].last_offset if found else -1
        return found + [txn for txn in kept if txn.last_offset > last]

    def _scan_trusted(self, segment: Segment, producers: ProducerState) -> SegmentScan:
        path, interval = segment.path(LOG_SUFFIX), self._config.index_interval_bytes
        return ScanTask(self._disk, path, segment.base_offset, None, interval, producers).run()

    def _open_active(self, base_offset: int) -> bool:
        """Open the last segment after a clean stop; False when it must be scanned after all."""
        segment = self._new_segment(base_offset)
        segment.size_bytes = segment.flushed_bytes = self._disk.size(segment.path(LOG_SUFFIX))
        segment.has_txn_index = segment_file(base_offset, TXN_INDEX_SUFFIX) in self._contents.names
        segment.directory_synced = True
        try:
            check_indexes(self._disk, segment)
            segment.growing = None
            growing = segment.reopen_indexes()
            growing.bytes_since_entry = segment.size_bytes - growing.offsets.last_position
            last = growing.times.last
            if last is not None:
                segment.max_timestamp, segment.offset_of_max_timestamp = last[0], base_offset + last[1]
            self._log_end_offset = segment.last_next_offset()
            self._check_end()
            segment.first_timestamp = self._first_timestamp(segment)
        except (CorruptIndex, CorruptSegment, FileNotFoundError) as error:
            log.warning("%s: the segment at offset %d is scanned: %s", self._topic_partition, base_offset, error)
            segment.close_files()
            return False
        self._segments.append(segment)
        return True

    def _check_end(self) -> None:
        if self._stopped_at not in (None, self._log_end_offset):
            raise CorruptSegment(f"its batches end at offset {self._log_end_offset}, the log at {self._stopped_at}")

    def _first_timestamp(self, segment: Segment) -> int | None:
        for _, header in iterate_file_headers(segment.log_file, 0, segment.size_bytes):
            return header.max_timestamp
        return None

    def _read_epochs(self) -> None:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            self._epochs = LeaderEpochs.decode(self._disk.read_bytes(path))
        except FileNotFoundError:
            return
        except CorruptCheckpoint as error:
            log.warning("%s: leader epochs are read from the log: %s: %s", self._topic_partition, path, error)
            for base_offset in self._contents.segments:
                read_epochs_of(self._disk, self._directory, base_offset, self._epochs)

    # Both

    def _finish_swaps(self) -> LoadSteps:
        for base_offset in self._contents.swaps:
            path = f"{self._directory}/{segment_file(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
            producers = ProducerState(end_offset=base_offset)
            task = ScanTask(self._disk, path, base_offset, None, self._config.index_interval_bytes, producers)
            scan = (yield task) if self._disk.size(path) >= LARGE_SCAN_BYTES else task.run()
            if scan.problem is not None and base_offset in self._contents.segments:
                log.warning("%s: dropped a damaged swap file %s: %s", self._topic_partition, path, scan.problem)
                drop_swap(self._disk, self._directory, self._contents, base_offset)
                continue
            finish_swap(self._disk, self._directory, self._contents, base_offset, next_offset=scan.next_offset)

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment(self._ports.files, self._directory, base_offset, created_ms=self._ports.clock.wall_ms())
        segment.choose_jitter(self._config, self._ports.random)
        return segment

    def _finish(self) -> None:
        if self._segments and self._log_end_offset < self._log_start_offset:
            log.warning(
                "%s: the log ends at %d, below its start %d: everything is dropped",
                self._topic_partition,
                self._log_end_offset,
                self._log_start_offset,
            )
            dropped, self._segments = self._segments, []
            # The name of the new segment must be there before those of the old ones go: it holds the offset.
            self._start_empty()
            self._disk.fsync_directory(self._directory)
            for segment in dropped:
                segment.close_files()
                segment.rename(DELETED_SUFFIX)
                segment.remove_files()
            self._disk.fsync_directory(self._directory)
        elif not self._segments:
            self._start_empty()
        elif self._clean and self._report.segments == 0:
            self._load_producers()
        epochs = self._epochs
        changed = epochs.truncate_from_end(self._log_end_offset) | epochs.truncate_from_start(self._log_start_offset)
        self._snapshots.remove_after(self._log_end_offset)
        state = LogState(
            segments=Segments(self._segments),
            log_start_offset=self._log_start_offset,
            log_end_offset=self._log_end_offset,
            recovery_point=self._final_recovery_point(),
            leader_epochs=epochs,
            producers=self._producers,
            snapshots=self._snapshots,
        )
        self.result = Log(self._topic_partition, self._directory, self._config, self._ports, state)
        self._note_damage(self.result)
        if changed or self._report.segments:
            self.result.epochs_dirty = True
        self._report.say(self.result, synced_to=self._recovery_point)

    def _note_damage(self, loaded: Log) -> None:
        loaded.damage = Damage(self._damage)
        if self._hidden_from is not None and self._hidden_from < loaded.log_end_offset:
            loaded.note_hidden(self._hidden_from)
        for damaged in self._damage:
            loaded.note_hidden(damaged.start_offset)
        loaded.damage.keep_segments([segment.base_offset for segment in loaded.segments])
        loaded.damage.keep_within(
            start_offset=loaded.log_start_offset,
            end_offset=loaded.log_end_offset,
            end_position=loaded.segments.active.size_bytes,
        )

    def _final_recovery_point(self) -> int:
        if self._clean and self._report.segments == 0:
            return self._log_end_offset
        return min(self._recovery_point, self._log_end_offset)

    def _start_empty(self) -> None:
        segment = self._new_segment(self._log_start_offset)
        segment.create_files()
        self._segments.append(segment)
        self._log_end_offset = self._log_start_offset
        self._producers = ProducerState(end_offset=self._log_start_offset)

    def _load_producers(self) -> None:
        if self._snapshots.offsets or self._is_ours:
            # A log of ours without any snapshot was stopped while damage hid its producers.
            self._producers = self._producers_at(self._log_end_offset)
            return
        # A clean log without any snapshot was written by a broker that knew no producers (Kafka before 0.11).
        self._producers = ProducerState(end_offset=self._log_end_offset)
