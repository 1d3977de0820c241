"""RenewDelegationToken (API key 39): makes a token expire later (KIP-48).

Clients send it to any broker.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bytes
from barnabas.protocol.schema import Api, message


@message(versions=(0, 2), flexible=2)
class RenewDelegationTokenRequest:
    """The token, by its HMAC."""

    hmac: Bytes = b""
    renew_period_ms: I64 = 0


@message(versions=(0, 2), flexible=2)
class RenewDelegationTokenResponse:
    """When the token expires now."""

    error_code: I16 = 0
    expiry_timestamp_ms: I64 = 0
    throttle_time_ms: I32 = 0


API: Final = Api(ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest, RenewDelegationTokenResponse)
