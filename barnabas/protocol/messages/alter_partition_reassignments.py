"""AlterPartitionReassignments (API key 45): moves partitions to other brokers, or cancels that (KIP-455).

Administrators send it to the controller.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class ReassignablePartition:
    """Where one partition shall be; null cancels its reassignment."""

    partition_index: I32 = 0
    replicas: list[I32] | None = None


@struct
class ReassignableTopic:
    """What to move in one topic."""

    name: Str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsRequest:
    """What to move."""

    timeout_ms: I32 = 60000
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse:
    """What became of one partition."""

    partition_index: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""


@struct
class ReassignableTopicResponse:
    """What was begun in one topic."""

    name: Str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsResponse:
    """What was begun."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)


API: Final = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
)
