"""From a frame to its handler and request, and what each failure means to the peer.

What a peer gets wrong in the frame itself ends its connection, as in Kafka: there is no answer that it could read.
The one exception is ApiVersions in a version that is too high, which is answered in version 0 with error 35 and its own
range of versions, so that the peer can try again (KIP-511).
"""

from collections.abc import Iterable
from dataclasses import replace
from struct import Struct
from typing import Any, Final

from barnabas.protocol.compiler import decoder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_request_header, request_header_decoder, response_framer
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseKey
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.primitives import WireError
from barnabas.runtime.files import FileSlice
from broker.metrics import FOLLOWER_FETCH
from broker.registry import CloseConnection, Handler, Registry, Route

_peek = Struct(">hh").unpack_from
_LOWEST_HEADER_BYTES: Final = 8
_MAX_FRAME_BYTES: Final = 2**31 - 1
_MAX_PLAIN_REQUEST_BYTES: Final = 4 * 1024 * 1024
"""Only Produce carries data; anything else of this size would decode into many times its size in objects."""

_MAX_ITEMS: Final = 30_000
"""Items of a request's arrays, in all: what decodes within a few hundredths of a second. A client that has more
partitions asks in several requests."""


class UnsupportedApiVersions(Exception):
    """ApiVersions in a version that is not served: answer with `response` by `route`, which is that of version 0."""

    def __init__(self, header: RequestHeader, route: Route, response: ApiVersionsResponse) -> None:
        super().__init__(f"ApiVersions v{header.api_version}")
        self.header = header
        self.route = route
        self.response = response


def decode_request(registry: Registry, frame: bytearray) -> tuple[Route, RequestHeader, Any]:
    """Take a frame apart.

    Raises:
        CloseConnection: the frame is not a request that this broker serves.
        UnsupportedApiVersions: see there.
    """
    size = len(frame)
    if size < _LOWEST_HEADER_BYTES:
        raise CloseConnection(f"a frame of {size} bytes holds no request header")
    route = registry.routes.get(_peek(frame)) or _open_route(registry, frame)
    try:
        header, position = route.decode_header(frame, 0)
    except WireError as error:
        raise _broken_header(error) from error
    if size > route.max_frame_bytes:
        raise CloseConnection(f"{route.handler.key.name} of {size} bytes; {route.max_frame_bytes} are taken")
    try:
        request, _ = route.decode_request(frame, position, _MAX_ITEMS)
    except WireError as error:
        raise CloseConnection(f"{route.name} cannot be decoded: {error}") from error
    if route.of_followers is not None and request.replica_id >= 0:
        route = route.of_followers
    return route, header, request


def _open_route(registry: Registry, frame: bytearray) -> Route:
    """The route of the first request of its API version, for those that follow. Raises as `decode_request`."""
    try:
        header, _ = decode_request_header(frame)
    except WireError as error:
        raise _broken_header(error) from error
    handler = registry.find(header.api_key)
    if handler is None:
        raise CloseConnection(f"API key {header.api_key} is not served")
    version = header.api_version
    if not handler.oldest <= version <= handler.newest:
        if handler.key is ApiKey.API_VERSIONS:
            # As Kafka: only its own range, which is all that the peer needs to ask again.
            response = versions_of([handler], ErrorCode.UNSUPPORTED_VERSION)
            raise UnsupportedApiVersions(header, _route(handler, 0), response)
        raise CloseConnection(
            f"{handler.key.name} version {version} is not served; {handler.oldest} to {handler.newest} are"
        )
    route = registry.routes[header.api_key, version] = _route(handler, version)
    return route


def _route(handler: Handler, version: int) -> Route:
    key = handler.key
    route = Route(
        handler,
        int(key),
        version,
        request_header_decoder(key, version),
        decoder(handler.api.request, version),
        response_framer(key, version),
        _MAX_FRAME_BYTES if key is ApiKey.PRODUCE else _MAX_PLAIN_REQUEST_BYTES,
    )
    if key is ApiKey.FETCH:
        route.of_followers = replace(route, api_key=FOLLOWER_FETCH)
    return route


def _broken_header(error: WireError) -> CloseConnection:
    return CloseConnection(f"the request header is broken: {error}")


def versions_of(handlers: Iterable[Handler], error: ErrorCode = ErrorCode.NONE) -> ApiVersionsResponse:
    """What ApiVersions answers: each API with its oldest and newest version."""
    keys = [
        ApiVersionsResponseKey(api_key=handler.key, min_version=handler.oldest, max_version=handler.newest)
        for handler in handlers
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def release_records(response: object) -> None:
    """Let go of the slices of an answer that will not be sent; only Fetch has any."""
    if isinstance(response, FetchResponse):
        for topic in response.responses:
            for partition in topic.partition_responses:
                if isinstance(partition.record_set, FileSlice):
                    partition.record_set.release()
