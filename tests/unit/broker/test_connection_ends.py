"""How connections end: every frame and every slice is let go once, and no answer overtakes one that never comes."""

import asyncio
import itertools
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import heartbeat
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.runtime.completion import Completion
from broker.connection import ClientConnection
from broker.handlers import api_versions, produce
from broker.metrics import BrokerMetrics
from broker.registry import CloseConnection, Handler, Parked, Registry
from replication.partition import Partition
from tests.support.clock import ManualClock
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, Peer, PeerWire, fetch_request, pins, produce_request
from tests.unit.replication.replica_world import FLUSH_EACH, append_now
from tests.unit.storage.logs import batch

T0 = ("t", 0)
RESPONSE = heartbeat.HeartbeatResponse()


class Side:
    """A connection on which every request is a Heartbeat, answered by what the test gives."""

    def __init__(self, *results: Any) -> None:
        self.wire = PeerWire()
        self.started: list[int] = []
        given = list(results)

        def handle(_: Any, context: Any) -> Any:
            self.started.append(context.correlation_id)
            result = given.pop(0)
            if isinstance(result, Exception):
                raise result
            return result

        clock = ManualClock()
        self.metrics = BrokerMetrics(clock)
        broker: Any = SimpleNamespace(
            registry=Registry([Handler(heartbeat.API, handle, oldest=0, newest=3), api_versions.API]),
            clock=clock,
            metrics=self.metrics,
        )
        self.connection = ClientConnection(self.wire, broker, listener_name="PLAINTEXT")

    def receive(self, *correlation_ids: int, padding: int = 0) -> None:
        for correlation_id in correlation_ids:
            header = struct.pack(">hhih", ApiKey.HEARTBEAT, 0, correlation_id, 1) + b"c"
            body = struct.pack(">h", 1) + b"g" + struct.pack(">i", 1) + struct.pack(">h", 1) + b"m"
            self.wire.frames_held += 1
            self.connection.frame_received(bytearray(header + body + bytes(padding)))
        self.connection.frames_done()

    @property
    def ended(self) -> str | None:
        return self.wire.closed

    @property
    def answered(self) -> list[int]:
        return [struct.unpack_from(">i", frame)[0] for frame in self.wire.frames]


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def after(event: "asyncio.Future[Any] | Completion[Any]", error: Exception | None = None) -> Any:
    """A handler's work that ends with an answer or an error."""
    await event
    if error is not None:
        raise error
    return RESPONSE


KINDS = pytest.mark.parametrize("later", [future, Completion[Any]], ids=["future", "completion"])


# Answers that fail.


@KINDS
@pytest.mark.parametrize("error", [ZeroDivisionError(), CloseConnection("because")])
def test_no_answer_overtakes_one_that_failed(error: Exception, later: Callable[[], Any]) -> None:
    @virtual_time
    async def run() -> None:
        parked = [later() for _ in range(4)]
        side = Side(*map(Parked, parked))
        side.receive(1, 2, 3, 4)
        parked[2].set_result(RESPONSE)
        parked[1].set_exception(error)
        await turns()
        assert (side.answered, side.ended) == ([], None), "the first request is still answered"
        assert parked[3].cancelled(), "nobody will hear of the last"
        parked[0].set_result(RESPONSE)
        await turns()
        assert side.answered == [1]
        assert side.ended is not None
        assert side.wire.frames_held == 0

    run()


@KINDS
@pytest.mark.parametrize("error", [ZeroDivisionError(), CloseConnection("because")])
def test_a_request_that_fails_ends_the_connection_when_those_before_it_are_answered(
    error: Exception, later: Callable[[], Any]
) -> None:
    @virtual_time
    async def run() -> None:
        first, working = later(), later()
        side = Side(Parked(first), after(working, error), RESPONSE)
        side.receive(1, 2, 3)
        working.set_result(None)
        await turns()
        assert (side.ended, side.started) == (None, [1, 2])
        first.set_result(RESPONSE)
        await turns()
        assert side.answered == [1]
        assert side.ended is not None
        assert (side.ended == "because") is isinstance(error, CloseConnection)
        side.connection.disconnected()
        assert side.wire.frames_held == 0

    run()


