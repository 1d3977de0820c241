"""SyncGroup (API key 14): hands out the assignments of a new generation.

Consumers send it to the group's coordinator; the leader's request carries all assignments, each response the member's
own.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 adds the instance id of static members (KIP-345).
Version 4 is flexible (KIP-482).
Version 5 adds the protocol type and name on both sides, which must match the group's (KIP-559).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bytes, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class SyncGroupRequestAssignment:
    """What one member shall consume."""

    member_id: Str = ""
    assignment: Bytes = b""


@message(versions=(0, 5), flexible=4)
class SyncGroupRequest:
    """A member and, if it leads, what everyone shall consume."""

    group_id: Str = ""
    generation_id: I32 = 0
    member_id: Str = ""
    group_instance_id: NullableStr = field(default=None, since=3)
    protocol_type: NullableStr = field(default=None, since=5, ignorable=True)
    protocol_name: NullableStr = field(default=None, since=5, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message(versions=(0, 5), flexible=4)
class SyncGroupResponse:
    """What this member shall consume."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = 0
    protocol_type: NullableStr = field(default=None, since=5, ignorable=True)
    protocol_name: NullableStr = field(default=None, since=5, ignorable=True)
    assignment: Bytes = b""


API: Final = Api(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse)
