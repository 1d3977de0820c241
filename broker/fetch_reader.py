"""Reads the partitions of a Fetch: bounds, isolation, and what each answer says.

The first partition that has records may exceed the limits by one batch (from version 3 on), later ones get what is
left. A slice that is read but not sent must be released.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from barnabas.runtime.disk import FileSlice
from barnabas.storage.log import OffsetOutOfRange
from broker.fetch_sessions import FetchSession, WantedPartition
from broker.services import Services
from replication.partition import Partition, PartitionRefused

READ_COMMITTED: Final = 1
_DEBUGGING_CONSUMER: Final = -2
_MAGIC_2_SINCE: Final = 4


class PartitionRead:
    """What was read of one partition, or why nothing was."""

    __slots__ = (
        "aborted",
        "diverging",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
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
        self.records: FileSlice | None = None

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size

    @property
    def ends_the_wait(self) -> bool:
        """Whether the client should hear of it at once."""
        return self.error is not ErrorCode.NONE or self.diverging is not None


class FetchReader:
    """How one request reads: version, isolation and limits."""

    __slots__ = ("_broker", "_committed_only", "_from_follower", "_max_bytes", "_to_log_end", "_version")

    def __init__(
        self, broker: Services, *, version: int, replica_id: int, isolation_level: int, max_bytes: int
    ) -> None:
        self._broker = broker
        self._version = version
        self._from_follower = replica_id >= 0
        self._to_log_end = replica_id >= 0 or replica_id == _DEBUGGING_CONSUMER
        self._committed_only = isolation_level == READ_COMMITTED and not self._to_log_end
        self._max_bytes = max_bytes

    def read(self, wanted: Iterable[WantedPartition], session: FetchSession | None) -> list[PartitionRead]:
        """Read all of them, in order, within the limits."""
        left = self._max_bytes
        at_least_one = self._version >= 3
        reads: list[PartitionRead] = []
        for partition in wanted:
            read = self._read_one(partition, session, min(partition.max_bytes, left), at_least_one=at_least_one)
            reads.append(read)
            size = read.size_bytes
            if size:
                at_least_one = False
                left = max(0, left - size)
        return reads

    def _read_one(
        self, wanted: WantedPartition, session: FetchSession | None, max_bytes: int, *, at_least_one: bool
    ) -> PartitionRead:
        topic_partition = wanted.topic_partition
        partition = self._broker.replicas.partition(topic_partition)
        if partition is None:
            known = self._broker.metadata.partition(topic_partition) is not None
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return PartitionRead(wanted, error)
        try:
            partition.require_leader(wanted.current_leader_epoch)
            read = self._read_log(partition, wanted, max_bytes, at_least_one=at_least_one)
        except PartitionRefused as refused:
            return PartitionRead(wanted, refused.error)
        except OffsetOutOfRange:
            return PartitionRead(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        except OSError as error:
            self._broker.log_directories.fail(partition.directory, error)
            return PartitionRead(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        if session is not None and topic_partition not in session.unwatch:
            partition.watch(session)
            session.unwatch[topic_partition] = lambda: partition.unwatch(session)
        return read

    def _read_log(
        self, partition: Partition, wanted: WantedPartition, max_bytes: int, *, at_least_one: bool
    ) -> PartitionRead:
        log = partition.log
        read = PartitionRead(wanted)
        # Taken once: what is read below must agree with what is told.
        read.high_watermark = high_watermark = log.high_watermark
        read.last_stable_offset = last_stable_offset = log.last_stable_offset
        read.log_start_offset = log.log_start_offset
        if wanted.last_fetched_epoch >= 0 and self._diverges(partition, wanted, read):
            return read
        if self._to_log_end:
            upper_bound = log.log_end_offset
        else:
            upper_bound = last_stable_offset if self._committed_only else high_watermark
        result = log.read(
            wanted.fetch_offset,
            max_bytes=0 if self._from_follower else max_bytes,
            upper_bound_offset=upper_bound,
            min_one_batch=at_least_one and not self._from_follower,
        )
        read.records = result.slice
        if self._version < _MAGIC_2_SINCE and read.records is not None:
            # Kafka answers the same where `message.downconversion.enable` is off.
            read.records.release()
            return PartitionRead(wanted, ErrorCode.UNSUPPORTED_VERSION)
        if self._committed_only:
            read.aborted = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(wanted.fetch_offset, result.end_offset)
            ]
        return read

    @staticmethod
    def _diverges(partition: Partition, wanted: WantedPartition, read: PartitionRead) -> bool:
        """Whether the client's log has left ours at its last epoch (KIP-595); then it is told where."""
        log = partition.log
        if wanted.fetch_offset < log.log_start_offset:
            raise OffsetOutOfRange(wanted.fetch_offset, log.log_start_offset, log.log_end_offset)
        epoch, end_offset = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise OffsetOutOfRange(wanted.fetch_offset, log.log_start_offset, log.log_end_offset)
        if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
            read.diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
            return True
        return False


def release(reads: Iterable[PartitionRead]) -> None:
    """Let go of slices that will not be sent."""
    for read in reads:
        if read.records is not None:
            read.records.release()
            read.records = None
