"""LeaderAndIsr (API key 4): makes a broker leader or follower of partitions.

The controller sends it to brokers. Controller epoch and broker epoch fence it.

Version 1 adds whether a replica is new.
Version 2 adds the broker epoch and groups partitions by topic (KIP-380).
Version 3 adds the replicas that a reassignment adds and removes (KIP-455).
Version 4 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class LeaderAndIsrPartitionState:
    """The state of one partition as it stands in ZooKeeper; `zk_version` is the version of its znode."""

    topic_name: Str = field(default="", until=1, ignorable=True)
    partition_index: I32 = 0
    controller_epoch: I32 = 0
    leader: I32 = 0
    leader_epoch: I32 = 0
    isr: list[I32] = field(default_factory=list)
    zk_version: I32 = 0
    replicas: list[I32] = field(default_factory=list)
    adding_replicas: list[I32] = field(default_factory=list, since=3, ignorable=True)
    removing_replicas: list[I32] = field(default_factory=list, since=3, ignorable=True)
    is_new: Bool = field(default=False, since=1, ignorable=True)


@struct
class LeaderAndIsrTopicState:
    """The roles in one topic."""

    topic_name: Str = ""
    partition_states: list[LeaderAndIsrPartitionState] = field(default_factory=list)


@struct
class LeaderAndIsrLiveLeader:
    """A broker that leads a partition of the request."""

    broker_id: I32 = 0
    host_name: Str = ""
    port: I32 = 0


@message(versions=(0, 4), flexible=4)
class LeaderAndIsrRequest:
    """The roles that the broker shall take; `broker_epoch` -1 is not checked."""

    controller_id: I32 = 0
    controller_epoch: I32 = 0
    broker_epoch: I64 = field(default=-1, since=2, ignorable=True)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(default_factory=list, until=1)
    topic_states: list[LeaderAndIsrTopicState] = field(default_factory=list, since=2)
    live_leaders: list[LeaderAndIsrLiveLeader] = field(default_factory=list)


@struct
class LeaderAndIsrPartitionError:
    """What became of one partition."""

    topic_name: Str = ""
    partition_index: I32 = 0
    error_code: I16 = 0


@message(versions=(0, 4), flexible=4)
class LeaderAndIsrResponse:
    """What became of the request."""

    error_code: I16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field(default_factory=list)


API: Final = Api(ApiKey.LEADER_AND_ISR, LeaderAndIsrRequest, LeaderAndIsrResponse)
