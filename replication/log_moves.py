"""Moves replicas between the log directories of their broker (KIP-113).

A move copies the records of a partition's log into one that gathers in the destination (`storage.future_logs`), beside
whatever is appended meanwhile. When both end at the same offset, nothing is written for as long as it takes to copy
what came last, sync it and let the new log take the place of the old one. Where the old log was cut, the copy is cut
like a follower's (`replication.follower`): by leader epochs.

One task for each move; at most num.replica.alter.log.dirs.threads of them copy at a time. A move that a restart
interrupted goes on when the partition gets a role again.
"""

import asyncio
import logging
from typing import Final

from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.entries import first_entry_offset, read_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.offload import Offload
from barnabas.storage.append import AppendOrigin, AppendRejected, UnexpectedOffset
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import future_directory
from barnabas.storage.index import CorruptIndex
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.read import OffsetOutOfRange
from barnabas.storage.scan import CorruptSegment
from replication.acknowledgements import PartitionRefused
from replication.follower import TruncateTo, decide_truncation, epoch_to_ask
from replication.ports import ReplicationPorts
from replication.replica import Replica

log = logging.getLogger(__name__)

_PIECE_BYTES: Final = 256 * 1024
_FEW_PIECES: Final = 4
"""A rest that is copied while writers wait."""
_THROTTLED_S: Final = 0.1
_ANY_UNIQUE: Final = "0" * 32


class NothingToCopy(Exception):
    """The copy ends before the log does, which has nothing more to copy."""


