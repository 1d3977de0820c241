"""CreateDelegationToken (API key 38): issues a token that stands for the one who asks (KIP-48).

Clients send it to any broker.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bytes, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class CreatableRenewers:
    """A principal that may renew the token."""

    principal_type: Str = ""
    principal_name: Str = ""


@message(versions=(0, 2), flexible=2)
class CreateDelegationTokenRequest:
    """Who may renew the token and how long it may live; -1 is the broker's maximum."""

    renewers: list[CreatableRenewers] = field(default_factory=list)
    max_lifetime_ms: I64 = 0


@message(versions=(0, 2), flexible=2)
class CreateDelegationTokenResponse:
    """The token, its times in milliseconds since the epoch."""

    error_code: I16 = 0
    principal_type: Str = ""
    principal_name: Str = ""
    issue_timestamp_ms: I64 = 0
    expiry_timestamp_ms: I64 = 0
    max_timestamp_ms: I64 = 0
    token_id: Str = ""
    hmac: Bytes = b""
    throttle_time_ms: I32 = 0


API: Final = Api(ApiKey.CREATE_DELEGATION_TOKEN, CreateDelegationTokenRequest, CreateDelegationTokenResponse)