@virtual_time
async def test_a_request_that_is_given_up_in_the_broker_does_not_leave_its_peer_waiting() -> None:
    for later, wrap in itertools.product((future, Completion[Any]), (Parked, lambda each: each, after)):
        given_up: Any = later()
        side = Side(wrap(given_up))
        side.receive(1)
        await turns()
        given_up.cancel()
        await turns()
        assert side.wire.closed is not None
        assert side.wire.frames_held == 0


@virtual_time
async def test_an_answer_that_cannot_be_encoded_ends_the_connection() -> None:
    broken = heartbeat.HeartbeatResponse(error_code="no number")  # type: ignore[arg-type]
    behind = future()
    for results in ((broken,), (Parked(behind), broken)):
        side = Side(*results)
        side.receive(*range(1, 1 + len(results)))
        await turns()
        if len(results) > 1:
            assert side.wire.closed is None
            behind.set_result(RESPONSE)
            await turns()
            assert side.answered == [1]
        assert side.wire.closed is not None


@virtual_time
async def test_what_ends_a_connection_is_counted() -> None:
    side = Side(ZeroDivisionError())
    side.receive(1)
    assert side.metrics.refused_connections == 1
    assert side.started == [1]
    side.receive(2)
    assert side.started == [1], "nothing starts on a connection that ends"


@virtual_time
async def test_what_was_answered_in_the_same_read_is_sent_before_the_end() -> None:
    side = Side(RESPONSE, CloseConnection("because"))
    side.receive(1, 2)
    assert (side.answered, side.ended) == ([1], "because")


@virtual_time
async def test_a_frame_does_not_overtake_one_that_waits_though_there_is_room_again() -> None:
    side = Side(RESPONSE, RESPONSE)
    side.wire.unsent_bytes = 1 << 20
    side.receive(1)
    # The peer has read a part, and the connection was not told yet.
    side.wire.unsent_bytes = 0
    side.receive(2)
    assert side.started == []
    side.connection.drained()
    assert side.answered == [1, 2]


# Peers that leave.


@virtual_time
async def test_work_that_had_not_begun_when_its_peer_left_lets_go_of_its_frame() -> None:
    event = future()
    side = Side(after(event))
    side.receive(1)
    # In the same turn of the loop: the task was made and has not run.
    side.connection.disconnected()
    await turns()
    assert side.wire.frames_held == 0


@virtual_time
async def test_work_is_cancelled_when_its_peer_leaves_and_its_frame_is_held_until_it_has_ended() -> None:
    event, ended = future(), future()

    async def lingers() -> Any:
        try:
            await event
        except asyncio.CancelledError:
            await ended
            raise

    side = Side(lingers())
    side.receive(1)
    await turns()
    side.connection.disconnected()
    await turns()
    assert side.wire.frames_held == 1
    ended.set_result(None)
    await turns()
    assert side.wire.frames_held == 0


@pytest.mark.parametrize("error", [None, ZeroDivisionError(), CloseConnection("late")])
def test_work_that_goes_on_after_its_peer_left_troubles_nobody(error: Exception | None) -> None:
    @virtual_time
    async def run() -> None:
        event = future()

        async def stubborn() -> Any:
            while not event.done():
                try:
                    await asyncio.wait([event])
                except asyncio.CancelledError:
                    continue
            return await after(event, error)

        side = Side(stubborn())
        side.receive(1)
        await turns()
        side.connection.disconnected()
        await turns()
        event.set_result(None)
        await turns()
        assert side.wire.frames == []
        assert side.wire.frames_held == 0

    run()


@virtual_time
async def test_an_answer_that_was_parked_too_late_is_not_waited_for() -> None:
    event, parked = future(), future()

    async def stubborn() -> Any:
        try:
            await event
        except asyncio.CancelledError:
            return Parked(parked)

    side = Side(stubborn())
    side.receive(1)
    await turns()
    side.connection.disconnected()
    await turns()
    assert parked.cancelled()


