"""LeaveGroup (API key 13): takes members out of a group.

Consumers send it for themselves, administrators for others, to the group's coordinator.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 takes several members, static ones by their instance id (KIP-345).
Version 4 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class MemberIdentity:
    """A member that leaves, by its member id or its instance id."""

    member_id: Str = ""
    group_instance_id: NullableStr = None


@message(versions=(0, 4), flexible=4)
class LeaveGroupRequest:
    """Who leaves."""

    group_id: Str = ""
    member_id: Str = field(default="", until=2)
    members: list[MemberIdentity] = field(default_factory=list, since=3)


@struct
class MemberResponse:
    """Whether one member left."""

    member_id: Str = ""
    group_instance_id: NullableStr = ""
    error_code: I16 = 0


@message(versions=(0, 4), flexible=4)
class LeaveGroupResponse:
    """What became of the request."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = 0
    members: list[MemberResponse] = field(default_factory=list, since=3)


API: Final = Api(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse)
