"""One replica of a partition on this broker: its role, its log, and who waits for it.

Owned by the broker's event loop; every method but the coroutines returns without waiting. Invariants:

- at most one append is between its preparation and its publication (`_writing`);
- a role change waits for the append under way, and fails every waiter of the earlier leader epoch before another
  event of the partition is handled;
- the high watermark never falls within a leader epoch, and nothing at or above it reaches a consumer;
- with `flush.messages=1` the high watermark does not pass what an fsync has made durable.

With one replica the high watermark is the replica's own end. What followers report is added to it where
its own end is used (`_advance`), not beside it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.storage.append import AppendInfo, AppendOrigin, PreparedAppend
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log, LogOffline
from replication.waiters import OffsetWaiters

log = logging.getLogger(__name__)

ALL_REPLICAS: Final = -1
FLUSH_EACH_APPEND: Final = 1
_CLIENT: Final = AppendOrigin.CLIENT


class PartitionRefused(Exception):
    """The partition does not do what was asked; `error` is what the peer is told."""

    def __init__(self, error: ErrorCode, message: str = "") -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message or None


class Watcher(Protocol):
    """Someone who wants to know that there may be something new to read."""

    def partition_changed(self, topic_partition: TopicPartition) -> None: ...


class Partition:
    """See the module."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        log_: Log,
        directory: LogDirectory,
        *,
        broker_id: BrokerId,
        clock: Clock,
        spawn: Callable[..., "asyncio.Task[None]"],
    ) -> None:
        self.topic_partition = topic_partition
        self.log = log_
        self.directory = directory
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.isr: tuple[BrokerId, ...] = ()
        self.replicas: tuple[BrokerId, ...] = ()
        self.zk_version = 0
        self.min_in_sync_replicas = 1
        self._broker_id = broker_id
        self._clock = clock
        self._spawn = spawn
        self._writing = asyncio.Lock()
        self._watchers: dict[Watcher, None] = {}
        self._committed: OffsetWaiters[asyncio.Future[None]] = OffsetWaiters()
        self._durable: OffsetWaiters[asyncio.Future[None]] = OffsetWaiters()
        self._flushing = False
        self.is_offline = False

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker_id and not self.is_offline

    # Roles.

    async def become_leader(
        self,
        *,
        leader_epoch: LeaderEpoch,
        isr: tuple[BrokerId, ...],
        replicas: tuple[BrokerId, ...],
        zk_version: int,
        min_in_sync_replicas: int,
    ) -> None:
        """Lead from now on; waiters of earlier epochs fail with NOT_LEADER_OR_FOLLOWER."""
        async with self._writing:
            if leader_epoch > self.leader_epoch:
                self._fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.leader_id = self._broker_id
            self.leader_epoch = leader_epoch
            self.isr = isr
            self.replicas = replicas
            self.zk_version = zk_version
            self.min_in_sync_replicas = min_in_sync_replicas
            self.log.assign_leader_epoch(leader_epoch, start_offset=self.log.log_end_offset)
            self._after_append()
            self._notify()

    async def resign(self, *, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Stop leading: another broker does, or none."""
        async with self._writing:
            self.leader_id = leader_id
            self.leader_epoch = max(self.leader_epoch, leader_epoch)
            self._fail_waiters(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._notify()

    def go_offline(self) -> None:
        """The log's directory has failed: nothing is served from it any more."""
        self.is_offline = True
        self._fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)
        self._notify()

    def require_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Refuse unless this replica leads, and in the epoch that the peer believes in, if it names one (KIP-320)."""
        if self.is_offline:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR)
        if current_leader_epoch not in (NO_LEADER_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            raise PartitionRefused(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader_id != self._broker_id:
            raise PartitionRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Appending.

    def try_append(self, records: memoryview, *, acks: int) -> AppendInfo | None:
        """Append now, or return None when it would have to wait for a slow directory: then await `append`.

        Raises:
            PartitionRefused: not leader, or too few replicas in sync for acks=all.
            AppendRejected: the records are not acceptable; nothing was written.
        """
        directory = self.directory
        if not directory.writes_inline or self._writing.locked():
            return None
        prepared = self._prepare(records, acks)
        if prepared.duplicate is not None:
            return prepared.duplicate
        try:
            written = directory.try_write_inline(prepared)
        except LogOffline as error:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        assert written, "nothing happened between the question and the write"
        info = self.log.publish(prepared)
        self._after_append()
        return info

    async def append(self, records: memoryview, *, acks: int) -> AppendInfo:
        """Append in turn, writing in the directory's own thread. Raises as `try_append`."""
        async with self._writing:
            prepared = self._prepare(records, acks)
            if prepared.duplicate is not None:
                return prepared.duplicate
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
                self._after_append()
            except LogOffline as error:
                if not is_cancelled:
                    raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            if is_cancelled:
                raise asyncio.CancelledError
            return info

    def _prepare(self, records: memoryview, acks: int) -> PreparedAppend:
        if acks == ALL_REPLICAS or self.is_offline or self.leader_id != self._broker_id:
            self._check_append(acks)
        try:
            return self.log.prepare_append(
                records, leader_epoch=self.leader_epoch, origin=_CLIENT, now_ms=self._clock.wall_ms()
            )
        except LogOffline as error:
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except OSError as error:
            # A new segment could not be made.
            self.directory.fail(error)
            raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _check_append(self, acks: int) -> None:
        self.require_leader()
        if acks == ALL_REPLICAS and len(self.isr) < self.min_in_sync_replicas:
            raise PartitionRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {set(self.isr)} is insufficient to satisfy the min.isr requirement "
                f"of {self.min_in_sync_replicas} for partition {self.topic_partition}",
            )

    def _after_append(self) -> None:
        if self.log.needs_flush():
            self._start_flush()
        self._advance()

    def when_acknowledged(self, info: AppendInfo, *, acks: int) -> "asyncio.Future[None] | None":
        """What the answer to an append has to wait for; None when nothing. To be asked before the loop turns again.

        The future fails with PartitionRefused when the leader epoch ends first. A duplicate waits like its original.
        """
        end = info.last_offset + 1
        if acks == ALL_REPLICAS and self.log.high_watermark < end:
            return self._wait(self._committed, end)
        if self.log.config.flush_messages == FLUSH_EACH_APPEND and self.log.recovery_point < end:
            return self._wait(self._durable, end)
        return None

    @staticmethod
    def _wait(waiters: "OffsetWaiters[asyncio.Future[None]]", end: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(end, future)
        return future

    # Durability.

    def _start_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._spawn(self._flush(), name=f"flush {self.topic_partition}")

    async def _flush(self) -> None:
        """Group commit: one fsync at a time, each covering all that was appended before it began."""
        try:
            while self.log.needs_flush() and not self.is_offline:
                await self.directory.flush(self.log, self.log.log_end_offset)
                self._advance()
        except LogOffline:
            # The directory has said so to everyone; the waiters were failed with it.
            return
        finally:
            self._flushing = False

    def _advance(self) -> None:
        """Raise the high watermark as far as it may go, and let go of those who waited for it."""
        if self.leader_id != self._broker_id or self.is_offline:
            return
        log_ = self.log
        if self._durable.next_offset <= log_.recovery_point:
            _complete(self._durable.pop_reached(log_.recovery_point))
        own_end = log_.recovery_point if log_.config.flush_messages == FLUSH_EACH_APPEND else log_.log_end_offset
        if log_.advance_high_watermark(own_end):
            if self._committed.next_offset <= own_end:
                _complete(self._committed.pop_reached(own_end))
            if self._watchers:
                self._notify()

    def _fail_waiters(self, error: ErrorCode) -> None:
        for future in (*self._committed.pop_all(), *self._durable.pop_all()):
            if not future.done():
                future.set_exception(PartitionRefused(error))
                # Whoever waited may be gone; an exception that nobody looks at would be reported to the loop.
                future.exception()

    # Watching.

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def _notify(self) -> None:
        for watcher in tuple(self._watchers):
            watcher.partition_changed(self.topic_partition)


def _complete(futures: "list[asyncio.Future[None]]") -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
