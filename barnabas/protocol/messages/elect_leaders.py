"""ElectLeaders (API key 43): elects leaders, the preferred ones (KIP-183) or any replica at the risk of loss.

Administrators send it to the controller.

Version 1 adds the type of election and an error for the whole request (KIP-460).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class TopicPartitions:
    """The partitions of one topic."""

    topic: Str = ""
    partition_id: list[I32] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    """Which partitions, null for all; `election_type` 0 is preferred, 1 unclean."""

    election_type: I8 = field(default=0, since=1)
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: I32 = 60000


@struct
class PartitionResult:
    """What became of one partition."""

    partition_id: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""


@struct
class ReplicaElectionResult:
    """What was elected in one topic."""

    topic: Str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    """What was elected."""

    throttle_time_ms: I32 = 0
    error_code: I16 = field(default=0, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)


API: Final = Api(ApiKey.ELECT_LEADERS, ElectLeadersRequest, ElectLeadersResponse)
