"""Deleting the records of a partition that is led here, before an offset (KIP-107).

They are gone when the logs of all live replicas start there durably: it outlives a power cut of all of them.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.read import OffsetOutOfRange
from replication.acknowledgements import PartitionRefused, WaitingFutures, complete
from replication.ports import ReplicationPorts

if TYPE_CHECKING:
    from replication.partition import Partition

END_OF_COMMITTED: Final = -1
"""Instead of an offset to delete records before: the high watermark."""


class RecordDeletion:
    """Of one partition; `trimmed` are the answers that wait for the low watermark."""

    __slots__ = ("_keeping_start", "_partition", "_ports", "_trimmed")

    def __init__(self, partition: "Partition", trimmed: WaitingFutures, ports: ReplicationPorts) -> None:
        self._partition = partition
        self._trimmed = trimmed
        self._ports = ports
        self._keeping_start = False

    @property
    def low_watermark(self) -> int:
        """The offset below which no live replica will have anything again; -1 while one has not said."""
        return self._low_watermark(self._partition.log.durable_start_offset)

    def lacks_others(self, before_offset: int) -> bool:
        """Whether a live replica elsewhere has records below `before_offset` still, or this log has."""
        return self._low_watermark(self._partition.log.log_start_offset) < before_offset

    def _low_watermark(self, own_start_offset: int) -> int:
        leadership, ports = self._partition.leadership, self._ports
        assert leadership is not None
        return leadership.low_watermark(
            own_start_offset, is_live=lambda replica_id: ports.broker_epoch_of(replica_id) is not None
        )

    def delete(self, before_offset: int) -> "asyncio.Future[None] | None":
        """Give up the records before an offset, -1 for all that are committed; what to wait for until all replicas did.

        Raises:
            PartitionRefused: not leader, POLICY_VIOLATION where nothing may be deleted, OFFSET_OUT_OF_RANGE.
        """
        partition = self._partition
        partition.require_leader()
        if not partition.log.config.delete:
            raise PartitionRefused(ErrorCode.POLICY_VIOLATION)
        offset = partition.log.high_watermark if before_offset == END_OF_COMMITTED else before_offset
        if offset < 0:
            raise PartitionRefused(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            if partition.advance_log_start(offset):
                partition.notify()
        except OffsetOutOfRange as error:
            raise PartitionRefused(ErrorCode.OFFSET_OUT_OF_RANGE, str(error)) from error
        if self.low_watermark >= offset:
            return None
        if partition.has_start_to_keep and not self._keeping_start:
            self._keeping_start = True
            self._ports.spawn(self._keep_own_start(), name=f"start of {partition.topic_partition}")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._trimmed.add(offset, future)
        return future

    async def _keep_own_start(self) -> None:
        partition = self._partition
        try:
            while partition.has_start_to_keep and await partition.keep_start():
                self.let_go()
        finally:
            self._keeping_start = False
        self.let_go()

    def let_go(self) -> None:
        """The low watermark may have risen: let go of those who waited for it."""
        if self._partition.leadership is not None and len(self._trimmed):
            complete(self._trimmed, self.low_watermark)
