"""CreateAcls (API key 30): adds access rules (KIP-140).

Administrators send it to any broker.

Version 1 adds the pattern type (KIP-290) and is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class AclCreation:
    """A rule to add."""

    resource_type: I8 = 0
    resource_name: Str = ""
    resource_pattern_type: I8 = field(default=3, since=1)
    principal: Str = ""
    host: Str = ""
    operation: I8 = 0
    permission_type: I8 = 0


@message(versions=(0, 2), flexible=2)
class CreateAclsRequest:
    """The rules to add."""

    creations: list[AclCreation] = field(default_factory=list)


@struct
class AclCreationResult:
    """Whether one rule was added."""

    error_code: I16 = 0
    error_message: NullableStr = ""


@message(versions=(0, 2), flexible=2)
class CreateAclsResponse:
    """What was added, in the order of the request."""

    throttle_time_ms: I32 = 0
    results: list[AclCreationResult] = field(default_factory=list)


API: Final = Api(ApiKey.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse)
