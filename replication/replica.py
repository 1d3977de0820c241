"""One replica of a partition on this broker: its log, who watches it, and what a follower does with it.

Owned by the broker's event loop. Invariants:

- at most one append or cut of the log is under way (`_writing`);
- a follower appends, cuts and moves its high watermark only under the leader epoch that it follows; whoever fetches for
  it (`replication.fetcher`) names the epoch each time, so that nothing that was under way outlives a role change;
- with `flush.messages=1` a follower has records, and asks for the next ones, only when they are durable.

The leader's side, and the change of roles, is `replication.partition`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, NO_LEADER_EPOCH, LeaderEpoch, TopicPartition
from barnabas.runtime.tasks import uncancelled
from barnabas.storage.append import AppendInfo, AppendOrigin, PreparedAppend
from barnabas.storage.append_conversion import ConvertedSet
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.log_config import MAX_INT64
from barnabas.storage.replicated_append import has_more
from replication.acknowledgements import PartitionRefused
from replication.conversion import convert_in_turns
from replication.leader import fence
from replication.ports import ReplicationPorts


class Watcher(Protocol):
    """Someone who wants to know that there may be something new to read."""

    def partition_changed(self, topic_partition: TopicPartition) -> None: ...


class FollowerWatcher(Protocol):
    """A follower that fetches: it reads to the log's end, and a move of the high watermark is no reason to wake it."""

    def partition_changed(self, topic_partition: TopicPartition) -> None: ...

    def watermark_changed(self, topic_partition: TopicPartition) -> None: ...


