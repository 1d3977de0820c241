"""One connection to one broker: requests go out as they are asked for, answers come back in that order.

Versions are negotiated first (KIP-35, KIP-511): each API is used in the newest version that both sides have. A request
that is not answered in time ends the connection, as answers that follow would wait behind the lost one. So does one
whose caller was cancelled: it stays under way, and its answer is dropped. One timer looks after all requests of a
connection.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.client.errors import (
    ClientError,
    ConnectionFailed,
    ProtocolViolation,
    RequestTimedOut,
    UnsupportedByBroker,
    raise_for,
)
from barnabas.client.transport import Channel, Connector
from barnabas.protocol.batch import Buffer
from barnabas.protocol.compiler import Frame
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import request_framer, response_decoder
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import api_versions
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.primitives import WireError
from barnabas.protocol.schema import Api

log = logging.getLogger(__name__)

SOFTWARE_NAME: Final = "barnabas"
SOFTWARE_VERSION: Final = "0.1.0"
DEFAULT_TIMEOUT_MS: Final = 30_000
_CORRELATION_IDS: Final = 1 << 31


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Format:
    """How requests of one API's version are framed, and their answers decoded."""

    __slots__ = ("decode", "frame")

    def __init__(self, api: Api, version: int, client_id: str) -> None:
        self.frame: Frame = request_framer(api.key, version, client_id)
        self.decode: Callable[[Buffer], Any] = response_decoder(api.key, version)


class _Asked:
    """A request that waits for its answer until the loop's time is `due_s`."""

    __slots__ = ("answer", "api", "due_s", "timeout_ms")

    def __init__(self, api: Api, answer: "asyncio.Future[bytearray]", due_s: float, timeout_ms: int) -> None:
        self.api = api
        self.answer = answer
        self.due_s = due_s
        self.timeout_ms = timeout_ms


