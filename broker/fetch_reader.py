"""Reads the partitions of a Fetch: bounds, isolation, and what each answer says.

A follower reads to the log's end. What its request says of its own log is counted before anything is read, so that
the answer has the high watermark that follows from it; a wrong offset or logs that diverge count as nothing
(KAFKA-14704). From version 11 on a consumer may read from a follower, and a leader names a replica that is nearer, if a
selector is configured (KIP-392).

The first partition that has records may exceed the limits by one batch (from version 3 on), later ones get what is
left. A slice that is read but not sent must be released.

Versions 0 to 3 may need what is read to be converted, and get less at a time (`broker.down_conversion`); of versions
without a limit of their own for the answer the partition that is read first is drawn, so that none waits for ever.
"""

import logging
from collections.abc import Iterable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId
from barnabas.protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.files import FileSlice
from barnabas.storage.index import CorruptIndex
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.read import LogRead, OffsetOutOfRange
from barnabas.storage.scan import CorruptSegment
from broker.down_conversion import ANSWER_BYTES, BATCHES_SINCE, PARTITION_BYTES, limit_of
from broker.fetch_sessions import FetchSession, WantedPartition
from broker.partition_access import find_partition
from broker.replica_selector import choose_replica
from broker.services import Services
from replication.leader_questions import DEBUGGING_CONSUMER
from replication.partition import Partition, PartitionRefused

READ_COMMITTED: Final = 1
_WHOLE_BATCH_SINCE: Final = 3
_STORAGE_ERROR_SINCE: Final = 6
_ANY_REPLICA_SINCE: Final = 11
NO_REPLICA: Final = BrokerId(-1)

log = logging.getLogger(__name__)


class PartitionRead:
    """What was read of one partition, or why nothing was."""

    __slots__ = (
        "aborted",
        "converted",
        "diverging",
        "error",
        "has_more",
        "high_watermark",
        "is_awaited",
        "is_throttled",
        "last_stable_offset",
        "log_start_offset",
        "preferred_replica",
        "records",
        "wanted",
    )

    def __init__(self, wanted: WantedPartition, error: ErrorCode = ErrorCode.NONE) -> None:
        self.wanted = wanted
        self.error = error
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted: list[AbortedTransaction] | None = None
        self.diverging: EpochEndOffset | None = None
        self.preferred_replica = NO_REPLICA
        self.has_more = True
        """Whether the next answer of the session must look at the partition even if nothing happens to it."""
        self.is_awaited = False
        """Whether what the follower asks next is waited for."""
        self.is_throttled = False
        """Whether what is sent of it to a follower counts against the quota of the leader."""
        self.records: FileSlice | None = None
        self.converted: bytes | None = None
        """What is sent in place of `records`."""

    @property
    def size_bytes(self) -> int:
        if self.records is not None:
            return self.records.size
        return 0 if self.converted is None else len(self.converted)

    @property
    def is_unknown(self) -> bool:
        """Whether no broker of the cluster is known to hold the partition."""
        return self.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def ends_the_wait(self) -> bool:
        """Whether the client should hear of it at once."""
        return (
            self.error is not ErrorCode.NONE
            or self.is_awaited
            or self.diverging is not None
            or self.preferred_replica != NO_REPLICA
        )