class LogMoves:
    """See the module."""

    def __init__(self, ports: ReplicationPorts, offload: Offload, *, at_once: int) -> None:
        self._ports = ports
        self._directories = ports.log_directories
        self._offload = offload
        self._lanes = asyncio.Semaphore(at_once)
        self.at_work = 0
        """How many are copied just now."""
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """How many moves are under way."""
        return len(self._tasks)

    def order(
        self, topic_partition: TopicPartition, replica: Replica | None, path: str, *, is_known: bool
    ) -> ErrorCode:
        """Move a replica to the log directory at `path`; the answer is the one of AlterReplicaLogDirs.

        One that is not here but in the cluster (`is_known`) will be made there, if it comes. A move to elsewhere is
        given up.
        """
        if future_directory(topic_partition, _ANY_UNIQUE) is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        destination = next((each for each in self._directories.directories if each.path == path), None)
        if destination is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if destination.is_offline or (replica is not None and replica.is_offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if replica is None and not is_known:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is None:
            self._directories.prefer(topic_partition, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        try:
            return self._begin(replica, destination)
        except LogOffline as error:
            log.error("%s: cannot be moved to %s: %s", topic_partition, path, error)
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _begin(self, replica: Replica, destination: LogDirectory) -> ErrorCode:
        topic_partition, futures = replica.topic_partition, self._directories.futures
        found = futures.find(topic_partition)
        if found is not None and found[0] is not destination:
            self.interrupt(topic_partition)
            futures.discard(topic_partition)
            found = None
        # A move that is about to end has put the log there before the replica goes on with it.
        if self._directories.directory_of(topic_partition) is destination:
            return ErrorCode.NONE
        if found is None:
            if self._directories.offline_directories():
                # One of them may hold such a log already.
                return ErrorCode.KAFKA_STORAGE_ERROR
            log.info("%s: moves from %s to %s", topic_partition, replica.directory.path, destination.path)
            futures.create(topic_partition, destination, replica.log.config)
        self.resume(replica)
        return ErrorCode.NONE

    def resume(self, replica: Replica) -> None:
        """Go on with the move of a replica, if one has begun."""
        topic_partition = replica.topic_partition
        found = self._directories.futures.find(topic_partition)
        # One that gathers beside the replica's own is no move: it is fetched anew (`replication.log_renewal`).
        if topic_partition not in self._tasks and found is not None and found[0] is not replica.directory:
            task = self._ports.spawn(self._run(replica), name=f"move {topic_partition}")
            self._tasks[topic_partition] = task
            task.add_done_callback(lambda done: self._forget(topic_partition, done))

    def _forget(self, topic_partition: TopicPartition, done: "asyncio.Task[None] | None") -> None:
        if self._tasks.get(topic_partition) is done:
            del self._tasks[topic_partition]

    def interrupt(self, topic_partition: TopicPartition) -> None:
        """Copy no more; what was gathered stays."""
        task = self._tasks.pop(topic_partition, None)
        if task is not None:
            task.cancel()

    def set_aside(self, replica: Replica) -> LogDirectory | None:
        """Give up what a move that came to a stand has gathered: where it went, None where no move stands."""
        topic_partition, futures = replica.topic_partition, self._directories.futures
        found = futures.find(topic_partition)
        if found is None or found[0] is replica.directory or topic_partition in self._tasks:
            return None
        log.info("%s: its move to %s stands still and begins again later", topic_partition, found[0].path)
        futures.discard(topic_partition)
        return found[0]

    def begin_again(self, replica: Replica, destination: LogDirectory) -> None:
        """After `set_aside`."""
        if not (destination.is_offline or replica.is_offline):
            self._begin(replica, destination)

    async def stop(self) -> None:
        """Copy nothing any more; returns when no move is at work."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, replica: Replica) -> None:
        topic_partition = replica.topic_partition
        try:
            async with self._lanes:
                found = self._directories.futures.find(topic_partition)
                if found is None or replica.is_offline:
                    return
                self.at_work += 1
                try:
                    copy = LogCopy(replica, *found, self._ports, self._offload)
                    await copy.fill(nearly=True)
                    await replica.exchange_log(copy.finish)
                finally:
                    self.at_work -= 1
            # It may have been sent on before the replica went on with its new log.
            self._forget(topic_partition, asyncio.current_task())
            self.resume(replica)
        except (LogOffline, PartitionRefused) as error:
            log.warning("%s: the move to another log directory is over: %s", topic_partition, error)
        except (AppendRejected, CorruptBatch, CorruptSegment, CorruptIndex, NothingToCopy) as error:
            log.error("%s: cannot be moved to another log directory: %s", topic_partition, error)
            if found is not None:
                replica.directory.suspect(replica.log, found[1].log_end_offset)


class LogCopy:
    """A log that gathers what the replica's has, from the end of what it has already, but not below `floor`."""

    def __init__(
        self,
        replica: Replica,
        directory: LogDirectory,
        future: Log,
        ports: ReplicationPorts,
        offload: Offload,
        *,
        floor: int = 0,
    ) -> None:
        self._replica = replica
        self._directory = directory
        self._future = future
        self._futures = ports.log_directories.futures
        self._clock = ports.clock
        self._quota = ports.quotas.moves
        self._offload = offload
        self._floor = floor
        self._agreed_after: tuple[Log, int] | None = None

    async def fill(self, *, nearly: bool) -> None:
        """Copy until both logs end at the same offset; with `nearly` until the rest is little and may be new.

        Raises LogOffline and what a bad log raises.
        """
        future = self._future
        target, pieces = self._replica.log.log_end_offset, 0
        while True:
            present = self._replica.log
            state = present, present.truncations
            if self._agreed_after != state:
                await self._agree(present)
                self._agreed_after = state
            elif future.log_end_offset == present.log_end_offset:
                return
            elif nearly and future.log_end_offset >= target:
                if pieces <= _FEW_PIECES:
                    return
                target, pieces = present.log_end_offset, 0
            else:
                if nearly:
                    await self._wait_for_quota()
                await self._copy_piece(present)
                pieces += 1

    async def _wait_for_quota(self) -> None:
        while self._quota.is_exceeded(self._clock.monotonic_ms()):  # noqa: ASYNC110 - only time ends it
            await asyncio.sleep(_THROTTLED_S)

    async def finish(self) -> tuple[Log, LogDirectory]:
        """Copy the rest, while nothing is written, and let the new log take the place."""
        await self.fill(nearly=False)
        return await self._futures.put_in_place(self._replica.log, self._replica.directory)

    async def _agree(self, present: Log) -> None:
        """Cut the copy to where it agrees with the log."""
        future = self._future
        while (epoch := epoch_to_ask(future.leader_epochs)) is not None:
            step = decide_truncation(
                future.leader_epochs,
                log_end_offset=future.log_end_offset,
                high_watermark=future.log_start_offset,
                answer=present.end_offset_for_epoch(epoch),
            )
            await self._futures.truncate(self._directory, future, step.offset)
            if isinstance(step, TruncateTo):
                break
        if epoch is None and future.log_end_offset > present.high_watermark:
            # Without epochs (old message formats have none) only what is committed is sure to be the same.
            await self._futures.truncate(self._directory, future, present.high_watermark)
        if future.log_start_offset > present.log_start_offset or future.log_end_offset > present.log_end_offset:
            await self._futures.restart_at(self._directory, future, present.log_start_offset)

    async def _copy_piece(self, present: Log) -> None:
        future = self._future
        try:
            read = present.read(
                max(future.log_end_offset, present.log_start_offset, self._floor),
                max_bytes=_PIECE_BYTES,
                upper_bound_offset=present.log_end_offset,
                min_one_batch=True,
            )
        except OffsetOutOfRange:
            self._agreed_after = None
            return
        except OSError as error:
            raise self._source_failed(error) from error
        if read.slice is None:
            if future.log_end_offset < present.log_start_offset == present.log_end_offset:
                # Retention or DeleteRecords took all that there was.
                await self._futures.restart_at(self._directory, future, present.log_start_offset)
                return
            # What is below the floor is not copied, and above it there is nothing.
            raise NothingToCopy(f"nothing follows offset {read.offset}, and the copy ends at {future.log_end_offset}")
        try:
            data = await self._offload.thread(f"move:{self._replica.directory.path}", read.slice.read)
        except OSError as error:
            raise self._source_failed(error) from error
        finally:
            read.slice.release()
        if (present, present.truncations) != self._agreed_after:
            return
        self._quota.record(len(data), self._clock.monotonic_ms())
        first_offset = first_entry_offset(data, 0, read_entry(data), present.config.max_decompressed_bytes)
        if future.log_end_offset < min(first_offset, present.log_start_offset):
            # Retention has passed the copy.
            await self._futures.restart_at(self._directory, future, first_offset)
        await self.append(memoryview(bytearray(data)))

    def _source_failed(self, error: OSError) -> LogOffline:
        if error.errno not in OUT_OF_RESOURCES:
            self._replica.directory.fail(error)
        return LogOffline(f"{self._replica.directory.path}: {error}")

    async def append(self, records: memoryview) -> None:
        """Append to the log that gathers. Raises LogOffline and AppendRejected."""
        future, directory = self._future, self._directory
        try:
            prepared = future.prepare_append(
                records, leader_epoch=-1, origin=AppendOrigin.REPLICATION, now_ms=self._clock.wall_ms()
            )
        except UnexpectedOffset as error:
            end = future.log_end_offset
            if future.log_start_offset != end or not error.first_offset < end <= error.last_offset:
                raise
            # The log starts within a batch.
            await self._futures.restart_at(directory, future, error.first_offset)
            return
        except OSError as error:
            directory.fail(error)
            raise LogOffline(directory.path) from error
        if not directory.try_write_inline(prepared):
            await directory.write_in_thread(prepared)
        future.publish(prepared)
        await asyncio.sleep(0)
