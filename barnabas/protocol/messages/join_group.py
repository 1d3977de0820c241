"""JoinGroup (API key 11): enters a group, or takes part in its rebalance.

Consumers send it to the group's coordinator. The response waits until the members have gathered; only the leader's
lists them.

Version 1 adds the rebalance timeout (KIP-62).
Version 2 adds the throttle time.
Version 3 is throttled after the response, not before it (KIP-219).
Version 4 makes a new member come back with the member id that it was given (KIP-394).
Version 5 adds the instance id of static members (KIP-345).
Version 6 is flexible (KIP-482).
Version 7 answers the protocol type, and a protocol name that may be null (KIP-559).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bytes, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class JoinGroupRequestProtocol:
    """A protocol and the member's subscription under it."""

    name: Str = ""
    metadata: Bytes = b""


@message(versions=(0, 7), flexible=6)
class JoinGroupRequest:
    """Who joins, with the protocols it knows, the one it likes best first."""

    group_id: Str = ""
    session_timeout_ms: I32 = 0
    rebalance_timeout_ms: I32 = field(default=-1, since=1, ignorable=True)
    member_id: Str = ""
    group_instance_id: NullableStr = field(default=None, since=5)
    protocol_type: Str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)


@struct
class JoinGroupResponseMember:
    """A member and its subscription under the chosen protocol."""

    member_id: Str = ""
    group_instance_id: NullableStr = field(default=None, since=5, ignorable=True)
    metadata: Bytes = b""


@message(versions=(0, 7), flexible=6)
class JoinGroupResponse:
    """The new generation."""

    throttle_time_ms: I32 = field(default=0, since=2, ignorable=True)
    error_code: I16 = 0
    generation_id: I32 = -1
    protocol_type: NullableStr = field(default=None, since=7, ignorable=True)
    protocol_name: NullableStr = field(default="", nullable_since=7)
    leader: Str = ""
    member_id: Str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)


API: Final = Api(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse)
