"""ListOffsets, versions 0 to 5: the first and the next offset of partitions, and offsets by time.

Timestamp -1 asks for the end that the asker may read up to: the high watermark, with read_committed the last stable
offset, for anyone but a client the log's end. -2 asks for the log's start. Any other asks for the first record that is
not older; one at or above that end is answered as none, -1 and -1. While the high watermark is below the start of the
leader's epoch the end is not sure: OFFSET_NOT_AVAILABLE, before version 5 LEADER_NOT_AVAILABLE (KIP-207). Replica id
-2 (debugging) may ask a follower. A partition that is named twice is answered INVALID_REQUEST, from version 1 on.

Version 0 lists the starts of segments whose file was changed at or before the timestamp, newest first, at most
`max_num_offsets`; for a client what lies above the high watermark becomes the high watermark. Once an answer holds
half a million of them the rest of the request is answered INVALID_REQUEST.

1 one offset and its timestamp · 2 isolation level, throttle time · 4 leader epochs · 5 OFFSET_NOT_AVAILABLE
"""

from collections.abc import Awaitable, Generator
from itertools import dropwhile
from typing import Final, TypeAlias, TypeVar

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER_EPOCH, ApiKey, TopicPartition
from barnabas.protocol.messages import list_offsets
from barnabas.protocol.messages.list_offsets import (
    ListOffsetPartition,
    ListOffsetPartitionResponse,
    ListOffsetRequest,
    ListOffsetResponse,
    ListOffsetTopicResponse,
)
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.storage.log import Log, LogOffline
from barnabas.storage.read import TimestampedOffset, TimestampsUnknown
from barnabas.storage.scan import CorruptSegment
from broker.partition_access import find_partition
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import in_turns
from replication.leader_questions import DEBUGGING_CONSUMER, EARLIEST, LATEST
from replication.partition import Partition, PartitionRefused

_T = TypeVar("_T")
_Steps: TypeAlias = Generator[None, None, _T]

_CLIENT: Final = -1
_READ_UNCOMMITTED: Final = 0
_READ_COMMITTED: Final = 1
_NONE: Final = -1
_MAX_SEGMENT_STARTS: Final = 500_000
"""Of one answer in version 0, where a partition may be named any number of times."""


def handle(request: ListOffsetRequest, context: RequestContext) -> ListOffsetResponse | Awaitable[ListOffsetResponse]:
    """Answer each partition by itself. What takes long gives way to others between its steps."""
    return in_turns(_answer(request, context), context.broker.clock)


def _answer(request: ListOffsetRequest, context: RequestContext) -> "_Steps[ListOffsetResponse]":
    twice: set[TopicPartition] = set()
    if context.version:
        twice = yield from _named_twice(request)
    room = _MAX_SEGMENT_STARTS

    def answer(topic: str, wanted: ListOffsetPartition) -> _Steps[ListOffsetPartitionResponse]:
        topic_partition = TopicPartition(topic, wanted.partition_index)
        if topic_partition in twice or room <= 0:
            error = ErrorCode.INVALID_REQUEST
        else:
            try:
                return (yield from _look_up(request, context, topic_partition, wanted))
            except PartitionRefused as refused:
                error = refused.error
        context.broker.metrics.count_error(ApiKey.LIST_OFFSETS, error)
        return ListOffsetPartitionResponse(partition_index=wanted.partition_index, error_code=error)

    topics: list[ListOffsetTopicResponse] = []
    for topic in request.topics:
        partitions: list[ListOffsetPartitionResponse] = []
        for partition in topic.partitions:
            partitions.append((yield from answer(topic.name, partition)))
            room -= len(partitions[-1].old_style_offsets)
            yield
        topics.append(ListOffsetTopicResponse(topic.name, partitions))
        yield
    return ListOffsetResponse(topics=topics)


def _named_twice(request: ListOffsetRequest) -> "_Steps[set[TopicPartition]]":
    once: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            (twice if topic_partition in once else once).add(topic_partition)
            yield
        yield
    return twice


