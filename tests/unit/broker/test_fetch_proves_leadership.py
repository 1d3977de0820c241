"""A follower's fetches as the proof that its leader leads still: see `replication.leadership_proof`."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from barnabas.protocol.ids import BrokerId
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.runtime.completion import Completion
from broker.fetch_sessions import FollowerLine
from broker.handlers import fetch
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, Fetched, fetch_request
from tests.unit.broker.test_fetch_from_followers import EPOCH, leading
from tests.unit.replication.replica_world import ME, OTHER, begun

T0, T1 = ("t", 0), ("t", 1)


class Follower:
    """Broker 2 on one connection, at the end of everything; with a session or without."""

    def __init__(self, broker: DataBroker, *, has_session: bool = True, replica: BrokerId = OTHER) -> None:
        self.broker = broker
        self.line = FollowerLine()
        self.session = (0, 0) if has_session else (0, -1)
        self.named = {T0: 0, T1: 0}
        self._replica = replica

    def ask(self, *, forgets: tuple[tuple[str, int], ...] = (), max_wait_ms: int = 500) -> Any:
        request = fetch_request(
            self.named,
            replica_id=self._replica,
            leader_epoch=EPOCH,
            session=self.session,
            forgotten=forgets,
            max_wait_ms=max_wait_ms,
        )
        return fetch.handle(request, replace(self.broker.context(12), follower_line=self.line))

    def heard(self, response: FetchResponse) -> Fetched:
        answer = Fetched(response)
        if self.session[1] >= 0:
            self.session = (answer.session_id, self.session[1] + 1)
            self.named = {}
        return answer

    def begin(self) -> None:
        """The first request of the connection, which is answered when its wait is over."""
        answer = self.ask(max_wait_ms=0)
        assert isinstance(answer, FetchResponse)
        self.heard(answer)

    def wait(self, **more: Any) -> Completion[FetchResponse]:
        parked = self.ask(**more)
        assert isinstance(parked, Completion), "the fetch was answered at once"
        return parked

    def answered(self, **more: Any) -> Fetched:
        answer = self.ask(**more)
        assert isinstance(answer, FetchResponse), "the fetch waits"
        return self.heard(answer)


@pytest.mark.parametrize("has_session", [True, False], ids=["in a session", "without one"])
def test_a_follower_that_waits_is_answered_at_once_and_its_next_request_is_the_proof(*, has_session: bool) -> None:
    @virtual_time
    async def play() -> None:
        broker, (first, _) = await leading(2)
        follower = Follower(broker, has_session=has_session)
        follower.begin()
        waiting = follower.wait()
        future = begun(first)
        answer = follower.heard(await waiting)
        assert asyncio.get_running_loop().time() == 0
        assert T0 in answer.partitions
        assert answer.size_bytes == 0
        assert not future.done(), "what it asked before it was answered says nothing of now"
        waiting = follower.wait()
        assert future.done()
        await turns()
        assert not waiting.done(), "once is enough"
        follower.heard(await waiting)
        assert asyncio.get_running_loop().time() == 0.5

    play()


@virtual_time
async def test_a_request_that_was_under_way_before_is_answered_at_once_and_proves_nothing() -> None:
    broker, (first, _) = await leading(2)
    follower = Follower(broker)
    follower.begin()
    # While the follower's next request was in the socket of a process that stood still.
    future = begun(first)
    follower.answered()
    assert not future.done()
    follower.wait()
    assert future.done()


@virtual_time
async def test_the_first_request_of_a_connection_proves_nothing() -> None:
    broker, (first, _) = await leading(2)
    future = begun(first)
    follower = Follower(broker)
    follower.answered()
    assert not future.done()
    elsewhere = Follower(broker)
    elsewhere.session = follower.session
    elsewhere.named = {}
    elsewhere.answered()
    assert not future.done(), "nobody knows when that was sent"
    elsewhere.wait()
    assert future.done()


@virtual_time
async def test_a_follower_that_has_forgotten_the_partition_follows_it_no_longer() -> None:
    broker, (first, second) = await leading(2)
    follower = Follower(broker)
    follower.begin()
    futures = [begun(first), begun(second)]
    follower.answered()
    follower.wait(forgets=(T0,))
    assert [future.done() for future in futures] == [False, True]


@virtual_time
async def test_two_brokers_on_one_connection_do_not_speak_for_each_other() -> None:
    broker, (first, _) = await leading(2)
    line = FollowerLine()
    line.on_answer(ME, 7)
    assert [line.heard_at(ME), line.heard_at(OTHER)] == [7, 0]
    future = begun(first)
    follower, stranger = Follower(broker), Follower(broker, has_session=False, replica=BrokerId(9))
    stranger.line = follower.line
    follower.begin()
    stranger.ask(max_wait_ms=0)
    follower.answered()
    assert not future.done()
