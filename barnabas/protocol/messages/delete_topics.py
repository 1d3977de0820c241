"""DeleteTopics (API key 20): deletes topics (KIP-4).

Administrators send it to the controller.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 lets the controller answer TOPIC_DELETION_DISABLED (KIP-322).
Version 4 is flexible (KIP-482).
Version 5 adds error messages and lets the controller answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 5), flexible=4)
class DeleteTopicsRequest:
    """What to delete."""

    topic_names: list[Str] = field(default_factory=list)
    timeout_ms: I32 = 0


@struct
class DeletableTopicResult:
    """What became of one topic."""

    name: Str = ""
    error_code: I16 = 0
    error_message: NullableStr = field(default=None, since=5, ignorable=True)


@message(versions=(0, 5), flexible=4)
class DeleteTopicsResponse:
    """What was deleted."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    responses: list[DeletableTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse)
