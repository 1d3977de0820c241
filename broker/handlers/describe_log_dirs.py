"""DescribeLogDirs (API key 35), versions 0 to 2: which replica lies in which log directory (KIP-113).

Behaviour: every directory of `log.dirs` is listed, an offline one with KAFKA_STORAGE_ERROR and nothing in it. Of each
topic that has a replica in a directory the partitions that were asked for are told, all where the request names null:
the bytes of the replica, and how far its end is below its high watermark, -1 where this broker does not serve it. Of a
replica on its way to another directory it is told what it lacks of the present one. How many ranges of a replica are
damaged, and whether compaction may have left gaps in it, stands in tagged fields of our own.

1 throttled after the answer · 2 flexible
"""

from collections.abc import Awaitable, Generator
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import describe_log_dirs as messages
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.storage.directory import LogDirectory
from barnabas.storage.gaps import may_have_gaps
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import in_turns

_NOT_SERVED: Final = -1


def handle(
    request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    """Look at each directory."""
    return in_turns(_answer(request, context), context.broker.clock)


def _answer(request: DescribeLogDirsRequest, context: RequestContext) -> Generator[None, None, DescribeLogDirsResponse]:
    wanted: set[tuple[str, int]] | None = None
    if request.topics is not None:
        wanted = set()
        for topic in request.topics:
            wanted.update((topic.topic, number) for number in topic.partition_index)
            yield
    results = []
    for directory in context.broker.log_directories.directories:
        if directory.is_offline:
            context.broker.metrics.count_error(ApiKey.DESCRIBE_LOG_DIRS, ErrorCode.KAFKA_STORAGE_ERROR)
            results.append(DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, directory.path))
        else:
            topics = yield from _topics(context, directory, wanted)
            results.append(DescribeLogDirsResult(ErrorCode.NONE, directory.path, topics))
    return DescribeLogDirsResponse(results=results)


def _topics(
    context: RequestContext, directory: LogDirectory, wanted: set[tuple[str, int]] | None
) -> Generator[None, None, list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for at, member in list(directory.logs.items()):
        topic = topics.setdefault(at.topic, DescribeLogDirsTopic(at.topic))
        if wanted is None or at in wanted:
            lag = _lag(context, at, member.log_end_offset)
            replica = DescribeLogDirsPartition(at.partition, member.size_bytes, lag)
            replica.damaged_ranges = len(member.damage)
            replica.may_have_gaps = may_have_gaps(directory, member)
            topic.partitions.append(replica)
        yield
    for at, future in list(directory.futures.items()):
        topic = topics.setdefault(at.topic, DescribeLogDirsTopic(at.topic))
        if wanted is None or at in wanted:
            lag = _lag_of_future(context, at, future.log_end_offset)
            topic.partitions.append(DescribeLogDirsPartition(at.partition, future.size_bytes, lag, is_future_key=True))
        yield
    return list(topics.values())


def _lag(context: RequestContext, at: TopicPartition, log_end_offset: int) -> int:
    partition = context.broker.replicas.partition(at)
    if partition is None or partition.is_offline:
        return _NOT_SERVED
    return max(partition.log.high_watermark - log_end_offset, 0)


def _lag_of_future(context: RequestContext, at: TopicPartition, log_end_offset: int) -> int:
    partition = context.broker.replicas.partition(at)
    if partition is None or partition.is_offline:
        return _NOT_SERVED
    return partition.log.log_end_offset - log_end_offset


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=2)