class FetchReader:
    """How one request reads: version, isolation and limits."""

    __slots__ = (
        "_broker",
        "_client_rack",
        "_committed_only",
        "_follower",
        "_heard_at",
        "_is_arrival",
        "_is_proven",
        "_listener_name",
        "_max_bytes",
        "_storage_error",
        "_to_log_end",
        "_version",
    )

    def __init__(
        self,
        broker: Services,
        *,
        version: int,
        replica_id: int,
        isolation_level: int,
        max_bytes: int,
        client_rack: str = "",
        listener_name: str = "",
        is_proven: bool = True,
        heard_at: int = 0,
    ) -> None:
        self._broker = broker
        self._version = version
        self._follower = BrokerId(replica_id) if replica_id >= 0 else None
        self._client_rack = client_rack
        self._listener_name = listener_name
        self._is_arrival = True
        self._is_proven = is_proven
        self._heard_at = heard_at
        self._to_log_end = replica_id >= 0 or replica_id == DEBUGGING_CONSUMER
        self._committed_only = isolation_level == READ_COMMITTED and not self._to_log_end
        self._max_bytes = max_bytes
        # Clients of that time do not know the newer code (KIP-112).
        self._storage_error = (
            ErrorCode.KAFKA_STORAGE_ERROR if version >= _STORAGE_ERROR_SINCE else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    def read(self, wanted: Iterable[WantedPartition], session: FetchSession | None) -> list[PartitionRead]:
        """Read all of them, in order, within the limits."""
        if self._version < BATCHES_SINCE:
            return self._read_old(list(wanted))
        left = self._max_bytes
        at_least_one = self._version >= _WHOLE_BATCH_SINCE
        reads: list[PartitionRead] = []
        try:
            for partition in wanted:
                read = self._read_one(partition, session, min(partition.max_bytes, left), at_least_one=at_least_one)
                reads.append(read)
                if read.error is not ErrorCode.NONE and session is not None:
                    # It is looked at by each answer until it can be read again, and watched from then on.
                    session.stop_watching(partition.topic_partition)
                size = read.size_bytes
                if size:
                    at_least_one = False
                    left = max(0, left - size)
        except BaseException:
            release(reads)
            raise
        return self._in_order(reads)

    def _read_old(self, wanted: list[WantedPartition]) -> list[PartitionRead]:
        """The same for versions 0 to 3, with bounds on what will be converted."""
        has_limit = self._version >= _WHOLE_BATCH_SINCE
        first = 0
        if not has_limit and len(wanted) * PARTITION_BYTES > ANSWER_BYTES:
            first = self._broker.random.randrange(len(wanted))
        total = 0
        reads: list[PartitionRead] = []
        try:
            for partition in wanted[first:] + wanted[:first]:
                left = max(0, self._max_bytes - total)
                # Consumers without a limit of the answer would take a piece of a batch for one that is too large.
                allowed = (min(left, ANSWER_BYTES - total) if has_limit else left) if total < ANSWER_BYTES else 0
                max_bytes = min(partition.max_bytes, allowed)
                reads.append(self._read_one(partition, None, max_bytes, at_least_one=has_limit and not total))
                total += reads[-1].size_bytes
        except BaseException:
            release(reads)
            raise
        return self._in_order(reads[len(wanted) - first :] + reads[: len(wanted) - first])

    def _in_order(self, reads: list[PartitionRead]) -> list[PartitionRead]:
        # A request that waits says nothing new of its follower when it is looked at again.
        self._is_arrival = False
        # Kafka finds partitions that it does not know before it reads, and tells them last.
        unknown = [read for read in reads if read.is_unknown]
        return [read for read in reads if not read.is_unknown] + unknown if unknown else reads

    def _read_one(
        self, wanted: WantedPartition, session: FetchSession | None, max_bytes: int, *, at_least_one: bool
    ) -> PartitionRead:
        topic_partition = wanted.topic_partition
        try:
            partition = find_partition(self._broker, topic_partition)
            if self._follower is None and self._version >= _ANY_REPLICA_SINCE:
                partition.require_replica(wanted.current_leader_epoch)
            else:
                partition.require_leader(wanted.current_leader_epoch)
            read = self._read_log(partition, wanted, max_bytes, at_least_one=at_least_one)
        except PartitionRefused as refused:
            is_storage = refused.error is ErrorCode.KAFKA_STORAGE_ERROR
            return PartitionRead(wanted, self._storage_error if is_storage else refused.error)
        except OffsetOutOfRange:
            return PartitionRead(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (CorruptSegment, CorruptIndex) as corrupt:
            log.error("%s: cannot be read at offset %d: %s", topic_partition, wanted.fetch_offset, corrupt)
            return PartitionRead(wanted, ErrorCode.CORRUPT_MESSAGE)
        except LogOffline:
            return PartitionRead(wanted, self._storage_error)
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                partition.directory.fail(error)
            return PartitionRead(wanted, self._storage_error)
        if session is not None:
            session.watch(topic_partition, partition)
        return read

    def _read_log(
        self, partition: Partition, wanted: WantedPartition, max_bytes: int, *, at_least_one: bool
    ) -> PartitionRead:
        read = PartitionRead(wanted)
        replica = partition.log
        is_assigned = True
        if wanted.last_fetched_epoch >= 0:
            read.diverging = self._divergence(partition, wanted)
        if self._follower is not None:
            is_assigned = partition.is_assigned(self._follower)
            if is_assigned and read.diverging is None:
                if self._is_arrival:
                    self._count_follower(partition, wanted, self._follower)
                if partition.proof.waiting:
                    read.is_awaited = partition.proof.lacks(self._follower, leader_epoch=wanted.current_leader_epoch)
        # Taken once: what is read below must agree with what is told.
        read.high_watermark = high_watermark = replica.high_watermark
        read.last_stable_offset = last_stable_offset = replica.last_stable_offset
        read.log_start_offset = replica.log_start_offset
        if read.diverging is not None:
            return read
        if self._follower is None and (nearer := self._nearer_replica(partition, wanted)) is not None:
            read.preferred_replica = nearer
            return read
        if self._to_log_end:
            upper_bound = replica.log_end_offset
        else:
            upper_bound = last_stable_offset if self._committed_only else high_watermark
        may_read = is_assigned and not self._is_held(partition)
        read.is_throttled = self._follower is not None and partition.throttled_as_leader
        allowed = max_bytes if may_read else 0
        limit = limit_of(replica.config, allowed) if self._version < BATCHES_SINCE else allowed
        result = replica.read(
            wanted.fetch_offset,
            max_bytes=limit,
            upper_bound_offset=upper_bound,
            min_one_batch=at_least_one and may_read,
        )
        if result.first_batch_incomplete and limit < allowed:
            result = _first_batch(replica, wanted.fetch_offset, allowed, upper_bound, result)
        read.has_more = self._has_more(partition, wanted, high_watermark)
        read.records = result.slice
        if result.first_batch_incomplete and self._version >= _WHOLE_BATCH_SINCE and read.records is not None:
            # These clients make progress by the limits of later requests; a piece of a batch is of no use to them.
            read.records.release()
            read.records = None
        if self._committed_only:
            try:
                read.aborted = _aborted_in(replica, result) if read.records is not None else []
            except BaseException:
                release((read,))
                raise
        return read

    def _is_held(self, partition: Partition) -> bool:
        """Whether the quota holds it up (KIP-73): a throttled replica for a follower that is not in sync."""
        follower = self._follower
        if follower is None or not partition.throttled_as_leader or partition.is_in_sync(follower):
            return False
        return self._broker.replicas.quotas.leader.is_exceeded(self._broker.clock.monotonic_ms())

    def count_throttled(self, reads: Iterable[PartitionRead]) -> None:
        """These are sent: what is throttled of them counts against the quota."""
        size = sum(read.size_bytes for read in reads if read.is_throttled)
        if size:
            self._broker.replicas.quotas.leader.record(size, self._broker.clock.monotonic_ms())

    def _has_more(self, partition: Partition, wanted: WantedPartition, high_watermark: int) -> bool:
        if self._follower is None:
            return wanted.fetch_offset < high_watermark
        # Who is to join the in-sync set is counted by each of its requests; who is in it only when something happens.
        return wanted.fetch_offset < partition.log.log_end_offset or not partition.is_in_sync(self._follower)

    def _count_follower(self, partition: Partition, wanted: WantedPartition, follower: BrokerId) -> None:
        replica = partition.log
        if not replica.log_start_offset <= wanted.fetch_offset <= replica.log_end_offset:
            raise _out_of_range(partition, wanted)
        partition.on_follower_fetch(
            follower,
            leader_epoch=wanted.current_leader_epoch,
            fetch_offset=wanted.fetch_offset,
            log_start_offset=wanted.log_start_offset,
            is_proven=self._is_proven,
            heard_at=self._heard_at,
        )

    def _nearer_replica(self, partition: Partition, wanted: WantedPartition) -> BrokerId | None:
        """Another replica that the consumer should read from (KIP-392)."""
        selector = self._broker.config.replica_selector
        if selector is None or not self._client_rack or partition.leadership is None:
            return None
        return choose_replica(
            selector,
            partition,
            self._broker.metadata,
            client_rack=self._client_rack,
            listener_name=self._listener_name,
            fetch_offset=wanted.fetch_offset,
        )

    @staticmethod
    def _divergence(partition: Partition, wanted: WantedPartition) -> EpochEndOffset | None:
        """Where the client's log has left ours, if it has at its last epoch (KIP-595)."""
        replica = partition.log
        if wanted.fetch_offset < replica.log_start_offset:
            raise _out_of_range(partition, wanted)
        epoch, end_offset = replica.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise _out_of_range(partition, wanted)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            return EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return None


def _first_batch(replica: Log, offset: int, max_bytes: int, upper_bound: int, cut: LogRead) -> LogRead:
    """A batch from a time when the topic took larger ones, as far as the client takes it, for one that was cut."""
    if cut.slice is not None:
        cut.slice.release()
    result = replica.read(offset, max_bytes=0, upper_bound_offset=upper_bound, min_one_batch=True)
    if result.slice is not None and result.slice.size > max_bytes:
        result.slice.size = max_bytes
    return result


def _aborted_in(replica: Log, read: LogRead) -> list[AbortedTransaction]:
    found = replica.aborted_transactions(start=read.offset, upper=replica.offset_bound(read))
    return [AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in found]


def _out_of_range(partition: Partition, wanted: WantedPartition) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        wanted.fetch_offset,
        log_start_offset=partition.log.log_start_offset,
        log_end_offset=partition.log.log_end_offset,
    )


def release(reads: Iterable[PartitionRead]) -> None:
    """Let go of slices that will not be sent."""
    for read in reads:
        if read.records is not None:
            read.records.release()
            read.records = None
