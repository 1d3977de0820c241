"""DeleteRecords (API key 21), versions 0 to 2: the leader gives up the records before an offset (KIP-107).

Behaviour: -1 stands for the high watermark; an offset above that is OFFSET_OUT_OF_RANGE, a topic that is only compacted
POLICY_VIOLATION, an internal one INVALID_TOPIC_EXCEPTION. The log starts there at once; the answer leaves when all live
replicas have said that theirs do too, with the least of their starts, or after `timeout_ms` with REQUEST_TIMED_OUT,
though the records are gone. Files go when retention looks at the log next. Of a partition named twice the last counts.

1 throttled after the answer · 2 flexible
"""

import asyncio
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import delete_records as messages
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.internal_topics import is_internal
from broker.partition_access import find_partition, require_known
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import Turns
from replication.partition import Partition, PartitionRefused
from replication.record_deletion import END_OF_COMMITTED

_NOT_KNOWN: Final = -1
_LONGEST_WRITE_S: Final = 30.0


class _Deletion:
    """One partition: what is told of it, and what that waits for."""

    __slots__ = ("before_offset", "partition", "result", "waits")

    def __init__(self, partition_index: int) -> None:
        self.result = DeleteRecordsPartitionResult(partition_index, _NOT_KNOWN)
        self.partition: Partition | None = None
        self.before_offset = 0
        self.waits: asyncio.Future[None] | None = None

    @property
    def waits_for_own_disk(self) -> bool:
        """Whether nothing is missing but that this broker's own start outlives a power cut."""
        return (
            self.waits is not None
            and not self.waits.done()
            and self.partition is not None
            and self.partition.is_leader
            and not self.partition.deletion.lacks_others(self.before_offset)
        )

    def refuse(self, error: ErrorCode) -> None:
        self.result.error_code, self.result.low_watermark = error, _NOT_KNOWN


async def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete in each partition, then wait for all of them."""
    deletions: dict[str, dict[int, _Deletion]] = {}
    turns = Turns(context.broker.clock)
    for topic in request.topics:
        of_topic = deletions.setdefault(topic.name, {})
        for each in {wanted.partition_index: wanted for wanted in topic.partitions}.values():
            at = TopicPartition(topic.name, each.partition_index)
            of_topic[each.partition_index] = _delete(context, at, each.offset)
            await turns.maybe_yield()
    everything = [deletion for of_topic in deletions.values() for deletion in of_topic.values()]
    waits = [deletion.waits for deletion in everything if deletion.waits is not None]
    if waits:
        await asyncio.wait(waits, timeout=max(0, request.timeout_ms) / 1000)
    # The time that clients give is for other replicas: alone, Kafka answers them however short it is.
    own = [deletion.waits for deletion in everything if deletion.waits is not None and deletion.waits_for_own_disk]
    if own:
        await asyncio.wait(own, timeout=_LONGEST_WRITE_S)
    for deletion in everything:
        _finish(deletion)
        if deletion.result.error_code:
            context.broker.metrics.count_error(messages.API.key, ErrorCode(deletion.result.error_code))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name, [deletion.result for deletion in of_topic.values()])
            for name, of_topic in deletions.items()
            if of_topic
        ]
    )


def _delete(context: RequestContext, at: TopicPartition, offset: int) -> _Deletion:
    deletion = _Deletion(at.partition)
    try:
        require_known(context.broker, at)
        if is_internal(at.topic):
            deletion.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION)
            return deletion
        deletion.partition = partition = find_partition(context.broker, at)
        deletion.before_offset = partition.log.high_watermark if offset == END_OF_COMMITTED else offset
        deletion.waits = partition.deletion.delete(offset)
    except PartitionRefused as refused:
        deletion.refuse(refused.error)
    return deletion


def _finish(deletion: _Deletion) -> None:
    """Say what became of it; what still waits has waited too long."""
    if deletion.result.error_code:
        return
    partition, waits = deletion.partition, deletion.waits
    assert partition is not None
    if waits is not None and not waits.done():
        waits.cancel()
        deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
    elif waits is not None:
        error = waits.exception()
        if isinstance(error, PartitionRefused):
            deletion.refuse(error.error)
            return
        assert error is None
    try:
        partition.require_leader()
    except PartitionRefused as refused:
        deletion.refuse(refused.error)
    else:
        deletion.result.low_watermark = partition.deletion.low_watermark


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=2)
