"""Which APIs this broker serves, in which versions, by which handler.

ApiVersions answers from this table, dispatch decodes by it: what stands here is what the broker promises.

A handler is `handle(request, context)`. What it returns decides when the next request of the same connection may
start (answers leave in the order of the requests in any case):

- a response message: answered, the next may start;
- a coroutine: the next starts when it is done, as in Kafka, where a connection has one request at a time;
- a future or a completion (`barnabas.runtime.completion`): the same, without a task of its own;
- `Parked` of one of these: the request's effects are ordered (its records are appended), the next may start now, and
  the answer is its result; a coroutine may also return one;
- `NO_RESPONSE`: nothing is sent (Produce with acks=0).

`CloseConnection` raised by a handler, or set on what is parked, ends the connection without an answer.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from barnabas.protocol.compiler import Decode, Frame
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import Api
from barnabas.runtime.completion import Completion


class NoResponse(Enum):
    """The type of `NO_RESPONSE`."""

    NO_RESPONSE = "no response"


Later: TypeAlias = "asyncio.Future[Any] | Completion[Any]"
NO_RESPONSE: Final = NoResponse.NO_RESPONSE


class Parked:
    """An answer that comes later while the connection's next request may start already.

    The future is cancelled if the connection ends first.
    """

    __slots__ = ("future",)

    def __init__(self, future: Later) -> None:
        self.future = future


class CloseConnection(Exception):
    """The peer's request cannot be answered; its connection ends. The text says why, for the log."""


@dataclass(frozen=True, slots=True)
class Handler:
    """How one API is served: versions `oldest` to `newest`, all of them completely."""

    api: Api
    handle: Callable[[Any, Any], Any]
    oldest: int
    newest: int

    @property
    def key(self) -> ApiKey:
        return self.api.key


@dataclass(slots=True)
class Route:
    """What a request of one API version goes through, and its answer."""

    handler: Handler
    api_key: int
    version: int
    decode_header: Decode
    decode_request: Decode
    frame_response: Frame
    max_frame_bytes: int
    of_followers: "Route | None" = None
    """Where followers' requests are counted apart: the same under another key."""

    @property
    def name(self) -> str:
        """For logs."""
        return f"{self.handler.key.name} v{self.version}"


class Registry:
    """The handlers by API key, and the routes by API key and version that requests have taken so far."""

    __slots__ = ("_handlers", "routes")

    def __init__(self, handlers: Iterable[Handler]) -> None:
        self.routes: dict[tuple[int, ...], Route] = {}
        self._handlers: dict[int, Handler] = {}
        for handler in handlers:
            assert handler.key not in self._handlers, f"two handlers for {handler.key!r}"
            self._handlers[int(handler.key)] = handler

    def find(self, api_key: int) -> Handler | None:
        return self._handlers.get(api_key)

    def handlers(self) -> list[Handler]:
        """All of them, by API key."""
        return [self._handlers[key] for key in sorted(self._handlers)]
