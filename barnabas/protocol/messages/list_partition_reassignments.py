"""ListPartitionReassignments (API key 46): the reassignments that are under way (KIP-455).

Administrators send it to the controller.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class ListPartitionReassignmentsTopics:
    """The partitions of one topic to list."""

    name: Str = ""
    partition_indexes: list[I32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    """What to list; null means all."""

    timeout_ms: I32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    """Where one partition is now, and which brokers it gains and loses."""

    partition_index: I32 = 0
    replicas: list[I32] = field(default_factory=list)
    adding_replicas: list[I32] = field(default_factory=list)
    removing_replicas: list[I32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    """What is under way in one topic."""

    name: Str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    """What is under way."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)


API: Final = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
)
