"""DescribeDelegationToken (API key 41): the tokens of owners (KIP-48).

Clients send it to any broker.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bytes, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DescribeDelegationTokenOwner:
    """An owner."""

    principal_type: Str = ""
    principal_name: Str = ""


@message(versions=(0, 2), flexible=2)
class DescribeDelegationTokenRequest:
    """Whose tokens; null means those of all owners."""

    owners: list[DescribeDelegationTokenOwner] | None = field(default_factory=list)


@struct
class DescribedDelegationTokenRenewer:
    """A principal that may renew the token."""

    principal_type: Str = ""
    principal_name: Str = ""


@struct
class DescribedDelegationToken:
    """A token, its times in milliseconds since the epoch."""

    principal_type: Str = ""
    principal_name: Str = ""
    issue_timestamp: I64 = 0
    expiry_timestamp: I64 = 0
    max_timestamp: I64 = 0
    token_id: Str = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DescribeDelegationTokenResponse:
    """The tokens."""

    error_code: I16 = 0
    tokens: list[DescribedDelegationToken] = field(default_factory=list)
    throttle_time_ms: I32 = 0


API: Final = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest, DescribeDelegationTokenResponse)
