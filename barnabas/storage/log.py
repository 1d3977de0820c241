"""The log of one partition: segments, offsets, leader epochs and producers.

Owned by the event loop: every method runs there unless it says otherwise, and none awaits. Appending is in append.py,
reading in read.py, truncation in truncation.py, loading in recovery.py.

Invariants: durable_start_offset (what is sure to outlive a power cut) <= log_start_offset <= high_watermark <=
log_end_offset; the recovery point (below which all is synced) is not above the end and never moves before its fsync
returned; producers are applied up to the end; every leader epoch begins below the end, but for the current one. After
an I/O error `offline` is set for good: nothing is taken or given any more.

What must reach the disk but not before an answer goes out is handed to the owner, the log directory: it runs flushes
in its thread, removes files after their delay and sees to the failure of any of these.
"""

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.protocol.batch import CURRENT_MAGIC
from barnabas.protocol.ids import TopicPartition
from barnabas.storage.append import (
    AppendInfo,
    AppendOrigin,
    PreparedAppend,
    append_at_once,
    apply_append,
    prepare_converted,
    prepare_from_client,
)
from barnabas.storage.append_conversion import ConvertedSet
from barnabas.storage.damage import Damage
from barnabas.storage.leader_epochs import EpochEnd
from barnabas.storage.log_config import MAX_INT32, LogConfig
from barnabas.storage.log_parts import LogFlush, LogPorts, LogState
from barnabas.storage.read import (
    LogRead,
    OffsetOutOfRange,
    TimestampSearch,
    find_aborted,
    offset_bound,
    offsets_before,
    read_log,
    search_timestamp,
)
from barnabas.storage.replicated_append import prepare_from_leader
from barnabas.storage.retention import SegmentFacts, decide_retention
from barnabas.storage.segment import Segment
from barnabas.storage.truncation import cut_offset, truncate, truncate_fully
from barnabas.storage.txn_index import AbortedTxn

log = logging.getLogger(__name__)

# A member of an enumeration costs more to look up than a name of the module.
_REPLICATION: Final = AppendOrigin.REPLICATION


class LogOffline(Exception):
    """The log's directory failed, or the log was closed or deleted."""


