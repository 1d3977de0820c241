"""One connection to one broker: requests go out as they are asked for, answers come back in that order.

Versions are negotiated first (KIP-35, KIP-511): each API is used in the newest version that both sides have. A request
that is not answered in time ends the connection, as answers that follow would wait behind the lost one. A request whose
caller was cancelled stays under way; its answer is dropped.
"""

import asyncio
import logging
from collections.abc import Mapping
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
from barnabas.protocol.compiler import decode_whole
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_response_header, frame_request
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


class Connection:
    """Made by `open_connection`. Requests may be asked for while others wait."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._channel: Channel | None = None
        self._next_correlation_id = 0
        self._waiting: dict[int, asyncio.Future[bytearray]] = {}
        self._versions: Mapping[int, range] = {}
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
        return await self._exchange(api, request, self.version_of(api, least=least, most=most), timeout_ms)

    async def send_only(self, api: Api, request: object, *, least: int = 0, most: int | None = None) -> None:
        """Send a request that has no response: a produce request with acks 0."""
        (await self._send(api, request, self.version_of(api, least=least, most=most), answered=False)).cancel()

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
        answer = self._waiting.pop(correlation_id, None)
        if answer is None:
            self.close(f"the broker answered request {correlation_id}, which was not asked")
        elif not answer.done():
            answer.set_result(frame)

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

    async def _exchange(self, api: Api, request: object, version: int, timeout_ms: int) -> Any:
        return self._decode(api, version, await self._roundtrip(api, request, version, timeout_ms))

    async def _roundtrip(self, api: Api, request: object, version: int, timeout_ms: int) -> bytearray:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await (await self._send(api, request, version))
        except TimeoutError:
            self.close(f"no answer to {api.key.name} in {timeout_ms} ms")
            raise RequestTimedOut(f"no answer to {api.key.name} from {self.address} in {timeout_ms} ms") from None

    async def _send(
        self, api: Api, request: object, version: int, *, answered: bool = True
    ) -> "asyncio.Future[bytearray]":
        if self._channel is not None and self._lost is None:
            await self._channel.drained()
        if self._channel is None or self._lost is not None:
            raise ConnectionFailed(f"no connection to {self.address}: {self._lost}")
        correlation_id = self._next_correlation_id
        parts = frame_request(
            api.key, version, correlation_id=correlation_id, client_id=self._client_id, request=request
        )
        self._next_correlation_id = (correlation_id + 1) % _CORRELATION_IDS
        answer: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        if answered:
            self._waiting[correlation_id] = answer
        buffers: list[Buffer] = []
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview)
            buffers.append(part)
        self._channel.send(buffers)
        return answer

    def _decode(self, api: Api, version: int, frame: bytearray) -> Any:
        try:
            _, pos = decode_response_header(api.key, version, frame)
            return decode_whole(api.response, version, frame, pos)
        except WireError as error:
            self.close(f"the answer to {api.key.name} cannot be read")
            raise ProtocolViolation(
                f"the answer to {api.key.name} v{version} from {self.address} cannot be read: {error}"
            ) from error

    def _fail(self, reason: str) -> None:
        self._lost = reason
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionFailed(f"the connection to {self.address} ended: {reason}"))
                # A caller that was cancelled takes no answer.
                answer.exception()


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
    except (ClientError, asyncio.CancelledError) as error:
        connection.close(str(error) or "nobody waits for it any more")
        raise
    log.debug("connected to %s", address)
    return connection
