"""A partition of an internal topic as its coordinator sees it: `barnabas.coordinator.ports.CoordinatorLog`.

It is of one leadership. When that has ended, also because the same broker leads on in another epoch, everything is
refused with NOT_LEADER_OR_FOLLOWER.
"""

from typing import Final

from barnabas.coordinator.outcome import ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.entries import find_bad_offset
from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.files import FileSlice
from barnabas.runtime.offload import Offload
from barnabas.storage.append import AppendRejected
from barnabas.storage.index import CorruptIndex
from barnabas.storage.log import LogOffline
from barnabas.storage.producer_state import ProducerEntry
from barnabas.storage.read import OffsetOutOfRange, end_of_segment
from barnabas.storage.scan import CorruptSegment
from replication.partition import ALL_REPLICAS, Partition, PartitionRefused

_LEADER_ALONE: Final = (0, 1)


class PartitionLog:
    """See the module. With another `acks` than -1 what this broker has written counts as committed, as in Kafka."""

    def __init__(self, partition: Partition, offload: Offload, *, acks: int = ALL_REPLICAS) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self._offload = offload
        self._acks = acks

    @property
    def name(self) -> str:
        return str(self.partition.topic_partition)

    @property
    def max_batch_bytes(self) -> int:
        config = self.partition.log.config
        return min(config.max_message_bytes, config.segment_bytes)

    def refusal(
        self, producer: ProducerStamp | None = None, *, marker_coordinator_epoch: int | None = None
    ) -> ErrorCode | None:
        """See `CoordinatorLog`."""
        if not self._leads():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        entry = None if producer is None else self.partition.log.producers.get(producer.producer_id)
        if entry is not None and producer is not None:
            refusal = _producer_refusal(entry, producer, marker_coordinator_epoch)
            if refusal is not None:
                return refusal
        is_data = producer is not None and marker_coordinator_epoch is None
        if is_data and producer is not None and self.partition.lacks_guard(*producer) is not None:
            return ErrorCode.INVALID_TXN_STATE
        return self.partition.refusal(self._acks)

    def try_append(self, batch: bytes) -> int | None:
        """See `CoordinatorLog`."""
        self._require_leadership()
        try:
            info = self.partition.try_append_as_coordinator(memoryview(bytearray(batch)), acks=self._acks)
        except (PartitionRefused, AppendRejected) as refused:
            raise LogRefused(refused.error, str(refused)) from refused
        return None if info is None else info.last_offset + 1

    async def append(self, batch: bytes) -> int:
        """See `CoordinatorLog`."""
        self._require_leadership()
        try:
            info = await self.partition.append_as_coordinator(memoryview(bytearray(batch)), acks=self._acks)
        except (PartitionRefused, AppendRejected) as refused:
            raise LogRefused(refused.error, str(refused)) from refused
        return info.last_offset + 1

    def is_committed(self, end_offset: int) -> bool:
        """See `CoordinatorLog`."""
        return self._leads() and (self._acks in _LEADER_ALONE or self.partition.log.high_watermark >= end_offset)

    async def committed(self, end_offset: int) -> None:
        """See `CoordinatorLog`."""
        self._require_leadership()
        if self.is_committed(end_offset):
            return
        waiting = self.partition.when_committed(end_offset)
        try:
            if waiting is not None:
                await waiting
        except PartitionRefused as refused:
            # The end of a leadership is told to producers as an append that may stand.
            self._require_leadership()
            raise LogRefused(refused.error) from refused

    async def proven(self) -> None:
        """See `CoordinatorLog`."""
        self._require_leadership()
        waiting = self.partition.proof.begin()
        try:
            if waiting is not None:
                await waiting
        except PartitionRefused as refused:
            raise LogRefused(refused.error) from refused
        self._require_leadership()

    def bounds(self) -> tuple[int, int]:
        """See `CoordinatorLog`."""
        log = self.partition.log
        return log.log_start_offset, log.log_end_offset

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """See `CoordinatorLog`. The file is read in a thread.

        What does not match its checksum is refused, and the scrubber looks there: another replica has it whole. What is
        left out here would be forgotten in the whole cluster.
        """
        self._require_leadership()
        log = self.partition.log
        try:
            result = log.read(offset, max_bytes=max_bytes, upper_bound_offset=log.log_end_offset, min_one_batch=True)
            found = result.slice
            if found is None:
                return b""
            end_offset = end_of_segment(log, result.segment_base_offset)
            try:
                data, bad = await self._offload.thread(
                    f"load {self.partition.directory.path}", _read_and_check, found, offset, end_offset
                )
            finally:
                found.release()
        except OffsetOutOfRange as gone:
            raise LogRefused(ErrorCode.OFFSET_OUT_OF_RANGE, str(gone)) from gone
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                self.partition.directory.fail(error)
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except (LogOffline, CorruptSegment, CorruptIndex) as unreadable:
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(unreadable)) from unreadable
        if bad is not None:
            self.partition.directory.suspect(log, bad)
            raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, f"what is read at offset {bad} is damaged")
        return data

    def _leads(self) -> bool:
        return self.partition.is_leader and self.partition.leader_epoch == self.leader_epoch

    def _require_leadership(self) -> None:
        if not self._leads():
            raise LogRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _read_and_check(found: FileSlice, offset: int, end_offset: int) -> tuple[bytes, int | None]:
    """The bytes, and the first offset at which they are damaged."""
    data = found.read()
    return data, find_bad_offset(data, offset, end_offset=end_offset)


def _producer_refusal(
    entry: ProducerEntry, producer: ProducerStamp, marker_coordinator_epoch: int | None
) -> ErrorCode | None:
    """What the log's own check would say, before anything depends on the append."""
    if producer.producer_epoch < entry.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker_coordinator_epoch is not None and marker_coordinator_epoch < entry.coordinator_epoch:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return None