@virtual_time
async def test_frames_that_wait_are_let_go_when_the_peer_leaves() -> None:
    side = Side(future())
    side.receive(*range(1, 20))
    assert side.wire.frames_held == 18
    side.connection.disconnected()
    assert side.wire.frames_held == 0
    side.connection.disconnected()
    assert side.wire.frames_held == 0


@virtual_time
async def test_reading_stops_for_what_waits_now_and_not_for_what_has_waited() -> None:
    running = [future() for _ in range(3)]
    side = Side(*(result for each in running for result in (each, *[RESPONSE] * 5)))
    large = 250_000
    for number in range(2):
        side.receive(*range(1 + number * 6, 1 + number * 6 + 6), padding=large)
        assert (side.wire.is_reading, len(side.answered)) == (False, number * 6), "five frames of 250 kB wait"
        running[number].set_result(RESPONSE)
        await turns()
        assert (side.wire.is_reading, len(side.answered)) == (True, (number + 1) * 6)
    side.receive(20, 21, padding=large)
    assert side.wire.is_reading


# Slices.


async def with_records() -> tuple[DataBroker, Partition, Peer]:
    broker = await DataBroker().open()
    (partition,) = await broker.lead(config=FLUSH_EACH)
    append_now(partition, b"v" * 100)
    await turns()
    return broker, partition, Peer(broker)


def fetch_all(*, max_wait_ms: int = 0) -> FetchRequest:
    return fetch_request({T0: 0}, max_wait_ms=max_wait_ms)


def fetch_new() -> FetchRequest:
    return fetch_request({T0: 1}, max_wait_ms=500)


@virtual_time
async def test_a_slice_is_let_go_when_it_was_sent() -> None:
    _, partition, peer = await with_records()
    for _ in range(3):
        peer.send(ApiKey.FETCH, 12, fetch_all())
    assert peer.answered == [1, 2, 3]
    assert pins(partition) == 0


@virtual_time
async def test_a_peer_that_reads_nothing_holds_its_slices_until_it_leaves() -> None:
    _, partition, peer = await with_records()
    peer.wire.reads = False
    peer.send(ApiKey.FETCH, 12, fetch_all())
    assert pins(partition) == 1
    peer.leave()
    assert pins(partition) == 0


@virtual_time
async def test_an_answer_that_is_ready_behind_one_that_is_not_is_let_go_with_its_slices() -> None:
    broker, partition, peer = await with_records()
    broker.world.offload.hold("flush")
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"a")}))
    peer.send(ApiKey.FETCH, 12, fetch_all())
    await turns()
    assert (peer.answered, pins(partition)) == ([], 2), "the fetch's slice and the flush"
    peer.leave()
    assert pins(partition) == 1
    broker.world.offload.release("flush")
    await turns()
    assert pins(partition) == 0
    assert peer.wire.frames_held == 0


@virtual_time
async def test_a_fetch_that_waits_when_its_peer_leaves_reads_no_more() -> None:
    _, partition, peer = await with_records()
    peer.send(ApiKey.FETCH, 12, fetch_new())
    peer.leave()
    append_now(partition, b"a")
    await turns(30)
    assert (pins(partition), len(partition._watchers)) == (0, 0)


@virtual_time
async def test_slices_behind_an_answer_that_failed_are_let_go() -> None:
    broker, partition, peer = await with_records()
    broker.world.offload.hold("flush")
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"a")}))
    peer.send(ApiKey.FETCH, 12, fetch_all())
    answer = peer.connection._answers[0]
    assert answer.parked is not None
    peer.connection._fail(answer, "because")
    assert peer.wire.closed == "because"
    broker.world.offload.release("flush")
    await turns()
    assert pins(partition) == 0


@virtual_time
async def test_slices_of_an_answer_that_cannot_be_encoded_are_let_go() -> None:
    broker, partition, peer = await with_records()
    answered = broker.services.registry.find(ApiKey.FETCH).handle(fetch_all(), broker.context(12))
    answered.throttle_time_ms = "no number"
    broken = Handler(broker.services.registry.find(ApiKey.FETCH).api, lambda *_: answered, oldest=0, newest=12)
    broker.services.registry = Registry([broken, api_versions.API])
    assert pins(partition) == 1
    peer.send(ApiKey.FETCH, 12, fetch_all())
    assert peer.wire.closed is not None
    assert pins(partition) == 0