class Replica:
    """See the module."""

    def __init__(
        self, topic_partition: TopicPartition, log_: Log, directory: LogDirectory, ports: ReplicationPorts
    ) -> None:
        self.topic_partition = topic_partition
        self.log = log_
        self.directory = directory
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.is_offline = False
        self.throttled_as_leader = False
        """Whether followers that lag get from here no more than the quota allows (KIP-73)."""
        self.throttled_as_follower = False
        """Whether it fetches no more than the quota allows while it lags."""
        self._ports = ports
        self._broker_id = ports.broker_id
        self._clock = ports.clock
        self._writing = asyncio.Lock()
        self._watchers: dict[Watcher, None] = {}
        self._follower_watchers: dict[FollowerWatcher, None] = {}

    def require_replica(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Refuse where the log is offline, or the peer believes in another leader epoch, if it names one (KIP-320).

        For whoever may read from a follower too.
        """
        if self.is_offline:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR)
        error = fence(current_leader_epoch, own_epoch=self.leader_epoch)
        if error is not ErrorCode.NONE:
            raise PartitionRefused(error)

    # Writing.

    @property
    def is_being_written(self) -> bool:
        """Whether an append would have to wait for another, for a cut, or for a change of the files."""
        return self._writing.locked()

    def _prepare_from(
        self, records: memoryview, origin: AppendOrigin, converted: ConvertedSet | None = None
    ) -> PreparedAppend:
        try:
            return self.log.prepare_append(
                records,
                leader_epoch=self.leader_epoch,
                origin=origin,
                now_ms=self._clock.wall_ms(),
                converted=converted,
            )
        except LogOffline as offline:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(offline)) from offline
        except OSError as error:
            # A new segment could not be made.
            self.directory.fail(error)
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _write_now(self, prepared: PreparedAppend) -> AppendInfo:
        """Write inline; the directory must have said that it does."""
        try:
            written = self.directory.try_write_inline(prepared)
        except LogOffline as error:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        assert written, "nothing happened between the question and the write"
        info = self.log.publish(prepared)
        self._after_append(info)
        return info

    async def _write(self, prepared: PreparedAppend) -> AppendInfo:
        """Write in turn, in the directory's own thread while that is slow."""
        # Those who queued while it was must not keep it out of the loop when it is quick again.
        return self._write_now(prepared) if self.directory.writes_inline else await self._write_in_thread(prepared)

    async def _write_in_thread(self, prepared: PreparedAppend) -> AppendInfo:
        writing = asyncio.ensure_future(self.directory.write_in_thread(prepared))
        is_cancelled = False
        while not writing.done():
            try:
                await asyncio.wait((writing,))
            except asyncio.CancelledError:
                # The thread writes on: the place is taken until it is known what became of it.
                is_cancelled = True
        try:
            writing.result()
            info = self.log.publish(prepared)
            self._after_append(info)
        except LogOffline as error:
            if not is_cancelled:
                raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if is_cancelled:
            raise asyncio.CancelledError
        return info

    async def _convert(self, records: memoryview, origin: AppendOrigin) -> ConvertedSet:
        """What a large set is to be appended as, with turns for others. Raises AppendRejected."""
        epoch, clock = self.leader_epoch, self._clock
        return await convert_in_turns(self.log, records, leader_epoch=epoch, origin=origin, clock=clock)

    def _after_append(self, info: AppendInfo) -> None:
        """Records were appended; to be done before the loop turns again."""

    # Following.

    def try_append_as_follower(self, records: memoryview, *, leader_epoch: LeaderEpoch) -> int:
        """Append now what need not wait, for a slow directory, a flush or others' turns; how many bytes are done with.

        What follows these is for `append_as_follower`. Raises as that does.
        """
        log_ = self.log
        if not self.directory.writes_inline or self._writing.locked() or log_.config.flush_messages != MAX_INT64:
            return 0
        self._require_following(leader_epoch)
        prepared = self._prepare_from(records, AppendOrigin.REPLICATION)
        self._write_now(prepared)
        return self._done_bytes(records, prepared)

    def _done_bytes(self, records: memoryview, written: PreparedAppend) -> int:
        """Count what was written of a leader's records; how many bytes are done with: nothing follows a cut batch."""
        taken_bytes = len(written.data)
        self._ports.counts.bytes_in += taken_bytes
        return taken_bytes if has_more(records, taken_bytes) else len(records)

    async def append_as_follower(self, records: memoryview, *, leader_epoch: LeaderEpoch) -> int:
        """Append what the leader has sent, unchanged; the log's end then, durable where `flush.messages` says so.

        Raises:
            PartitionRefused: FENCED_LEADER_EPOCH when this replica follows nobody in that epoch any more.
            AppendRejected: the bytes are not what belongs there; UnexpectedOffset when they begin elsewhere.
        """
        async with self._writing:
            log_ = self.log
            self._require_following(leader_epoch)
            while True:
                prepared = self._prepare_from(records, AppendOrigin.REPLICATION)
                await self._write(prepared)
                done_bytes = self._done_bytes(records, prepared)
                if done_bytes == len(records):
                    break
                # Thousands of old messages: others have their turn.
                records = records[done_bytes:]
                await asyncio.sleep(0)
                self._require_following(leader_epoch)
            end = log_.log_end_offset
        if log_.needs_flush():
            await self._flush_up_to(log_, end)
        return end

    async def flush_as_follower(self, *, leader_epoch: LeaderEpoch) -> None:
        """Have all that is there on the disk. Raises PartitionRefused, also where it follows in another epoch."""
        self._require_following(leader_epoch)
        await self._flush_up_to(self.log, self.log.log_end_offset)

    async def _flush_up_to(self, log_: Log, end: int) -> None:
        try:
            await self.directory.flush(log_, end)
        except LogOffline as error:
            # A log that took its place meanwhile is durable.
            if log_ is self.log:
                raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def apply_leader_progress(self, *, leader_epoch: LeaderEpoch, high_watermark: int, log_start_offset: int) -> None:
        """Take over how far the leader's log is committed, and where it starts, as far as this log goes.

        Raises:
            PartitionRefused: as `append_as_follower`.
        """
        self._require_following(leader_epoch)
        log_ = self.log
        has_risen = log_.advance_high_watermark(min(high_watermark, log_.log_end_offset))
        has_moved = self.advance_log_start(min(log_start_offset, log_.high_watermark))
        if (has_risen or has_moved) and self._watchers:
            self.notify()

    def advance_log_start(self, offset: int) -> bool:
        """Give up what is below `offset`. Raises OffsetOutOfRange, and PartitionRefused: KAFKA_STORAGE_ERROR."""
        try:
            return self.log.advance_log_start_offset(offset)
        except OSError as error:
            self.directory.fail(error)
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    @property
    def has_start_to_keep(self) -> bool:
        """Whether a power cut could still undo the last move of the log's start."""
        return self.log.durable_start_offset < self.log.log_start_offset and not self.is_offline

    async def keep_start(self) -> bool:
        """Return once the log's start, as it is now, is durable; False where its directory failed or it is gone."""
        log_ = self.log
        try:
            await self.directory.keep_start(log_)
        except LogOffline:
            # Another may have taken its place meanwhile.
            return log_ is not self.log
        return True

    async def truncate_to(self, offset: int, *, leader_epoch: LeaderEpoch) -> None:
        """Cut the log to agree with the leader's; returns when the cut is synced.

        Raises:
            PartitionRefused: as `append_as_follower`.
            CorruptSegment: what lies there cannot be read.
        """
        async with self._writing:
            self._require_following(leader_epoch)
            try:
                if offset >= self.log.log_end_offset:
                    # Nothing but an epoch without records may go.
                    self.log.truncate_to(offset)
                else:
                    # Whole: nothing may be appended to a log whose cut a power failure could undo.
                    await uncancelled(self._ports.log_directories.truncate({self.topic_partition: offset}))
            except LogOffline as error:
                raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            self.notify()

    async def restart_at(self, offset: int, *, leader_epoch: LeaderEpoch) -> None:
        """Drop the whole log and go on, empty, at `offset`: the leader has nothing below. Raises as `truncate_to`."""
        async with self._writing:
            self._require_following(leader_epoch)
            try:
                await uncancelled(self._ports.log_directories.restart_at(self.topic_partition, offset))
            except LogOffline as error:
                raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            self.notify()

    async def exchange_log(self, exchange: Callable[[], Coroutine[Any, Any, tuple[Log, LogDirectory]]]) -> None:
        """Go on with another log of the same records; nothing is written while `exchange` makes it.

        Raises:
            PartitionRefused: KAFKA_STORAGE_ERROR, the log's directory is offline.
        """
        async with self._writing:
            if self.is_offline:
                raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR)
            await uncancelled(self._exchange(exchange))

    async def change_files(self, change: Callable[[], Coroutine[Any, Any, None]], *, leader_epoch: LeaderEpoch) -> None:
        """Change files of the log while this replica follows in that epoch and nothing is appended or cut.

        Raises:
            PartitionRefused: as `append_as_follower`; and what `change` raises.
        """
        async with self._writing:
            self._require_following(leader_epoch)
            await uncancelled(change())

    async def _exchange(self, exchange: Callable[[], Coroutine[Any, Any, tuple[Log, LogDirectory]]]) -> None:
        self.log, self.directory = await exchange()
        self._after_exchange()
        self.notify()

    def _after_exchange(self) -> None:
        """The log is another, and durable."""

    def go_offline(self) -> None:
        """The log's directory has failed: nothing is served from it any more."""
        self.is_offline = True
        self.notify()

    def _require_following(self, leader_epoch: LeaderEpoch) -> None:
        if self.is_offline:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR)
        if leader_epoch != self.leader_epoch or self.leader_id in (self._broker_id, NO_LEADER):
            raise PartitionRefused(ErrorCode.FENCED_LEADER_EPOCH)

    # Watching.

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def watch_end(self, watcher: FollowerWatcher) -> None:
        """As `watch`, for who reads to the log's end."""
        self._follower_watchers[watcher] = None

    def unwatch_end(self, watcher: FollowerWatcher) -> None:
        self._follower_watchers.pop(watcher, None)

    def notify_followers(self) -> None:
        """Have those looked at who read to the log's end."""
        for watcher in tuple(self._follower_watchers):
            watcher.partition_changed(self.topic_partition)

    def _look_at_followers(self) -> None:
        """Have the next request of each follower looked at, though there is nothing to wake it for."""
        for follower in tuple(self._follower_watchers):
            follower.watermark_changed(self.topic_partition)

    def notify(self) -> None:
        """Have those looked at who watch this partition."""
        for watcher in (*self._watchers, *self._follower_watchers):
            watcher.partition_changed(self.topic_partition)
