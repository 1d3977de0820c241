"""Requests of one connection start in order and are answered in order, whatever their handlers do.

How long each waited is counted: for its turn before it started, and for its peer after it was answered.
"""

import asyncio
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import heartbeat
from barnabas.runtime.network import Part
from broker.connection import ClientConnection
from broker.handlers import api_versions as api_versions_handler
from broker.metrics import BrokerMetrics
from broker.registry import NO_RESPONSE, CloseConnection, Handler, Parked, Registry
from tests.support.clock import ManualClock


async def turns() -> None:
    """What is done now is answered: one turn of the loop for the future's end, one for all that ended together."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


class Wire:
    """What the connection does to its peer."""

    peer_host = "peer"

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self._queued: list[bytes] = []
        self.closed: str | None = None
        self.reading = True
        self.unsent_bytes = 0
        self.frames_held = 0

    def send(self, parts: Sequence[Part]) -> None:
        self._queued.append(b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def flush(self) -> None:
        self.sent += self._queued
        self._queued.clear()

    def frame_finished(self, frame: bytearray) -> None:
        self.frames_held -= 1

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self, reason: str) -> None:
        self.closed = reason

    @property
    def correlation_ids(self) -> list[int]:
        return [struct.unpack_from(">i", frame, 4)[0] for frame in self.sent]


class Side:
    """A connection whose Heartbeat handler is the test's."""

    def __init__(self, handle: Any) -> None:
        self.wire = Wire()
        registry = Registry([Handler(heartbeat.API, handle, oldest=0, newest=3), api_versions_handler.API])
        self.clock = ManualClock()
        self.metrics = BrokerMetrics(self.clock)
        broker: Any = SimpleNamespace(registry=registry, clock=self.clock, metrics=self.metrics)
        self.connection = ClientConnection(self.wire, broker, listener_name="PLAINTEXT")

    def receive(self, correlation_id: int, api_key: int = ApiKey.HEARTBEAT, version: int = 0) -> None:
        header = struct.pack(">hhih", api_key, version, correlation_id, 1) + b"c"
        body = struct.pack(">h", 1) + b"g" + struct.pack(">i", 1) + struct.pack(">h", 1) + b"m"
        self.wire.frames_held += 1
        self.connection.frame_received(bytearray(header + body))
        self.connection.frames_done()

    def peer_takes_all(self) -> None:
        self.wire.unsent_bytes = 0
        self.connection.drained()

    @property
    def times_us(self) -> dict[str, tuple[int, int]]:
        """How often the requests waited for something, and how long in all."""
        times = self.metrics.apis[ApiKey.HEARTBEAT]
        settled = {name: getattr(times, name).settled() for name in ("at_once", "queue", "local", "remote", "delayed")}
        return {name: (time.count, time.sum_us) for name, time in settled.items() if time.count}


RESPONSE = heartbeat.HeartbeatResponse()


async def test_answers_leave_in_the_order_of_the_requests_though_a_later_one_is_ready_first() -> None:
    futures: list[asyncio.Future[Any]] = []

    def handle(request: Any, context: Any) -> Any:
        futures.append(asyncio.get_running_loop().create_future())
        return Parked(futures[-1])

    side = Side(handle)
    for correlation_id in (1, 2, 3):
        side.receive(correlation_id)
    futures[2].set_result(RESPONSE)
    futures[1].set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == []
    futures[0].set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == [1, 2, 3]
    assert side.wire.frames_held == 0


async def test_the_next_request_starts_when_a_coroutine_is_done_and_not_before() -> None:
    started: list[int] = []
    gate = asyncio.Event()

    def handle(request: Any, context: Any) -> Any:
        started.append(context.correlation_id)
        return wait() if context.correlation_id == 1 else RESPONSE

    async def wait() -> Any:
        await gate.wait()
        return RESPONSE

    side = Side(handle)
    side.receive(1)
    side.receive(2)
    await turns()
    assert started == [1]
    gate.set()
    for _ in range(3):
        await turns()
    assert started == [1, 2]
    assert side.wire.correlation_ids == [1, 2]
    assert side.wire.frames_held == 0


async def test_a_future_holds_the_next_request_back_as_a_coroutine_does() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answers: list[Any] = [future, RESPONSE]
    side = Side(lambda request, context: answers.pop(0))
    side.receive(1)
    side.receive(2)
    assert len(answers) == 1
    future.set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == [1, 2]


async def test_no_response_sends_nothing_and_keeps_the_order() -> None:
    answers: list[Any] = [RESPONSE, NO_RESPONSE, RESPONSE]
    side = Side(lambda request, context: answers.pop(0))
    for correlation_id in (1, 2, 3):
        side.receive(correlation_id)
    assert side.wire.correlation_ids == [1, 3]


async def test_requests_before_a_broken_one_are_answered_and_then_the_connection_closes() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    side = Side(lambda request, context: Parked(future))
    side.receive(1)
    side.receive(2, api_key=999)
    side.receive(3)
    assert side.wire.closed is None
    future.set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == [1]
    assert side.wire.closed is not None
    assert "999" in side.wire.closed


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.HEARTBEAT, 4), (-1, 0), (ApiKey.PRODUCE, 0)])
async def test_an_api_or_version_that_is_not_served_closes_the_connection(api_key: int, version: int) -> None:
    side = Side(lambda request, context: RESPONSE)
    side.receive(1, api_key=api_key, version=version)
    assert side.wire.closed is not None
    assert side.wire.sent == []