class Connection:
    """Made by `open_connection`. Requests may be asked for while others wait."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._channel: Channel | None = None
        self._next_correlation_id = 0
        self._waiting: dict[int, _Asked] = {}
        self._versions: Mapping[int, range] = {}
        self._formats: dict[tuple[int, int], _Format] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_s = math.inf
        """When the timer goes off: not after the first request that is due."""
        self._lost: str | None = None
        self._ended = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return self._channel is not None and self._lost is None

    def version_of(self, api: Api, *, least: int = 0, most: int | None = None) -> int:
        """Return the newest version of `api` that both sides have, between `least` and `most`.

        Raises UnsupportedByBroker.
        """
        theirs = self._versions.get(api.key)
        if theirs is None:
            raise UnsupportedByBroker(f"the broker at {self.address} does not serve {api.key.name}")
        newest = min(api.versions[-1], theirs[-1], api.versions[-1] if most is None else most)
        if newest < max(least, theirs[0]):
            raise UnsupportedByBroker(
                f"the broker at {self.address} serves {api.key.name} in versions {theirs[0]} to {theirs[-1]}; "
                f"{max(least, api.versions[0])} to {api.versions[-1] if most is None else most} would do"
            )
        return newest

    async def request(
        self,
        api: Api,
        request: object,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        least: int = 0,
        most: int | None = None,
    ) -> Any:
        """Send a request in the newest fitting version and return the response, a message of `api`.

        Error codes in the response are the caller's. Raises ClientError.
        """
        version = self.version_of(api, least=least, most=most)
        return self._decode(api, version, await self._roundtrip(api, request, version, timeout_ms))

    async def send_only(
        self,
        api: Api,
        request: object,
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        least: int = 0,
        most: int | None = None,
    ) -> None:
        """Send a request that has no response: a produce request with acks 0. Raises ClientError."""
        version = self.version_of(api, least=least, most=most)
        if not self._open_channel().is_writable:
            await self._room(api, asyncio.get_running_loop().time() + timeout_ms / 1000, timeout_ms)
        self._send(api, request, version)

    def close(self, reason: str = "the client closed it") -> None:
        if self._lost is None:
            self._fail(reason)
            if self._channel is not None:
                self._channel.close()

    async def ended(self) -> None:
        """Return when a closed connection has sent what it had to."""
        if self._channel is not None:
            await self._ended.wait()

    # What the channel calls.

    def frame_received(self, frame: bytearray) -> None:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        asked = self._waiting.pop(correlation_id, None)
        if asked is None:
            self.close(f"the broker answered request {correlation_id}, which was not asked")
        elif not asked.answer.done():
            asked.answer.set_result(frame)

    def channel_lost(self, reason: str) -> None:
        self._ended.set()
        if self._lost is None:
            self._fail(reason)

    # The rest is ours.

    def attach(self, channel: Channel) -> None:
        assert self._channel is None
        self._channel = channel

    async def negotiate(self, timeout_ms: int) -> None:
        """Learn which versions the broker has. Raises ClientError."""
        request = ApiVersionsRequest(SOFTWARE_NAME, SOFTWARE_VERSION)
        newest = api_versions.API.versions[-1]
        response = await self._ask_versions(request, newest, timeout_ms)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # The refusal is a version 0, whose table may tell which version would do.
            told = [key.max_version for key in response.api_keys if key.api_key == ApiKey.API_VERSIONS]
            response = await self._ask_versions(request, min(told[0], newest) if told else 0, timeout_ms)
        raise_for(response.error_code, context=f"cannot talk to {self.address}")
        self._versions = {key.api_key: range(key.min_version, key.max_version + 1) for key in response.api_keys}

    async def _ask_versions(self, request: ApiVersionsRequest, version: int, timeout_ms: int) -> ApiVersionsResponse:
        frame = await self._roundtrip(api_versions.API, request, version, timeout_ms)
        refused = int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
        response = self._decode(api_versions.API, 0 if refused else version, frame)
        assert isinstance(response, ApiVersionsResponse)
        return response

    async def _roundtrip(self, api: Api, request: object, version: int, timeout_ms: int) -> bytearray:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + timeout_ms / 1000
        if not self._open_channel().is_writable:
            await self._room(api, due_s, timeout_ms)
        asked = _Asked(api, loop.create_future(), due_s, timeout_ms)
        self._send(api, request, version, asked)
        if due_s < self._looks_s:
            self._look_at(due_s, loop)
        return await asked.answer

    async def _room(self, api: Api, due_s: float, timeout_ms: int) -> None:
        """Wait for room on the channel. Raises RequestTimedOut, and ends the connection, if there is none in time."""
        try:
            async with asyncio.timeout_at(due_s):
                await self._open_channel().drained()
        except TimeoutError:
            reason = f"no room for {api.key.name} in {timeout_ms} ms"
            self.close(reason)
            raise RequestTimedOut(f"{reason} on the connection to {self.address}") from None

    def _open_channel(self) -> Channel:
        channel = self._channel
        if channel is None or self._lost is not None:
            raise ConnectionFailed(f"no connection to {self.address}: {self._lost}")
        return channel

    def _send(self, api: Api, request: object, version: int, asked: _Asked | None = None) -> None:
        """Send a request; `asked` gets its answer."""
        channel = self._open_channel()
        correlation_id = self._next_correlation_id
        parts = self._format(api, version).frame(request, correlation_id)
        self._next_correlation_id = (correlation_id + 1) % _CORRELATION_IDS
        if asked is not None:
            self._waiting[correlation_id] = asked
        buffers: list[Buffer] = []
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview)
            buffers.append(part)
        channel.send(buffers)

    def _format(self, api: Api, version: int) -> _Format:
        at = int(api.key), version
        known = self._formats.get(at)
        if known is None:
            known = self._formats[at] = _Format(api, version, self._client_id)
        return known

    def _look_at(self, due_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Have the timer go off by then."""
        if self._timer is not None:
            self._timer.cancel()
        self._looks_s = due_s
        self._timer = loop.call_at(due_s, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the connection if an answer is overdue; else look again when the next one would be."""
        self._timer, self._looks_s = None, math.inf
        if not self._waiting:
            return
        first = min(self._waiting.values(), key=lambda asked: asked.due_s)
        if first.due_s > loop.time():
            self._look_at(first.due_s, loop)
            return
        name, timeout_ms = first.api.key.name, first.timeout_ms
        if not first.answer.done():
            first.answer.set_exception(RequestTimedOut(f"no answer to {name} from {self.address} in {timeout_ms} ms"))
        self.close(f"no answer to {name} in {timeout_ms} ms")

    def _decode(self, api: Api, version: int, frame: bytearray) -> Any:
        try:
            return self._format(api, version).decode(frame)
        except WireError as error:
            self.close(f"the answer to {api.key.name} cannot be read")
            raise ProtocolViolation(
                f"the answer to {api.key.name} v{version} from {self.address} cannot be read: {error}"
            ) from error

    def _fail(self, reason: str) -> None:
        self._lost = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for asked in waiting.values():
            if not asked.answer.done():
                asked.answer.set_exception(ConnectionFailed(f"the connection to {self.address} ended: {reason}"))
                # A caller that was cancelled takes no answer.
                asked.answer.exception()


async def open_connection(
    address: Address, *, connector: Connector, client_id: str = SOFTWARE_NAME, timeout_ms: int = DEFAULT_TIMEOUT_MS
) -> Connection:
    """Connect and negotiate versions. Raises ClientError."""
    connection = Connection(address, client_id)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            connection.attach(await connector(address.host, address.port, connection))
            await connection.negotiate(timeout_ms)
    except TimeoutError:
        connection.close("it could not be set up in time")
        raise ConnectionFailed(f"no connection to {address} in {timeout_ms} ms") from None
    except OSError as error:
        raise ConnectionFailed(f"no connection to {address}: {error.strerror or error}") from error
    except (ClientError, asyncio.CancelledError) as failure:
        connection.close(str(failure) or "nobody waits for it any more")
        raise
    log.debug("connected to %s", address)
    return connection