def _look_up(
    request: ListOffsetRequest, context: RequestContext, topic_partition: TopicPartition, wanted: ListOffsetPartition
) -> "_Steps[ListOffsetPartitionResponse]":
    is_client = request.replica_id == _CLIENT
    if context.version and is_client and request.isolation_level not in (_READ_UNCOMMITTED, _READ_COMMITTED):
        raise PartitionRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
    partition = find_partition(context.broker, topic_partition)
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.require_replica(wanted.current_leader_epoch)
    else:
        partition.require_leader(wanted.current_leader_epoch)
    try:
        if context.version == 0:
            return _segment_starts(partition.log, wanted, is_client=is_client)
        return (yield from _one_offset(partition, wanted, request, version=context.version))
    except (LogOffline, OSError) as error:
        if isinstance(error, OSError) and error.errno not in OUT_OF_RESOURCES:
            partition.directory.fail(error)
        raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR) from error
    except CorruptSegment as error:
        raise PartitionRefused(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    except TimestampsUnknown as error:
        raise PartitionRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, str(error)) from error


def _segment_starts(log: Log, wanted: ListOffsetPartition, *, is_client: bool) -> ListOffsetPartitionResponse:
    if wanted.max_num_offsets < 0:
        raise PartitionRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
    offsets = log.offsets_before(wanted.timestamp, max_count=wanted.max_num_offsets)
    if is_client:
        offsets = below_high_watermark(offsets, log.high_watermark)
    return ListOffsetPartitionResponse(partition_index=wanted.partition_index, old_style_offsets=offsets)


def below_high_watermark(offsets: list[int], high_watermark: int) -> list[int]:
    """Falling offsets with those above the high watermark replaced by it."""
    if not offsets or offsets[0] <= high_watermark:
        return offsets
    return [high_watermark, *dropwhile(lambda offset: offset > high_watermark, offsets)]


def _one_offset(
    partition: Partition, wanted: ListOffsetPartition, request: ListOffsetRequest, *, version: int
) -> "_Steps[ListOffsetPartitionResponse]":
    log = partition.log
    is_client = request.replica_id == _CLIENT
    if wanted.timestamp == EARLIEST:
        found: TimestampedOffset | None = TimestampedOffset(log.log_start_offset, _NONE, _epoch_of_start(log))
    elif wanted.timestamp == LATEST:
        if is_client and _end_is_unsure(partition):
            raise _unsure(version)
        end = _readable_end(log, request)
        found = TimestampedOffset(end, _NONE, partition.leader_epoch)
    else:
        found = yield from log.search_timestamp(wanted.timestamp)
        if found is not None and found.offset >= _readable_end(log, request):
            found = None
        if found is None and is_client and _end_is_unsure(partition):
            raise _unsure(version)
    if found is None:
        return ListOffsetPartitionResponse(partition_index=wanted.partition_index)
    return ListOffsetPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= 4 else NO_LEADER_EPOCH,
    )


def _readable_end(log: Log, request: ListOffsetRequest) -> int:
    if request.replica_id != _CLIENT:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark


def _epoch_of_start(log: Log) -> int:
    earliest = log.leader_epochs.earliest
    return earliest.epoch if earliest is not None and earliest.start_offset <= log.log_start_offset else NO_LEADER_EPOCH


def _end_is_unsure(partition: Partition) -> bool:
    latest = partition.log.leader_epochs.latest
    if latest is None or latest.epoch != partition.leader_epoch:
        return False
    return latest.start_offset > partition.log.high_watermark


def _unsure(version: int) -> PartitionRefused:
    return PartitionRefused(ErrorCode.OFFSET_NOT_AVAILABLE if version >= 5 else ErrorCode.LEADER_NOT_AVAILABLE)


API: Final[Handler] = Handler(list_offsets.API, handle, oldest=0, newest=5)
