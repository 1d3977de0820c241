"""DescribeGroups (API key 15): the state, the protocol and the members of groups.

Administrators send it to the groups' coordinator.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 adds the operations that the client may do (KIP-430).
Version 4 adds the instance id of static members (KIP-345).
Version 5 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Bool, Bytes, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 5), flexible=5)
class DescribeGroupsRequest:
    """Which groups to describe."""

    groups: list[Str] = field(default_factory=list)
    include_authorized_operations: Bool = field(default=False, since=3)


@struct
class DescribedGroupMember:
    """A member with its subscription and its assignment."""

    member_id: Str = ""
    group_instance_id: NullableStr = field(default=None, since=4, ignorable=True)
    client_id: Str = ""
    client_host: Str = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@struct
class DescribedGroup:
    """A group; one that does not exist is described as Dead."""

    error_code: I16 = 0
    group_id: Str = ""
    group_state: Str = ""
    protocol_type: Str = ""
    protocol_data: Str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: I32 = field(default=-2147483648, since=3)


@message(versions=(0, 5), flexible=5)
class DescribeGroupsResponse:
    """The groups."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    groups: list[DescribedGroup] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest, DescribeGroupsResponse)
