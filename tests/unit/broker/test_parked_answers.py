"""Answers that come later: in which turn of the loop they leave, and which of them together."""

from typing import Any

import pytest

from barnabas.protocol.ids import ApiKey
from barnabas.runtime.completion import Completion
from broker.registry import Parked
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import CountedReads, DataBroker, Peer, pins
from tests.unit.broker.test_connection_ends import RESPONSE, Side, fetch_new
from tests.unit.replication.replica_world import append_now


@virtual_time
async def test_the_last_answer_that_is_open_leaves_at_once_and_others_together() -> None:
    parked = [Completion[Any]() for _ in range(3)]
    side = Side(*map(Parked, parked))
    side.receive(1, 2, 3)
    parked[0].set_result(RESPONSE)
    assert side.answered == [], "others may come in this turn"
    parked[1].set_result(RESPONSE)
    await turns(1)
    assert side.answered == [1, 2]
    parked[2].set_result(RESPONSE)
    assert side.answered == [1, 2, 3]


@virtual_time
async def test_what_is_done_when_it_is_parked_is_answered() -> None:
    done = Completion[Any]()
    done.set_result(RESPONSE)
    side = Side(Parked(done), done, RESPONSE)
    side.receive(1, 2, 3)
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