async def test_api_versions_that_are_too_high_are_answered_in_version_0_with_their_own_range() -> None:
    side = Side(lambda request, context: RESPONSE)
    side.receive(7, api_key=ApiKey.API_VERSIONS, version=99)
    (frame,) = side.wire.sent
    size, correlation_id, error, count, key, oldest, newest = struct.unpack_from(">iihihhh", frame)
    assert (size, correlation_id, error) == (len(frame) - 4, 7, ErrorCode.UNSUPPORTED_VERSION)
    assert (count, key, oldest, newest) == (1, ApiKey.API_VERSIONS, 0, 3)
    assert side.wire.closed is None


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\0\0\0\0\0\0", b"\0\x0c\0\0\0\0\0\1\0\x05ab"])
async def test_a_frame_without_a_whole_header_closes_the_connection(frame: bytes) -> None:
    side = Side(lambda request, context: RESPONSE)
    side.connection.frame_received(bytearray(frame))
    assert side.wire.closed is not None


async def test_a_handler_that_fails_costs_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    def handle(request: Any, context: Any) -> Any:
        raise ZeroDivisionError

    side = Side(handle)
    side.receive(1)
    assert side.wire.closed is not None
    assert "ZeroDivisionError" in caplog.text


async def test_a_handler_may_close_the_connection_later() -> None:
    async def handle(request: Any, context: Any) -> Any:
        raise CloseConnection("acks=0 failed")

    side = Side(handle)
    side.receive(1)
    for _ in range(3):
        await turns()
    assert side.wire.closed == "acks=0 failed"


async def test_reading_stops_while_too_many_requests_wait_and_goes_on_after() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answers: list[Any] = [future]
    side = Side(lambda request, context: answers.pop() if answers else RESPONSE)
    for correlation_id in range(40):
        side.receive(correlation_id)
    assert not side.wire.reading
    future.set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == list(range(40))
    assert side.wire.reading


async def test_a_peer_that_reads_nothing_starts_no_more_requests() -> None:
    side = Side(lambda request, context: RESPONSE)
    side.wire.unsent_bytes = 1 << 20
    for correlation_id in range(40):
        side.receive(correlation_id)
    assert side.wire.sent == []
    assert not side.wire.reading
    side.peer_takes_all()
    assert side.wire.correlation_ids == list(range(40))


async def test_what_is_parked_is_cancelled_when_the_peer_leaves() -> None:
    parked: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    running: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    answers: list[Any] = [Parked(parked), running]
    side = Side(lambda request, context: answers.pop(0))
    for correlation_id in (1, 2, 3):
        side.receive(correlation_id)
    side.connection.disconnected()
    await turns()
    assert parked.cancelled()
    assert running.cancelled()
    assert side.wire.frames_held == 0
    assert side.wire.sent == []


async def test_no_more_requests_start_while_256_answers_are_open() -> None:
    futures: list[asyncio.Future[Any]] = []

    def handle(request: Any, context: Any) -> Any:
        futures.append(asyncio.get_running_loop().create_future())
        return Parked(futures[-1])

    side = Side(handle)
    for correlation_id in range(1, 259):
        side.receive(correlation_id)
    assert len(futures) == 256
    futures[1].set_result(RESPONSE)
    await turns()
    assert len(futures) == 256, "an answer that waits for one before it is open"
    futures[0].set_result(RESPONSE)
    await turns()
    assert (len(futures), side.wire.correlation_ids) == (258, [1, 2])


async def test_the_time_that_a_request_waits_for_one_before_it_is_counted_though_it_is_answered_at_once() -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def handle(request: Any, context: Any) -> Any:
        if context.correlation_id == 1:
            return future
        side.clock.advance(3)
        return RESPONSE

    side = Side(handle)
    side.receive(1)
    side.clock.advance(10)
    side.receive(2)
    side.clock.advance(30)
    future.set_result(RESPONSE)
    await turns()
    assert side.wire.correlation_ids == [1, 2]
    # The first waited 40 ms for its future, the second 30 ms for the first.
    assert side.times_us == {"queue": (2, 30_000), "local": (2, 3000), "remote": (2, 40_000)}
    side.receive(3)
    assert side.times_us["at_once"] == (1, 3000), "one that waited for nothing"


async def test_the_time_that_a_request_waits_for_a_slow_peer_is_counted_as_waiting_for_its_turn() -> None:
    side = Side(lambda request, context: RESPONSE)
    side.wire.unsent_bytes = 1 << 20
    side.receive(1)
    side.clock.advance(20)
    side.receive(2)
    side.clock.advance(5)
    side.peer_takes_all()
    assert side.wire.correlation_ids == [1, 2]
    assert side.times_us == {"queue": (2, 25_000 + 5000), "local": (2, 0), "remote": (2, 0)}


async def test_answers_that_a_slow_peer_delays_are_delayed_since_the_first_of_them_until_all_have_left() -> None:
    side = Side(lambda request, context: RESPONSE)
    side.receive(1)
    side.clock.advance(100)
    side.wire.unsent_bytes = 1000
    side.receive(2)
    side.clock.advance(20)
    side.receive(3)
    side.clock.advance(30)
    side.peer_takes_all()
    assert side.times_us["delayed"] == (2, 2 * 50_000), "the first answer left at once"
    side.clock.advance(100)
    side.wire.unsent_bytes = 1000
    side.receive(4)
    side.clock.advance(7)
    side.peer_takes_all()
    assert side.times_us["delayed"] == (3, 2 * 50_000 + 7000), "a new delay begins with its own first answer"
    side.connection.drained()
    assert side.times_us["delayed"] == (3, 2 * 50_000 + 7000), "each delay is counted once"
