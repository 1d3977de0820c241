"""The requests of one client connection: started in order, answered in order.

One request at a time is between its start and the moment its effects are ordered; then the next may start, while
the answer of the first may still be parked (`broker.registry` tells how a handler says which). Answers leave in the
order of the requests. Bounds, per connection: frames that wait their turn, answers that are not ready, and bytes and
slices that the peer has not read or that wait behind such an answer. At a bound reading stops, so a peer that never
reads costs only itself.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

from barnabas.runtime.completion import Completion
from barnabas.runtime.files import FileSlice
from barnabas.runtime.network import SLICE_WEIGHT_BYTES, Connection, Part
from broker.dispatch import UnsupportedApiVersions, decode_request, release_records
from broker.fetch_sessions import FollowerLine
from broker.registry import NO_RESPONSE, CloseConnection, Later, Parked, Route
from broker.request_context import RequestContext
from broker.services import Services

log = logging.getLogger(__name__)

_MAX_WAITING_FRAMES: Final = 32
_MAX_WAITING_BYTES: Final = 1024 * 1024
_MAX_OPEN_ANSWERS: Final = 256
_FAILED: Final = "the broker failed to handle a request"
_UNANSWERABLE: Final = "the broker failed to answer a request"
_MAX_UNSENT_BYTES: Final = 256 * 1024


class _Answer:
    """The place of one request's answer in the order."""

    __slots__ = (
        "correlation_id",
        "is_dropped",
        "is_ready",
        "ordered_us",
        "parked",
        "parts",
        "received_us",
        "route",
        "started_us",
    )

    def __init__(self, route: Route, correlation_id: int, received_us: int, started_us: int) -> None:
        self.route = route
        self.correlation_id = correlation_id
        self.received_us = received_us
        self.started_us = started_us
        self.ordered_us = 0
        self.parts: list[Part] | None = None
        self.is_ready = False
        self.is_dropped = False
        self.parked: Later | None = None

    @property
    def size_bytes(self) -> int:
        """What it holds while it waits for those before it."""
        parts = self.parts or ()
        return sum(SLICE_WEIGHT_BYTES if isinstance(part, FileSlice) else len(part) for part in parts)

    def drop(self) -> None:
        """It will not be sent: let go of its records, and wait for it no more."""
        self.is_dropped = True
        if self.parked is not None:
            self.parked.cancel()
        for part in self.parts or ():
            if isinstance(part, FileSlice):
                part.release()


