"""DeleteAcls (API key 31): deletes the access rules that match filters (KIP-140).

Administrators send it to any broker.

Version 1 adds the pattern type (KIP-290) and is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DeleteAclsFilter:
    """A filter; null matches any name, principal or host."""

    resource_type_filter: I8 = 0
    resource_name_filter: NullableStr = ""
    pattern_type_filter: I8 = field(default=3, since=1)
    principal_filter: NullableStr = ""
    host_filter: NullableStr = ""
    operation: I8 = 0
    permission_type: I8 = 0


@message(versions=(0, 2), flexible=2)
class DeleteAclsRequest:
    """The filters."""

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@struct
class DeleteAclsMatchingAcl:
    """A rule that a filter matched, and whether it was deleted."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    resource_type: I8 = 0
    resource_name: Str = ""
    pattern_type: I8 = field(default=3, since=1)
    principal: Str = ""
    host: Str = ""
    operation: I8 = 0
    permission_type: I8 = 0


@struct
class DeleteAclsFilterResult:
    """What one filter matched."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DeleteAclsResponse:
    """What was deleted, in the order of the request."""

    throttle_time_ms: I32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


API: Final = Api(ApiKey.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse)
