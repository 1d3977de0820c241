"""CreatePartitions (API key 37): adds partitions to topics (KIP-195).

Administrators send it to the controller.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
Version 3 lets the controller answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: list[I32] = field(default_factory=list)


@struct
class CreatePartitionsTopic:
    """A topic and how many partitions it shall have in all."""

    name: Str = ""
    count: I32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@message(versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    """What to add, or with `validate_only` to try."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: I32 = 0
    validate_only: Bool = False


@struct
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = None


@message(versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    """What was added."""

    throttle_time_ms: I32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest, CreatePartitionsResponse)
