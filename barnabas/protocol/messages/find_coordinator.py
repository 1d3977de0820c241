"""FindCoordinator (API key 10): finds the broker that coordinates a group or a transactional producer.

Clients send it to any broker.

Version 1 adds the key's type (KIP-98), the throttle time and an error message.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message


@message(versions=(0, 3), flexible=3)
class FindCoordinatorRequest:
    """A group id (`key_type` 0) or a transactional id (1)."""

    key: Str = ""
    key_type: I8 = field(default=0, since=1)


@message(versions=(0, 3), flexible=3)
class FindCoordinatorResponse:
    """The coordinator; node id -1 where there is none."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = 0
    error_message: NullableStr = field(default="", since=1, ignorable=True)
    node_id: I32 = 0
    host: Str = ""
    port: I32 = 0


API: Final = Api(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse)
