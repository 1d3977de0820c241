"""ListGroups (API key 16): the groups that a broker coordinates.

Administrators send it to every broker.

Version 1 adds the throttle time.
Version 2 is throttled after the response, not before it (KIP-219).
Version 3 is flexible (KIP-482).
Version 4 adds a filter by state and the groups' states (KIP-518).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 4), flexible=3)
class ListGroupsRequest:
    """Which states to list; none means all."""

    states_filter: list[Str] = field(default_factory=list, since=4)


@struct
class ListedGroup:
    """A group."""

    group_id: Str = ""
    protocol_type: Str = ""
    group_state: Str = field(default="", since=4, ignorable=True)


@message(versions=(0, 4), flexible=3)
class ListGroupsResponse:
    """The groups."""

    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)
    error_code: I16 = 0
    groups: list[ListedGroup] = field(default_factory=list)


API: Final = Api(ApiKey.LIST_GROUPS, ListGroupsRequest, ListGroupsResponse)
