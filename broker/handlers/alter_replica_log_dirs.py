"""AlterReplicaLogDirs (API key 34), versions 0 and 1: moves replicas between this broker's log directories (KIP-113).

Behaviour: the answer says that moves have begun; DescribeLogDirs shows how far they are. A move to where the replica
is, or is going to, changes nothing; a move to elsewhere takes the place of one under way. A path that is none of
`log.dirs`, letter by letter, is LOG_DIR_NOT_FOUND, an offline one KAFKA_STORAGE_ERROR, as is any move while a directory
is offline. A replica that will only come to this broker is REPLICA_NOT_AVAILABLE, and will be made there. Of a
partition named twice the last naming counts.

1 throttled after the answer
"""

from collections.abc import Awaitable, Generator
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import alter_replica_log_dirs as messages
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import in_turns


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse | Awaitable[AlterReplicaLogDirsResponse]:
    """Begin each move."""
    return in_turns(_answer(request, context), context.broker.clock)


def _answer(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    wanted: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, directory.path))
            yield
    results = []
    for name, paths in wanted.items():
        topic_result = AlterReplicaLogDirTopicResult(name)
        for number, path in paths.items():
            error = _move(context, TopicPartition(name, number), path)
            if error is not ErrorCode.NONE:
                context.broker.metrics.count_error(ApiKey.ALTER_REPLICA_LOG_DIRS, error)
            topic_result.partitions.append(AlterReplicaLogDirPartitionResult(number, error))
            yield
        if topic_result.partitions:
            results.append(topic_result)
    return AlterReplicaLogDirsResponse(results=results)


def _move(context: RequestContext, at: TopicPartition, path: str) -> ErrorCode:
    broker = context.broker
    is_known = broker.metadata.partition(at) is not None or broker.replicas.partition(at) is not None
    return broker.replicas.move(at, path, is_known=is_known)


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=1)
