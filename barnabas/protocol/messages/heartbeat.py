"""Heartbeat (API key 12): keeps a member in its group and tells it of a rebalance.

Consumers send it to the group's coordinator.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 adds the instance id of static members (KIP-345).
Version 4 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message


@message(versions=(0, 4), flexible=4)
class HeartbeatRequest:
    """Who is alive."""

    group_id: Str = ""
    generation_id: I32 = 0
    member_id: Str = ""
    group_instance_id: NullableStr = field(default=None, since=3)


@message(versions=(0, 4), flexible=4)
class HeartbeatResponse:
    """Whether the member still belongs, or shall join again."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = 0


API: Final = Api(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse)
