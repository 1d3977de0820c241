"""What stands in front of requests and responses; `frames` tells which version of it."""

from barnabas.protocol.primitives import I16, I32, NullableStr
from barnabas.protocol.schema import field, message


@message(versions=(0, 2), flexible=2)
class RequestHeader:
    """Who asks for what: an API, its version, and the number that the response will carry.

    The client id keeps its classic length in the flexible version, so that a broker can read the header of a version
    that it does not know.
    """

    api_key: I16 = 0
    api_version: I16 = 0
    correlation_id: I32 = 0
    client_id: NullableStr = field(default="", since=1, ignorable=True, compact=False)


@message(versions=(0, 1), flexible=1)
class ResponseHeader:
    """Which request is answered."""

    correlation_id: I32 = 0
