"""OffsetForLeaderEpoch, versions 0 to 3: where leader epochs end in this leader's log (KIP-101, KIP-279, KIP-320).

The answer is the greatest epoch that is not above the one asked for and its end, -1 and -1 where nothing is known. A
current leader epoch that is not the leader's is answered FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH. Of a partition
that is named twice the last naming counts.

1 the epoch in the answer · 2 current leader epoch, throttle time · 3 replica id
"""

from collections.abc import Awaitable, Generator
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import offset_for_leader_epoch
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from broker.partition_access import find_partition
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import in_turns
from replication.partition import PartitionRefused

_UNDEFINED: Final = -1


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    """Answer each partition by itself."""
    return in_turns(_answer(request, context), context.broker.clock)


def _answer(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    wanted: dict[str, dict[int, OffsetForLeaderPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update((each.partition_index, each) for each in topic.partitions)
        yield
    topics = []
    for name, partitions in wanted.items():
        results = []
        for each in partitions.values():
            results.append(_look_up(context, name, each))
            yield
        if results:
            topics.append(OffsetForLeaderTopicResult(name, results))
        yield
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> OffsetForLeaderPartitionResult:
    try:
        partition = find_partition(context.broker, TopicPartition(topic, wanted.partition_index))
        partition.require_leader(wanted.current_leader_epoch)
    except PartitionRefused as refused:
        context.broker.metrics.count_error(ApiKey.OFFSET_FOR_LEADER_EPOCH, refused.error)
        return OffsetForLeaderPartitionResult(refused.error, wanted.partition_index, _UNDEFINED, _UNDEFINED)
    end = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return OffsetForLeaderPartitionResult(ErrorCode.NONE, wanted.partition_index, end.epoch, end.end_offset)


API: Final[Handler] = Handler(offset_for_leader_epoch.API, handle, oldest=0, newest=3)