class Log:
    """One partition's log."""

    __slots__ = (
        "_reserved",
        "_truncations",
        "config",
        "damage",
        "directory",
        "directory_synced",
        "durable_start_offset",
        "epochs_dirty",
        "generation",
        "hidden_from",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "offline",
        "ports",
        "producers",
        "recovery_point",
        "segments",
        "snapshots",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, directory: str, config: LogConfig, ports: LogPorts, state: LogState
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.ports = ports
        self.segments = state.segments
        self.log_start_offset = self.durable_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.recovery_point = state.recovery_point
        self.high_watermark = state.log_start_offset
        self.leader_epochs = state.leader_epochs
        self.producers = state.producers
        self.snapshots = state.snapshots
        self.damage = Damage()
        """What of it is not served to anybody; see `scrubber`."""
        self.hidden_from: int | None = None
        """From where its producers and aborted transactions lack what damage hid (`producer_rebuilding.py`)."""
        self.offline = False
        self.directory_synced = True
        self.last_flush_ms = ports.clock.monotonic_ms()
        self.epochs_dirty = False
        self._reserved: PreparedAppend | None = None
        self._truncations = 0
        self.generation = 0
        """A number that changes when what a cleaning has read, or may replace, is the log's no longer."""

    # Appending

    def prepare_append(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        origin: AppendOrigin,
        now_ms: int,
        converted: ConvertedSet | None = None,
    ) -> PreparedAppend:
        """Check batches and reserve their place; a client's are stamped in `records`, which the log owns from now on.

        Raises AppendRejected (nothing changed), LongConversion, LogOffline, or OSError when rolling failed.
        """
        if self.offline:
            raise LogOffline(str(self.topic_partition))
        assert self._reserved is None, f"{self.topic_partition}: an append is under way"
        try:
            if origin is _REPLICATION:
                prepared = prepare_from_leader(self, records, now_ms=now_ms)
            elif converted is not None:
                prepared = prepare_converted(self, converted, origin=origin, now_ms=now_ms)
            else:
                prepared = prepare_from_client(self, records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
        except OSError:
            self.offline = True
            raise
        if prepared.duplicate is None:
            self._reserved = prepared
        return prepared

    def write(self, prepared: PreparedAppend) -> None:
        """Write what was prepared; may run in a thread. Raises OSError, and then the log takes nothing more."""
        assert prepared is self._reserved
        prepared.write()

    def publish(self, prepared: PreparedAppend) -> AppendInfo:
        """Count in what was written. A duplicate needs no write: its original is the answer. Raises LogOffline."""
        if prepared.duplicate is not None:
            return prepared.duplicate
        assert prepared is self._reserved
        self._reserved = None
        if self.offline:
            raise LogOffline(str(self.topic_partition))
        return apply_append(self, prepared)

    def abandon(self, prepared: PreparedAppend) -> None:
        """Give up what was prepared. What was written of it lies behind the log's end and is written over."""
        assert prepared is self._reserved
        self._reserved = None

    def append(self, records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int) -> AppendInfo:
        """All phases in one, for who may take the time."""
        return append_at_once(self, records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)

    def segment_for_append(
        self, *, size_bytes: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> Segment:
        """The active segment, a new one when these batches must not go into the present one."""
        active = self.segments.active
        reason = active.roll_reason(
            self.config, size_bytes=size_bytes, last_offset=last_offset, max_timestamp=max_timestamp, now_ms=now_ms
        )
        if reason is None:
            return active
        # At the log's end rather than at the first batch, so that a gap between segments means a loss to recovery.
        fits = last_offset - self.log_end_offset <= MAX_INT32
        return self._roll(self.log_end_offset if fits else first_offset, reason)

    def roll(self, reason: str = "asked for") -> Segment:
        """Begin a new segment at the log's end, unless the active one is empty."""
        assert self._reserved is None, f"{self.topic_partition}: an append is under way"
        active = self.segments.active
        return active if active.base_offset == self.log_end_offset else self._roll(self.log_end_offset, reason)

    def _roll(self, base_offset: int, reason: str) -> Segment:
        old = self.segments.active
        if old.base_offset == base_offset:
            assert old.size_bytes == 0
            return old
        old.seal()
        self.producers.end_offset = base_offset
        if self.hidden_from is None:
            self.snapshots.write(self.producers)
        segment = self.new_segment(base_offset)
        self.segments.append(segment)
        log.info("%s: rolled a segment at offset %d: %s", self.topic_partition, base_offset, reason)
        self.ports.owner.flush_soon(self, base_offset)
        return segment

    def new_segment(self, base_offset: int) -> Segment:
        """Make the files of a segment that begins at `base_offset`; it is not in the log yet."""
        segment = Segment(self.ports.files, self.directory, base_offset, created_ms=self.ports.clock.wall_ms())
        segment.choose_jitter(self.config, self.ports.random)
        segment.create_files()
        return segment

    # Reading

    def read(self, offset: int, *, max_bytes: int, upper_bound_offset: int, min_one_batch: bool) -> LogRead:
        """See `read_log`. Raises OffsetOutOfRange, LogOffline, CorruptSegment or OSError."""
        if self.offline:
            raise LogOffline(str(self.topic_partition))
        return read_log(
            self, offset, max_bytes=max_bytes, upper_bound_offset=upper_bound_offset, min_one_batch=min_one_batch
        )

    def offset_bound(self, read: LogRead) -> int:
        """An offset above all that the slice of `read` holds, to search aborted transactions below."""
        return offset_bound(self, read)

    def search_timestamp(self, timestamp: int) -> TimestampSearch:
        """The first record whose timestamp is at least `timestamp`, in steps; see `read.search_timestamp`."""
        if self.offline:
            raise LogOffline(str(self.topic_partition))
        return search_timestamp(self, timestamp)

    def offsets_before(self, timestamp: int, *, max_count: int) -> list[int]:
        """What ListOffsets v0 answers; see read.offsets_before."""
        return offsets_before(self, timestamp, max_count=max_count, now_ms=self.ports.clock.wall_ms())

    def aborted_transactions(self, *, start: int, upper: int) -> list[AbortedTxn]:
        """The aborted transactions with a record in [start, upper)."""
        return find_aborted(self, start=start, upper=upper)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        """Where the leader of `epoch` stopped writing; see `LeaderEpochs.end_offset_for`."""
        return self.leader_epochs.end_offset_for(epoch, log_end_offset=self.log_end_offset)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes()

    # Offsets and epochs

    @property
    def last_stable_offset(self) -> int:
        """The end of what a read_committed consumer may see (KIP-98)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark; a lower or equal offset does nothing."""
        assert offset <= self.log_end_offset, f"{self.topic_partition}: {offset} is above {self.log_end_offset}"
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self.producers.apply_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: int) -> int:
        """Put the high watermark, a follower's or one from a checkpoint, as near to `offset` as the log allows."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.apply_high_watermark(self.high_watermark)
        return self.high_watermark

    def advance_log_start_offset(self, offset: int) -> bool:
        """Give up what is below `offset`. Raises OffsetOutOfRange above the high watermark, and OSError."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(offset, log_start_offset=self.log_start_offset, log_end_offset=self.high_watermark)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.generation += 1
        if self.leader_epochs.truncate_from_start(offset):
            self.epochs_dirty = True
        self.snapshots.remove_before(offset)
        log.info("%s: the log starts at offset %d now", self.topic_partition, offset)
        return True

    def assign_leader_epoch(self, epoch: int, *, start_offset: int) -> None:
        """Note that the leader of `epoch` begins to write at `start_offset`; old message formats know no epochs."""
        epochs, knows_epochs = self.leader_epochs, self.config.message_format == CURRENT_MAGIC
        if epochs.assign(epoch, start_offset=start_offset) if knows_epochs else epochs.clear():
            self.note_epochs_changed()

    def note_epochs_changed(self) -> None:
        """See to it that the leader epochs reach the disk soon."""
        self.epochs_dirty = True
        self.ports.owner.flush_soon(self, self.recovery_point)

    # Truncation

    def truncate_to(self, offset: int) -> bool:
        """Cut the batches that reach to `offset` or over it. False when the log ends before; see truncation.py."""
        self._begin_truncation()
        return truncate(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and begin again, empty, at `offset`."""
        self._begin_truncation()
        truncate_fully(self, offset)

    @property
    def truncations(self) -> int:
        """A number that changes with each cut: who copies the log must look again."""
        return self._truncations

    def lower_recovery_point(self, offset: int) -> None:
        """Let recovery look at everything that a cut at `offset` will touch. Raises OSError or CorruptSegment."""
        self.recovery_point = min(self.recovery_point, cut_offset(self, offset))
        self._truncations += 1
        self.generation += 1

    def note_hidden(self, offset: int) -> None:
        """Say that what is damaged at `offset` was left out when producers were read from the log."""
        self.hidden_from = offset if self.hidden_from is None else min(self.hidden_from, offset)

    def _begin_truncation(self) -> None:
        assert self._reserved is None, f"{self.topic_partition}: an append is under way"
        if self.offline:
            raise LogOffline(str(self.topic_partition))
        self._truncations += 1
        self.generation += 1

    # Flushing

    @property
    def unflushed_messages(self) -> int:
        return self.log_end_offset - self.recovery_point

    def needs_flush(self) -> bool:
        """Whether flush.messages asks for a flush before anything more is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def is_flushed(self, up_to: int) -> bool:
        """Whether all below `up_to` (and below the end) survives a power cut, with what a flush does besides."""
        return (
            self.recovery_point >= min(up_to, self.log_end_offset)
            and not self.epochs_dirty
            and self.segments.growing()[0] is self.segments.active
        )

    @property
    def recovery_point_to_keep(self) -> int:
        """The recovery point as a checkpoint may say it: a segment that ends at or below it has its indexes on disk.

        A segment may be rolled at the recovery point at any time, and its indexes be lost then. So unless a segment
        begins there already, to stay, one less is said: recovery looks at the segment that holds that offset.
        """
        point, segments = self.recovery_point, self.segments
        oldest = segments.growing()[0]
        if oldest is not segments.active:
            point = min(point, oldest.base_offset)
        place = segments.place_of(point)
        begins_there = place >= 0 and segments[place].base_offset == point and segments[place].directory_synced
        return point if begins_there else max(point - 1, 0)

    def plan_flush(self, up_to: int | None = None, *, closing: bool = False) -> LogFlush:
        """What to sync so that all below `up_to` (the end, if not given) survives a power cut.

        Carry out its `sync`, in a thread if you like, then call `finish_flush`. With `closing` the indexes of the
        active segment are written too.
        """
        end = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if closing:
            self.segments.active.complete()
        flushes = [
            segment.plan_flush(indexes=closing)
            for segment in self.segments.growing()
            if (closing and not segment.is_complete)
            or segment.sealed
            or segment.cut_unsynced
            or (segment.base_offset < end and end > self.recovery_point and segment.needs_flush)
        ]
        epochs = self.leader_epochs.encode() if self.epochs_dirty else None
        self.epochs_dirty = False
        return LogFlush(
            self.ports.disk,
            self.directory,
            end,
            tuple(flushes),
            self.snapshots.take_unsynced(),
            tuple(self.segments.growing()),
            epochs,
            not self.directory_synced,
            self._truncations,
        )

    def finish_flush(self, flush: LogFlush, *, succeeded: bool) -> None:
        """Move the recovery point after a flush, unless a truncation overtook it; after a failure nothing moves."""
        overtaken = flush.truncations != self._truncations
        for segment_flush in flush.segments:
            segment_flush.segment.finish_flush(segment_flush, succeeded=succeeded and not overtaken)
        if not succeeded:
            self.offline = True
            return
        self.directory_synced = True
        for segment in flush.named if flush.syncs_directory else ():
            segment.directory_synced = True
        if not overtaken:
            self.recovery_point = max(self.recovery_point, flush.up_to)
            self.last_flush_ms = self.ports.clock.monotonic_ms()

    def flush(self, up_to: int | None = None, *, closing: bool = False) -> None:
        """Plan, sync and finish at once, for who may wait. Raises OSError, and then the log is offline."""
        flush = self.plan_flush(up_to, closing=closing)
        succeeded = False
        try:
            flush.sync()
            succeeded = True
        finally:
            self.finish_flush(flush, succeeded=succeeded)

    # Maintenance

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete what retention does not keep; how many segments. Raises OSError."""
        facts = [
            SegmentFacts(segment.base_offset, end, segment.size_bytes, segment.largest_timestamp())
            for segment, end in zip(self.segments, self.segments.ends(), strict=True)
        ]
        deletions = decide_retention(
            facts,
            self.config,
            now_ms=now_ms,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
        )
        if self._reserved is not None:
            # Its records count only when they are written: the segment that they are written to stays.
            deletions = deletions[: len(self.segments) - 1]
        if not deletions:
            return 0
        for deletion in deletions:
            log.info("%s: the segment at %d goes: %s", self.topic_partition, deletion.base_offset, deletion.reason)
        if len(deletions) == len(self.segments):
            self.roll("retention takes the active segment")
        self.discard(self.segments.remove_first(len(deletions)))
        self.advance_log_start_offset(self.segments.first.base_offset)
        return len(deletions)

    def discard(self, segments: Sequence[Segment]) -> None:
        """Rename segments that are no longer in the log, and have their files removed later."""
        for segment in segments:
            segment.rename(".deleted")
        if segments:
            self.ports.owner.remove_later(segments, self.config.file_delete_delay_ms)

    def remove_old_snapshots(self) -> None:
        """Remove the snapshots that no recovery and no cut starts from, for the checkpoint's point. Raises OSError."""
        active = self.segments.active
        below_active = self.segments.below(active) or active
        held = self.segments.place_of(self.recovery_point - 1)
        recovery_start = self.segments[held].base_offset if held >= 0 else self.recovery_point
        # Nothing committed is cut. Behind that snapshot the batches may not tell all any more: the cleaner took some.
        cut_start = self.snapshots.newest_at(self.high_watermark)
        self.snapshots.remove_before(min(recovery_start, below_active.base_offset, cut_start))

    # The end

    def close(self) -> None:
        """Flush everything, with indexes and a snapshot, and close the files. Raises OSError."""
        assert self._reserved is None, f"{self.topic_partition}: an append is under way"
        self.write_snapshot()
        self.flush(closing=True)
        self.release()

    def write_snapshot(self) -> None:
        """Write a snapshot of the producers at the log's end, so that the next start need not read the log."""
        if self.hidden_from is not None:
            # The next start would take one right below the end for the one at the end, and cut what follows it.
            if self.snapshots.remove_at(self.log_end_offset - 1):
                self.directory_synced = False
        elif self.log_end_offset > self.log_start_offset:
            self.snapshots.write(self.producers)

    def move(self, directory: str) -> None:
        """Say that the log's directory was renamed; files that are open stay so."""
        self.directory = self.snapshots.directory = directory
        self.generation += 1
        for segment in self.segments:
            segment.directory = directory

    def release(self) -> None:
        """Refuse everything from now on and close the files, each after its last slice."""
        self.offline = True
        self.generation += 1
        for segment in self.segments:
            segment.close()
