"""AlterReplicaLogDirs (API key 34): moves replicas between the log directories of a broker (KIP-113).

Administrators send it to the broker that has the replicas.

Version 1 is throttled after the response, not before it (KIP-219).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class AlterReplicaLogDirTopic:
    """The partitions of one topic that go there."""

    name: Str = ""
    partitions: list[I32] = field(default_factory=list)


@struct
class AlterReplicaLogDir:
    """A log directory and what goes there."""

    path: Str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@message(versions=(0, 1))
class AlterReplicaLogDirsRequest:
    """What goes where."""

    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirPartitionResult:
    """Whether one partition's move was begun."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    """What was begun for one topic."""

    topic_name: Str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@message(versions=(0, 1))
class AlterReplicaLogDirsResponse:
    """What was begun."""

    throttle_time_ms: I32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse)
