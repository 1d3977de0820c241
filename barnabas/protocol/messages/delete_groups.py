"""DeleteGroups (API key 42): deletes empty groups and their offsets (KIP-229).

Administrators send it to the groups' coordinator.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    """Which groups to delete."""

    groups_names: list[Str] = field(default_factory=list)


@struct
class DeletableGroupResult:
    """What became of one group."""

    group_id: Str = ""
    error_code: I16 = 0


@message(versions=(0, 2), flexible=2)
class DeleteGroupsResponse:
    """What was deleted."""

    throttle_time_ms: I32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)


API: Final = Api(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, DeleteGroupsResponse)
