"""Answers that come later: in which turn of the loop they leave, and which of them together."""

import asyncio
from typing import Any

import pytest

from barnabas.protocol.ids import ApiKey
from barnabas.runtime.completion import Completion
from broker import connection
from broker.registry import Parked
from replication.leader_questions import DEBUGGING_CONSUMER
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import CountedReads, DataBroker, Peer, fetch_request, pins, produce_request
from tests.unit.broker.test_connection_ends import RESPONSE, Side, fetch_new
from tests.unit.replication.replica_world import ME, OTHER, append_now
from tests.unit.storage.logs import batch


@virtual_time
async def test_parked_answers_that_are_told_in_one_turn_leave_together_in_the_next() -> None:
    parked = [Completion[Any]() for _ in range(3)]
    side = Side(*map(Parked, parked))
    side.receive(1, 2, 3)
    parked[0].set_result(RESPONSE)
    parked[1].set_result(RESPONSE)
    assert side.answered == [], "who tells it is in the middle of something"
    await turns(1)
    assert side.answered == [1, 2]
    parked[2].set_result(RESPONSE)
    await turns(1)
    assert side.answered == [1, 2, 3]


@virtual_time
async def test_an_answer_that_held_the_next_request_back_leaves_at_once() -> None:
    running = Completion[Any]()
    side = Side(running)
    side.receive(1)
    running.set_result(RESPONSE)
    assert side.answered == [1]


@virtual_time
async def test_no_request_starts_within_the_call_that_tells_an_answer() -> None:
    running, parked = Completion[Any](), Completion[Any]()
    side = Side(running, RESPONSE, Parked(parked), RESPONSE)
    side.receive(1, 2)
    assert side.started == [1]
    running.set_result(RESPONSE)
    assert side.started == [1], "who tells it is in the middle of something"
    await turns(1)
    assert (side.started, side.answered) == ([1, 2], [1, 2])
    side.receive(3)
    parked.set_result(RESPONSE)
    assert side.started == [1, 2, 3]


@pytest.mark.interpreted
@virtual_time
async def test_answers_that_wait_behind_one_count_as_bytes_that_the_peer_has_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parked, requests = Completion[Any](), list(range(1, 31))
    side = Side(Parked(parked), *[RESPONSE] * 29)
    side.receive(1, 2)
    size = side.connection._held_bytes
    assert size > 0
    monkeypatch.setattr(connection, "_MAX_UNSENT_BYTES", 10 * size)
    side.receive(*requests[2:])
    assert side.started == requests[:11]
    parked.set_result(RESPONSE)
    await turns(1)
    assert (side.started, side.answered, side.connection._held_bytes) == (requests, requests, 0)


@virtual_time
async def test_what_is_done_when_it_is_parked_is_answered() -> None:
    done = Completion[Any]()
    done.set_result(RESPONSE)
    side = Side(done, Parked(done), RESPONSE)
    side.receive(1, 2, 3)
    await turns(1)
    assert side.answered == [1, 2, 3]


@pytest.mark.interpreted
@virtual_time
async def test_a_fetch_that_is_woken_in_the_moment_its_peer_leaves_reads_no_more() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"v" * 100)
    peer = Peer(broker)
    peer.send(ApiKey.FETCH, 12, fetch_new())
    reads = CountedReads(partition)
    append_now(partition, b"a")
    # It looks again in the next turn.
    peer.leave()
    await turns(30)
    assert (reads.count, pins(partition), peer.wire.frames) == (0, 0, [])


@virtual_time
async def test_the_answer_of_a_fetch_leaves_in_the_turn_in_which_it_looks_again() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"v" * 100)
    peer = Peer(broker)
    peer.send(ApiKey.FETCH, 12, fetch_new())
    append_now(partition, b"a")
    assert peer.wire.frames == []
    await turns(1)
    assert len(peer.wire.frames) == 1


@virtual_time
async def test_a_fetch_that_is_checked_as_its_peer_leaves_lets_go_of_its_slices() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead()
    append_now(partition, b"v" * 100)
    peer = Peer(broker)
    peer.send(ApiKey.FETCH, 12, fetch_request({("t", 0): 0}, replica_id=DEBUGGING_CONSUMER))
    task: Any = peer.connection._running
    assert isinstance(task, asyncio.Task)
    while not task.done():
        await turns(1)
    # It is done, and the connection has not heard of it.
    assert pins(partition) == 1
    peer.leave()
    await turns(1)
    assert (pins(partition), peer.wire.frames) == (0, [])


@pytest.mark.parametrize("offset", [0, 1], ids=["with records", "waiting"])
def test_a_fetch_that_has_not_begun_to_be_checked_as_its_peer_leaves_holds_nothing(offset: int) -> None:
    @virtual_time
    async def play() -> None:
        broker = await DataBroker().open()
        (partition,) = await broker.lead()
        append_now(partition, b"v" * 100)
        peer = Peer(broker)
        peer.send(ApiKey.FETCH, 12, fetch_request({("t", 0): offset}, replica_id=DEBUGGING_CONSUMER, max_wait_ms=100))
        # In the same turn of the loop: the task was made and has not run.
        peer.leave()
        append_now(partition, b"a")
        await asyncio.sleep(1)
        assert (pins(partition), peer.wire.frames) == (0, [])

    play()


async def waiting_producer(*, is_slow: bool = False) -> tuple[Partition, Peer, list[bytearray]]:
    """A connection whose Produce waits for a follower, and frames that it has finished with."""
    broker = await DataBroker().open()
    await broker.world.assign(replicas=(ME, OTHER), isr=(ME, OTHER))
    broker.announce("topic")
    partition = broker.world.partition()
    if is_slow:
        broker.world.make_slow(partition)
    peer, finished = Peer(broker), list[bytearray]()
    peer.wire.frame_finished = finished.append  # type: ignore[method-assign]
    peer.send(ApiKey.PRODUCE, 8, produce_request({partition.topic_partition: batch(b"a")}))
    while not finished:
        await turns(1)
    await turns(2)
    return partition, peer, finished


@pytest.mark.parametrize("is_slow", [False, True])
def test_what_waits_for_its_acknowledgement_holds_nothing_of_its_frame(is_slow: bool) -> None:
    @virtual_time
    async def play() -> None:
        _, peer, (frame,) = await waiting_producer(is_slow=is_slow)
        assert peer.answered == []
        # An array that something has a view of cannot grow.
        frame.append(0)

    play()


@virtual_time
async def test_who_leaves_waits_for_no_acknowledgement() -> None:
    partition, peer, _ = await waiting_producer()
    waiting = partition._waits.committed
    assert [wait.done() for _, _, wait in waiting._heap] == [False]
    peer.leave()
    assert [(wait.cancelled(), wait._callbacks) for _, _, wait in waiting._heap] == [(True, [])]
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=1, log_start_offset=0)
    assert len(waiting) == 0
    assert ApiKey.PRODUCE not in peer.connection._broker.metrics.apis, "who has left is told of nothing"


@virtual_time
async def test_acknowledgements_leave_together_as_the_high_watermark_moves() -> None:
    broker = await DataBroker().open()
    await broker.world.assign(replicas=(ME, OTHER), isr=(ME, OTHER))
    broker.announce("topic")
    partition = broker.world.partition()
    peer = Peer(broker)
    for value in (b"a", b"b"):
        peer.send(ApiKey.PRODUCE, 8, produce_request({partition.topic_partition: batch(value)}))
    await turns(5)
    assert peer.answered == []
    flushes = peer.wire.flushes
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=2, log_start_offset=0)
    assert (peer.answered, peer.wire.flushes - flushes) == ([1, 2], 1)
