"""SaslAuthenticate (API key 36): carries the tokens of SASL (KIP-152).

Clients and brokers send it after SaslHandshake, until both sides are content.

Version 1 adds how long the session may last before the client authenticates again (KIP-368).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I64, Bytes, NullableStr
from barnabas.protocol.schema import Api, field, message


@message(versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    """A token of the client."""

    auth_bytes: Bytes = b""


@message(versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    """A token of the broker; a session lifetime of 0 means no limit."""

    error_code: I16 = 0
    error_message: NullableStr = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: I64 = field(default=0, since=1, ignorable=True)


API: Final = Api(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest, SaslAuthenticateResponse)
