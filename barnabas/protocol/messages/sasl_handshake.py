"""SaslHandshake (API key 17): chooses the SASL mechanism of a connection.

Clients and brokers send it before they authenticate (KIP-43).

Version 1 wants the tokens in SaslAuthenticate; after version 0 they follow as they are, without headers (KIP-152).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, Str
from barnabas.protocol.schema import Api, field, message


@message(versions=(0, 1))
class SaslHandshakeRequest:
    """The mechanism that the client wants."""

    mechanism: Str = ""


@message(versions=(0, 1))
class SaslHandshakeResponse:
    """The mechanisms that the broker has."""

    error_code: I16 = 0
    mechanisms: list[Str] = field(default_factory=list)


API: Final = Api(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest, SaslHandshakeResponse)
