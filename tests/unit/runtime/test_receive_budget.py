"""The memory of unfinished frames: counted to the byte, bounded, and never such that everybody waits for nobody."""

import asyncio
import socket
import struct
from collections import deque
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.runtime.network import ConnectionOptions, TrafficCount
from barnabas.runtime.receive_budget import ReceiveBudget
from barnabas.runtime.socket_connection import STAGING_BYTES, SharedBuffers, SocketConnection

LIMIT = 300_000
SIZES = (10, 60_000, STAGING_BYTES - 3, 100_000, 250_000, 900_000, 3_000_000)
PEERS = 5


class Transport:
    """Knows whether anybody reads."""

    def __init__(self) -> None:
        self.is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None: ...


class Peer:
    """A connection on which frames arrive; their owner holds them until it is told."""

    def __init__(self, shared: SharedBuffers) -> None:
        mine, theirs = socket.socketpair()
        self.connection = SocketConnection(shared, mine, "peer", ConnectionOptions(1 << 30, 1000))
        mine.close()
        theirs.close()
        self.transport = Transport()
        transport: Any = self.transport
        self.connection.connection_made(transport)
        self.connection.bind(self)
        self.held: deque[bytearray] = deque()
        self.coming = 0
        self.expected: deque[int] = deque()
        self.rest = b""

    def frame_received(self, frame: bytearray) -> None:
        assert len(frame) == self.expected.popleft()
        assert frame[:1] + frame[-1:] == b"xx"
        self.held.append(frame)

    def frames_done(self) -> None: ...

    def drained(self) -> None: ...

    def disconnected(self) -> None:
        while self.held:
            self.connection.frame_finished(self.held.popleft())

    # What the test does.

    def send(self, size: int) -> None:
        """The peer has sent a frame; it arrives when it is read."""
        self.rest += struct.pack(">i", size) + b"x" * size
        self.expected.append(size)

    def arrive(self, limit: int) -> bool:
        """Some of what was sent is read; whether anything could be."""
        if not self.rest or not self.transport.is_reading:
            return False
        buffer = self.connection.get_buffer(-1)
        assert len(buffer) > 0, "a loop takes an empty buffer for an error"
        count = min(limit, len(buffer), len(self.rest))
        buffer[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        self.connection.buffer_updated(count)
        return True

    def finish(self) -> None:
        if self.held:
            self.connection.frame_finished(self.held.popleft())

    @property
    def memory_bytes(self) -> int:
        """What its large frames take, whole or not."""
        partial = self.connection._frame
        whole = sum(len(frame) for frame in self.held if len(frame) > STAGING_BYTES - 4)
        return whole + (0 if partial is None else len(partial))


class Peers:
    """Connections that share one budget."""

    def __init__(self) -> None:
        self.budget = ReceiveBudget(LIMIT)

        async def warm(_: object) -> None: ...

        self._shared = SharedBuffers(
            budget=self.budget, traffic=TrafficCount(), warm=warm, forget=lambda _: None, gathers=False
        )
        self.peers = [Peer(self._shared) for _ in range(PEERS)]

    def leave(self, place: int) -> None:
        self.peers[place].connection.connection_lost(None)
        self.peers[place] = Peer(self._shared)

    def check(self) -> None:
        assert self.budget.used_bytes == sum(peer.memory_bytes for peer in self.peers)
        assert self.budget.used_bytes <= LIMIT + 2 * max(SIZES) + PEERS * STAGING_BYTES
        if self.budget.is_contended:
            assert any(peer.held or (peer.connection._frame and peer.transport.is_reading) for peer in self.peers), (
                "everybody waits, and nobody reads or holds a whole frame"
            )
        for peer in self.peers:
            waits = peer.connection in self.budget._waiting
            assert waits is not peer.transport.is_reading

    def settle(self) -> None:
        """Everything that was sent arrives and is finished."""
        while any(peer.held or (peer.rest and peer.transport.is_reading) for peer in self.peers):
            for peer in self.peers:
                peer.arrive(1 << 20)
            self.check()
            for peer in self.peers:
                peer.finish()
        assert [len(peer.rest) for peer in self.peers] == [0] * PEERS
        self.check()


Step = tuple[int, str, int]
STEPS = st.lists(
    st.tuples(
        st.integers(0, PEERS - 1),
        st.sampled_from(["send", "send", "arrive", "arrive", "arrive", "finish", "leave"]),
        st.integers(0, 1 << 30),
    ),
    max_size=60,
)


MUCH = 199_999
# The first fills the bound, the second goes beyond it, the third waits; then the first is done.
LONGEST_WAITING: list[Step] = [
    *[(place, "send", size) for place, size in ((0, 4), (1, 5), (2, 5))],
    *[(place, "arrive", MUCH) for place in (0, 1, 2, 0)],
    (0, "finish", 0),
]


@given(STEPS)
@example([*LONGEST_WAITING, (2, "leave", 0)])
@example([*LONGEST_WAITING, (1, "leave", 0)])
def test_memory_is_counted_to_the_byte_and_whoever_waits_is_served_in_the_end(steps: list[Step]) -> None:
    async def run() -> None:
        peers = Peers()
        for place, action, number in steps:
            peer = peers.peers[place]
            match action:
                case "send":
                    peer.send(SIZES[number % len(SIZES)])
                case "arrive":
                    peer.arrive(1 + number % 200_000)
                case "finish":
                    peer.finish()
                case _:
                    peers.leave(place)
            peers.check()
        peers.settle()
        assert peers.budget.used_bytes == 0
        assert not peers.budget.is_contended

    asyncio.run(run())


@given(STEPS)
def test_peers_that_leave_take_their_memory_along(steps: list[Step]) -> None:
    async def run() -> None:
        peers = Peers()
        for place, action, number in steps:
            if action == "send":
                peers.peers[place].send(SIZES[number % len(SIZES)])
            else:
                peers.peers[place].arrive(1 + number % 200_000)
        for place in range(PEERS):
            peers.leave(place)
            peers.check()
        assert peers.budget.used_bytes == 0
        assert not peers.budget.is_contended

    asyncio.run(run())


# The rules one by one.


class Receiver:
    """Takes what it wants when it is resumed."""

    def __init__(self, budget: ReceiveBudget, wants: int) -> None:
        self.budget = budget
        self.wants = wants
        self.has = 0

    def take(self) -> bool:
        if not self.budget.take(self, self.wants):
            return False
        self.has += self.wants
        return True

    def pause_for_budget(self) -> None: ...

    def resume_with_budget(self) -> None:
        assert self.take(), "whoever is resumed gets what it waited for"

    def give(self) -> None:
        self.budget.complete(self)
        size, self.has = self.has, 0
        self.budget.give(size)


def test_one_may_go_beyond_the_bound_and_the_next_waits_until_it_is_done() -> None:
    budget = ReceiveBudget(100)
    first, second, third = (Receiver(budget, 80) for _ in range(3))
    assert first.take()
    assert second.take()
    assert not third.take()
    assert budget.used_bytes == 160
    second.give()
    assert (third.has, budget.used_bytes) == (80, 160)
    assert not budget.is_contended


def test_who_was_resumed_has_no_further_claim() -> None:
    budget = ReceiveBudget(100)
    first, beyond, third = (Receiver(budget, 80) for _ in range(3))
    assert [each.take() for each in (first, beyond, third)] == [True, True, False]
    budget.give(first.has + 61)
    beyond.has -= 61
    assert third.has == 80
    assert not third.take()


def test_those_who_wait_are_served_in_the_order_in_which_they_came() -> None:
    budget = ReceiveBudget(150)
    first, second = Receiver(budget, 100), Receiver(budget, 100)
    assert first.take()
    assert second.take()
    waiting = [Receiver(budget, 100) for _ in range(3)]
    for each in waiting:
        assert not each.take()
        assert not each.take(), "who asks twice waits once"
    for each in waiting:
        assert each.has == 0
        first.give()
        assert each.has == 100
        first = each
    assert not budget.is_contended


def test_one_that_leaves_while_it_waits_is_passed_over() -> None:
    budget = ReceiveBudget(150)
    first, beyond, gone, last = (Receiver(budget, 100) for _ in range(4))
    assert [each.take() for each in (first, beyond, gone, last)] == [True, True, False, False]
    budget.forget(gone)
    first.give()
    assert (gone.has, last.has) == (0, 100)


def test_when_the_one_beyond_leaves_the_longest_waiting_takes_its_place() -> None:
    budget = ReceiveBudget(150)
    first, beyond, next_one, last = (Receiver(budget, 100) for _ in range(4))
    assert [each.take() for each in (first, beyond, next_one, last)] == [True, True, False, False]
    budget.forget(beyond)
    assert (next_one.has, last.has) == (100, 0)
    budget.give(beyond.has)
    # The bound is still exceeded, by the one that is allowed to.
    assert last.has == 0
    first.give()
    assert last.has == 100
