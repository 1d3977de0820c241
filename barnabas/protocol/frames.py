"""The headers in front of requests and responses, and the frame around them.

A frame is an int32 size, then a header, then a message. Which header depends on the API and its version: flexible
versions have request header 2 and response header 1 (KIP-482), others 1 and 0. Two exceptions: the response header of
ApiVersions is always 0, because a client that sends a version too new must be able to read the refusal (KIP-511), and
ControlledShutdown version 0 has request header 0, without a client id.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final, cast

from barnabas.protocol.compiler import Decode, Frame, decode, decoder, encode, encoder, framer, whole_decoder
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import APIS
from barnabas.protocol.primitives import Buffer, SizedRecords, TruncatedMessage, UnknownApiKey
from barnabas.protocol.schema import NEVER

SIZE_BYTES: Final = 4

_KEY_AND_VERSION: Final = Struct(">hh")
_CORRELATION_ID: Final = Struct(">i")
_SIZE: Final = Struct(">i")
_FIRST_FLEXIBLE: Final[Mapping[int, int]] = {
    int(key): NEVER if api.flexible is None else api.flexible for key, api in APIS.items()
}


def request_header_version(api_key: int, version: int) -> int:
    """Return the version of the request header for an API's version, also for versions not yet known. UnknownApiKey."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= _first_flexible(api_key) else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return the version of the response header for an API's version. UnknownApiKey."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= _first_flexible(api_key) else 0


def decode_request_header(buf: Buffer, pos: int = 0) -> tuple[RequestHeader, int]:
    """Return the header at `pos` and where the request starts. The API is known, its version need not be.

    Raises WireError; UnknownApiKey where the key is not in the table.
    """
    if len(buf) - pos < _KEY_AND_VERSION.size:
        raise TruncatedMessage("a request header ends early")
    api_key, version = _KEY_AND_VERSION.unpack_from(buf, pos)
    decoded: tuple[RequestHeader, int] = request_header_decoder(api_key, version)(buf, pos)
    return decoded


def request_header_decoder(api_key: int, version: int) -> Decode:
    """Return the function (buf, pos) -> (RequestHeader, position after it) for an API's version. UnknownApiKey."""
    return decoder(RequestHeader, request_header_version(api_key, version))


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header that goes in front of a request."""
    header = RequestHeader(int(api_key), version, correlation_id, client_id)
    return encode(header, request_header_version(api_key, version))


def decode_response_header(api_key: int, version: int, buf: Buffer, pos: int = 0) -> tuple[int, int]:
    """Return the correlation id of a response to that API's version and where the response starts. Raises WireError."""
    header, pos = decode(ResponseHeader, response_header_version(api_key, version), buf, pos)
    return header.correlation_id, pos


def frame_request(
    api_key: int, version: int, *, correlation_id: int, client_id: str | None, request: object
) -> list[bytes | SizedRecords]:
    """Return a whole request frame, its size included, as pieces to be sent in order."""
    return request_framer(api_key, version, client_id)(request, correlation_id)


def request_framer(api_key: int, version: int, client_id: str | None) -> Frame:
    """Return the function of `frame_request` for one client's requests of an API's version, for who frames many."""
    header = encode_request_header(api_key, version, 0, client_id)
    end = _KEY_AND_VERSION.size
    before, after = header[:end], header[end + _CORRELATION_ID.size :]
    encode_after = encoder(APIS[ApiKey(api_key)].request, version)

    def frame(request: object, correlation_id: int) -> list[bytes | SizedRecords]:
        parts = encode_after(request, before + _CORRELATION_ID.pack(correlation_id) + after)
        parts[0] = _SIZE.pack(sum(map(len, parts))) + cast("bytes", parts[0])
        return parts

    return frame


def response_decoder(api_key: int, version: int) -> Callable[[Buffer], Any]:
    """Return the function from a response's frame, without its size, to the message. It raises WireError."""
    decode_header = decoder(ResponseHeader, response_header_version(api_key, version))
    decode_message = whole_decoder(APIS[ApiKey(api_key)].response, version)

    def decode_response(frame: Buffer) -> Any:
        _, start = decode_header(frame, 0)
        return decode_message(frame, start)

    return decode_response


def frame_response(api_key: int, version: int, *, correlation_id: int, response: object) -> list[bytes | SizedRecords]:
    """Return a whole response frame, its size included, as pieces to be sent in order."""
    return response_framer(api_key, version)(response, correlation_id)


def response_framer(api_key: int, version: int) -> Frame:
    """Return the function of `frame_response` for an API's version, for who frames many."""
    tagged_header = response_header_version(api_key, version) == 1
    return framer(APIS[ApiKey(api_key)].response, version, tagged_header=tagged_header)


def _first_flexible(api_key: int) -> int:
    first = _FIRST_FLEXIBLE.get(api_key)
    if first is None:
        raise UnknownApiKey(f"API key {api_key}")
    return first
