"""DescribeAcls (API key 29): the access rules that match a filter (KIP-140).

Administrators send it to any broker.

Version 1 adds the pattern type (KIP-290) and is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 2), flexible=2)
class DescribeAclsRequest:
    """The filter; null matches any name, principal or host."""

    resource_type_filter: I8 = 0
    resource_name_filter: NullableStr = ""
    pattern_type_filter: I8 = field(default=3, since=1)
    principal_filter: NullableStr = ""
    host_filter: NullableStr = ""
    operation: I8 = 0
    permission_type: I8 = 0


@struct
class AclDescription:
    """A rule."""

    principal: Str = ""
    host: Str = ""
    operation: I8 = 0
    permission_type: I8 = 0


@struct
class DescribeAclsResource:
    """A resource pattern and its rules."""

    resource_type: I8 = 0
    resource_name: Str = ""
    pattern_type: I8 = field(default=3, since=1)
    acls: list[AclDescription] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DescribeAclsResponse:
    """The rules, by resource."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse)