class ClientConnection:
    """The sink of one connection's frames."""

    __slots__ = (
        "_accepted_us",
        "_answers",
        "_broker",
        "_clock",
        "_closed",
        "_connection",
        "_delayed",
        "_delayed_since_us",
        "_follower_line",
        "_held_bytes",
        "_is_reading",
        "_listener_name",
        "_loop",
        "_peer_host",
        "_refused",
        "_running",
        "_sent",
        "_starts_soon",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(self, connection: Connection, broker: Services, *, listener_name: str) -> None:
        # Asking for the running loop is a system call in Python 3.11.
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._broker = broker
        self._clock = broker.clock
        self._accepted_us = broker.clock.monotonic_us()
        self._follower_line = FollowerLine()
        self._listener_name = listener_name
        self._peer_host = connection.peer_host
        self._waiting: deque[tuple[bytearray, int]] = deque()
        self._waiting_bytes = 0
        self._answers: deque[_Answer] = deque()
        self._held_bytes = 0
        self._running: Later | None = None
        self._is_reading = True
        self._refused: str | None = None
        self._closed = False
        self._starts_soon = False
        # APIs of the answers of this turn, and of those that the peer did not take at once.
        self._sent: list[int] = []
        self._delayed: list[int] = []
        self._delayed_since_us = 0

    # What the network calls.

    def frame_received(self, frame: bytearray) -> None:
        received_us = self._clock.monotonic_us()
        if not self._waiting and self._may_start():
            self._start(frame, received_us, received_us)
            return
        self._waiting.append((frame, received_us))
        self._waiting_bytes += len(frame)
        if len(self._waiting) >= _MAX_WAITING_FRAMES or self._waiting_bytes >= _MAX_WAITING_BYTES:
            self._update_reading()

    def frames_done(self) -> None:
        """Let go what is ready, and note whose answers the peer does not take at once."""
        self._connection.flush()
        if self._sent:
            if self._connection.unsent_bytes:
                if not self._delayed:
                    self._delayed_since_us = self._clock.monotonic_us()
                self._delayed += self._sent
            self._sent.clear()

    def drained(self) -> None:
        if self._delayed:
            send_us = self._clock.monotonic_us() - self._delayed_since_us
            for api_key in self._delayed:
                self._broker.metrics.send_delayed(api_key, send_us)
            self._delayed.clear()
        if self._waiting or not self._is_reading:
            self._start_waiting()

    def disconnected(self) -> None:
        self._closed = True
        self._refused = self._refused or "the peer is gone"
        for answer in self._answers:
            answer.drop()
        self._answers.clear()
        for frame, _ in self._waiting:
            self._connection.frame_finished(frame)
        self._waiting.clear()

    # Starting.

    def _may_start(self) -> bool:
        return (
            self._running is None
            and self._refused is None
            and len(self._answers) < _MAX_OPEN_ANSWERS
            and self._connection.unsent_bytes + self._held_bytes < _MAX_UNSENT_BYTES
        )

    def _start_waiting(self) -> None:
        """Start what waits and may start, and send what is ready."""
        self._starts_soon = False
        while self._waiting and self._may_start() and not self._closed:
            frame, received_us = self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._start(frame, received_us, self._clock.monotonic_us())
        self.frames_done()
        self._update_reading()

    def _start_waiting_soon(self) -> None:
        """The same once for all parked answers that come together, as those of one move of a high watermark do."""
        if not self._starts_soon:
            self._starts_soon = True
            self._loop.call_soon(self._start_waiting)

    def _update_reading(self) -> None:
        if self._closed:
            return
        full = len(self._waiting) >= _MAX_WAITING_FRAMES or self._waiting_bytes >= _MAX_WAITING_BYTES
        if full and self._is_reading:
            self._is_reading = False
            self._connection.pause_reading()
        elif not self._is_reading and not self._waiting:
            self._is_reading = True
            self._connection.resume_reading()

    def _start(self, frame: bytearray, received_us: int, started_us: int) -> None:
        try:
            route, header, request = decode_request(self._broker.registry, frame)
            # By position: names would double what the call takes.
            context = RequestContext(
                self._broker,
                header.api_version,
                header.correlation_id,
                header.client_id,
                self._peer_host,
                self._listener_name,
                self._accepted_us,
                self._follower_line,
            )
            result = route.handler.handle(request, context)
        except CloseConnection as close:
            self._connection.frame_finished(frame)
            self._refuse(str(close))
            return
        except UnsupportedApiVersions as unsupported:
            self._connection.frame_finished(frame)
            self._answer_versions(unsupported, received_us)
            return
        except Exception:
            log.exception("%s: a request failed in the broker; closing its connection", self._peer_host)
            self._connection.frame_finished(frame)
            self._refuse(_FAILED)
            return
        if not self._answers and type(result) is route.handler.api.response:
            self._connection.frame_finished(frame)
            self._answer_at_once(route, header.correlation_id, result, received_us, started_us)
            return
        answer = _Answer(route, header.correlation_id, received_us, started_us)
        self._answers.append(answer)
        if asyncio.iscoroutine(result):
            # Its records are a view of the frame.
            self._running = task = self._loop.create_task(result)
            self._await(answer, task, frame)
            return
        self._connection.frame_finished(frame)
        if isinstance(result, (Completion, asyncio.Future)):
            self._running = result
            answer.ordered_us = self._clock.monotonic_us()
            self._await(answer, result)
            return
        self._settle(answer, result)

    def _refuse(self, reason: str) -> None:
        """End the connection because of its latest request; those before it are answered, if the peer takes that."""
        self._refused = reason
        if not self._answers:
            self._close()

    def _fail(self, answer: _Answer, reason: str) -> None:
        """An answer cannot be given: those behind it cannot be either, and the connection ends."""
        while self._answers:
            last = self._answers.pop()
            last.drop()
            if last is answer:
                break
        self._refuse(reason)

    def _close(self) -> None:
        self._closed = True
        self._broker.metrics.count_refused_connection()
        log.info("%s: closing the connection: %s", self._peer_host, self._refused)
        self._connection.flush()
        self._connection.close(self._refused or "")

    def _answer_versions(self, refused: UnsupportedApiVersions, received_us: int) -> None:
        answer = _Answer(refused.route, refused.header.correlation_id, received_us, received_us)
        self._answers.append(answer)
        self._settle(answer, refused.response)

    # Answering.

    def _answer_at_once(
        self, route: Route, correlation_id: int, response: Any, received_us: int, started_us: int
    ) -> None:
        """Send what is ready when no earlier answer is open: the way of most requests."""
        parts = self._encode(route, correlation_id, response)
        if parts is None:
            release_records(response)
            self._refuse(_UNANSWERABLE)
            return
        self._connection.send(parts)
        self._sent.append(route.api_key)
        local_us = self._clock.monotonic_us() - started_us
        if started_us == received_us:
            self._broker.metrics.request_done_at_once(route.api_key, route.version, local_us)
        else:
            self._broker.metrics.request_done(
                route.api_key,
                version=route.version,
                queue_us=started_us - received_us,
                local_us=local_us,
                remote_us=0,
            )

    def _encode(self, route: Route, correlation_id: int, response: Any) -> list[Part] | None:
        """The answer's frame; None when the broker made an answer that cannot be sent, which costs this connection."""
        try:
            # The only records that a broker sends are slices and bytes.
            return route.frame_response(response, correlation_id)  # type: ignore[return-value]
        except Exception:
            log.exception("%s: %s: the answer cannot be encoded", self._peer_host, route.name)
            return None

    def _settle(self, answer: _Answer, result: Any) -> None:
        """The request's effects are ordered; its answer is here or parked."""
        answer.ordered_us = self._clock.monotonic_us()
        if type(result) is Parked:
            self._await(answer, result.future)
            return
        self._ready(answer, result)

    def _await(self, answer: _Answer, future: Later, frame: bytearray | None = None) -> None:
        """Go on when the future is done: with a frame it is a task whose effects are not ordered before that."""
        answer.parked = future
        future.add_done_callback(lambda done: self._on_done(answer, done, frame))

    def _on_done(self, answer: _Answer, future: Later, frame: bytearray | None) -> None:
        if frame is not None:
            self._connection.frame_finished(frame)
        if self._running is future:
            self._running = None
        if answer.parked is future:
            answer.parked = None
        try:
            result = future.result()
        except CloseConnection as error:
            reason = str(error)
        except asyncio.CancelledError:
            reason = "a request was given up in the broker"
        except Exception:
            log.exception("%s: a request failed in the broker; closing its connection", self._peer_host)
            reason = _FAILED
        else:
            if answer.is_dropped:
                _drop_result(result)
                return
            if frame is not None:
                self._settle(answer, result)
            else:
                self._ready(answer, result)
            if self._answers or self._waiting or not self._is_reading:
                # What was parked is told in the middle of another request, and perhaps with others of this connection.
                self._start_waiting_soon()
            else:
                self.frames_done()
            return
        if not answer.is_dropped:
            self._fail(answer, reason)

    def _ready(self, answer: _Answer, response: Any) -> None:
        if response is not NO_RESPONSE:
            answer.parts = self._encode(answer.route, answer.correlation_id, response)
            if answer.parts is None:
                release_records(response)
                self._fail(answer, _UNANSWERABLE)
                return
        answer.is_ready = True
        answers = self._answers
        if answers[0] is not answer:
            self._held_bytes += answer.size_bytes
        while answers and answers[0].is_ready:
            first = answers.popleft()
            if first is not answer:
                self._held_bytes -= first.size_bytes
            if first.parts is not None:
                self._connection.send(first.parts)
                self._sent.append(first.route.api_key)
            self._broker.metrics.request_done(
                first.route.api_key,
                version=first.route.version,
                queue_us=first.started_us - first.received_us,
                local_us=first.ordered_us - first.started_us,
                remote_us=self._clock.monotonic_us() - first.ordered_us,
            )
        if self._refused is not None and not answers:
            self._close()


def _drop_result(result: Any) -> None:
    """What a request came to whose connection has ended."""
    if type(result) is Parked:
        result.future.cancel()
    else:
        release_records(result)