@virtual_time
async def test_slices_of_an_answer_that_cannot_be_encoded_behind_others_are_let_go() -> None:
    broker, partition, peer = await with_records()
    answered = broker.services.registry.find(ApiKey.FETCH).handle(fetch_all(), broker.context(12))
    answered.throttle_time_ms = "no number"
    broken = Handler(broker.services.registry.find(ApiKey.FETCH).api, lambda *_: answered, oldest=0, newest=12)
    broker.services.registry = Registry([broken, produce.API, api_versions.API])
    broker.world.offload.hold("flush")
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"a")}))
    peer.send(ApiKey.FETCH, 12, fetch_all())
    assert pins(partition) == 0
    broker.world.offload.release("flush")
    await turns()
    assert peer.answered == [1]
    assert peer.wire.closed is not None


# The data path as a client sees it.


@virtual_time
async def test_pipelined_requests_are_appended_in_order_and_answered_in_order() -> None:
    broker, partition, peer = await with_records()
    broker.world.offload.hold("flush")
    for number in range(10):
        peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"%d" % number)}, acks=-1 if number % 2 else 1))
    assert partition.log.log_end_offset == 11
    assert peer.answered == []
    broker.world.offload.release("flush")
    await turns()
    offsets = [answer.responses[0].partitions[0].base_offset for _, answer in peer.answers()]
    assert offsets == list(range(1, 11))


@virtual_time
async def test_a_producer_on_a_slow_directory_keeps_its_order() -> None:
    broker, partition, peer = await with_records()
    broker.world.make_slow(partition)
    broker.world.offload.hold("write")
    for number in range(5):
        peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"x", producer=(5, 0, number))}))
    await turns()
    for _ in range(5):
        assert broker.world.offload.waiting("write") == 1
        broker.world.offload.step("write")
        await turns(30)
    offsets = [answer.responses[0].partitions[0].base_offset for _, answer in peer.answers()]
    errors = {ErrorCode(answer.responses[0].partitions[0].error_code) for _, answer in peer.answers()}
    assert (offsets, errors) == ([2, 3, 4, 5, 6], {ErrorCode.NONE})
    assert peer.wire.frames_held == 0


@virtual_time
async def test_a_producer_that_leaves_during_a_slow_write_leaves_the_partition_usable() -> None:
    broker, partition, peer = await with_records()
    broker.world.make_slow(partition)
    broker.world.offload.hold("write")
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"x")}))
    await turns()
    peer.leave()
    await turns()
    other = Peer(broker)
    other.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"y")}))
    await turns()
    assert peer.wire.frames_held == 1, "the thread reads from the frame"
    broker.world.offload.release("write")
    await turns(30)
    assert [answer.responses[0].partitions[0].base_offset for _, answer in other.answers()] == [3]
    assert (peer.wire.frames_held, other.wire.frames_held) == (0, 0)


@virtual_time
async def test_without_acknowledgement_an_error_costs_the_connection_and_what_was_before_it_is_answered() -> None:
    _, partition, peer = await with_records()
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"a")}, acks=0))
    peer.send(ApiKey.PRODUCE, 8, produce_request({T0: batch(b"b")}, acks=1))
    await turns()
    peer.send(ApiKey.PRODUCE, 8, produce_request({("t", 9): batch(b"c")}, acks=0))
    assert peer.answered == [2]
    assert peer.wire.closed is not None
    assert "UNKNOWN_TOPIC_OR_PARTITION" in peer.wire.closed
    assert partition.log.log_end_offset == 3


@virtual_time
async def test_the_time_that_a_fetch_waits_is_not_the_brokers_own() -> None:
    broker, partition, peer = await with_records()
    peer.send(ApiKey.FETCH, 12, fetch_new())
    broker.world.clock.advance(400)
    append_now(partition, b"a")
    await turns()
    assert peer.answered == [1]
    times = broker.metrics.apis[ApiKey.FETCH]
    assert (times.remote.settled().sum_us, times.local.settled().sum_us) == (400_000, 0)
