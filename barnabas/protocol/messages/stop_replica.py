"""StopReplica (API key 5): makes a broker stop replicas, and delete them where told.

The controller sends it to brokers. Controller epoch and broker epoch fence it.

Version 1 adds the broker epoch and groups partitions by topic (KIP-380).
Version 2 is flexible (KIP-482).
Version 3 adds the leader epoch, and says for each partition whether to delete it (KIP-570).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class StopReplicaPartitionV0:
    """A partition to stop, in version 0."""

    topic_name: Str = ""
    partition_index: I32 = 0


@struct
class StopReplicaTopicV1:
    """The partitions of one topic to stop, in versions 1 and 2."""

    name: Str = ""
    partition_indexes: list[I32] = field(default_factory=list)


@struct
class StopReplicaPartitionState:
    """A partition to stop; leader epoch -2 means that its topic is being deleted."""

    partition_index: I32 = 0
    leader_epoch: I32 = -1
    delete_partition: Bool = False


@struct
class StopReplicaTopicState:
    """The partitions of one topic to stop."""

    topic_name: Str = ""
    partition_states: list[StopReplicaPartitionState] = field(default_factory=list)


@message(versions=(0, 3), flexible=2)
class StopReplicaRequest:
    """The replicas to stop; `broker_epoch` -1 is not checked."""

    controller_id: I32 = 0
    controller_epoch: I32 = 0
    broker_epoch: I64 = field(default=-1, since=1, ignorable=True)
    delete_partitions: Bool = field(default=False, until=2)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(default_factory=list, until=0)
    topics: list[StopReplicaTopicV1] = field(default_factory=list, since=1, until=2)
    topic_states: list[StopReplicaTopicState] = field(default_factory=list, since=3)


@struct
class StopReplicaPartitionError:
    """What became of one partition."""

    topic_name: Str = ""
    partition_index: I32 = 0
    error_code: I16 = 0


@message(versions=(0, 3), flexible=2)
class StopReplicaResponse:
    """What became of the request."""

    error_code: I16 = 0
    partition_errors: list[StopReplicaPartitionError] = field(default_factory=list)


API: Final = Api(ApiKey.STOP_REPLICA, StopReplicaRequest, StopReplicaResponse)
