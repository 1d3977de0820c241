"""Who sends at once, who at the end of the turn, and what ends the waiting before that."""

import asyncio
import gc
import socket
import struct
from typing import Any

import pytest

from barnabas.runtime.gathered_sends import LONGEST_S, TOGETHER, GatheredSends
from barnabas.runtime.network import ConnectionOptions, TrafficCount
from barnabas.runtime.receive_budget import ReceiveBudget
from barnabas.runtime.socket_connection import SharedBuffers, SocketConnection
from tests.support.lifetime import watch


class Desk:
    """Notes in which order senders send, and keeps a clock that the test moves."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.now_s = 100.0
        self.sends = GatheredSends(lambda: self.now_s)

    def add(self, *senders: "NamedSender") -> None:
        for sender in senders:
            self.sends.add(sender)

    def sender(self, name: str, *, fails: bool = False) -> "NamedSender":
        return NamedSender(self, name, fails=fails)


class NamedSender:
    def __init__(self, desk: Desk, name: str, *, fails: bool) -> None:
        self.desk, self.name, self.fails = desk, name, fails

    def send_gathered(self) -> None:
        if self.fails:
            raise ValueError("a bug")
        self.desk.sent.append(self.name)


async def test_those_of_one_turn_send_at_its_end_in_their_order():
    desk = Desk()
    one, other, third = (desk.sender(name) for name in ("one", "other", "third"))
    desk.add(one, other, third)
    assert desk.sent == []
    await asyncio.sleep(0)
    assert desk.sent == ["one", "other", "third"]


async def test_one_that_has_the_loop_for_itself_sends_at_once():
    desk = Desk()
    only = desk.sender("only")
    desk.add(only)
    await asyncio.sleep(0)
    desk.add(only)
    assert desk.sent == ["only", "only"]


async def test_two_that_take_turns_send_at_once_and_three_do_not():
    desk = Desk()
    one, other, third = (desk.sender(name) for name in ("one", "other", "third"))
    desk.add(one, other)
    await asyncio.sleep(0)
    desk.sent.clear()
    desk.add(one, other, other, one)
    assert desk.sent == ["one", "other", "other", "one"]
    for _ in range(2):
        desk.sent.clear()
        desk.add(third, one, other)
        assert desk.sent == []
        await asyncio.sleep(0)
        assert desk.sent == ["third", "one", "other"]


async def test_one_that_was_alone_does_not_go_ahead_of_those_that_wait():
    desk = Desk()
    one, other = desk.sender("one"), desk.sender("other")
    desk.add(one, other, other)
    assert desk.sent == []
    await asyncio.sleep(0)
    assert desk.sent == ["one", "other", "other"]


async def test_many_do_not_wait_for_more():
    desk = Desk()
    senders = [desk.sender(str(number)) for number in range(TOGETHER + 1)]
    desk.add(*senders)
    assert desk.sent == [sender.name for sender in senders[:TOGETHER]]
    await asyncio.sleep(0)
    assert desk.sent == [sender.name for sender in senders]


async def test_who_has_waited_for_long_sends_when_the_next_has_its_say():
    desk = Desk()
    one, other, third = (desk.sender(name) for name in ("one", "other", "third"))
    desk.add(one)
    desk.now_s += LONGEST_S * 0.9
    desk.sends.send_overdue()
    desk.add(other)
    assert desk.sent == []
    desk.now_s += LONGEST_S * 0.2
    desk.sends.send_overdue()
    assert desk.sent == ["one", "other"]
    desk.add(third)
    desk.now_s += LONGEST_S * 0.9
    desk.sends.send_overdue()
    assert desk.sent == ["one", "other"], "its time begins when it comes"


async def test_the_next_turn_has_an_end_of_its_own():
    desk = Desk()
    senders = [desk.sender(name) for name in ("one", "other", "third")]
    for number in range(3):
        desk.add(*senders)
        assert desk.sent == ["one", "other", "third"] * number
        await asyncio.sleep(0)
    assert desk.sent == ["one", "other", "third"] * 3


async def test_a_failure_is_the_loops_to_handle_and_hinders_no_other():
    desk, failed = Desk(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(str(context["exception"])))
    bad = desk.sender("bad", fails=True)
    desk.add(desk.sender("good"), bad, desk.sender("also good"))
    await asyncio.sleep(0)
    assert (desk.sent, failed) == (["good", "also good"], ["a bug"])
    desk.add(bad)
    await asyncio.sleep(0)
    desk.add(bad)
    assert failed == ["a bug"] * 3


# The connections that gather.


class Shared:
    """What the connections of one broker share, and which of them were told to send."""

    def __init__(self, *, gathers: bool = True) -> None:
        self.told: list[str] = []

        async def warm(_: object) -> None: ...

        self.buffers = SharedBuffers(
            budget=ReceiveBudget(1 << 20), traffic=TrafficCount(), warm=warm, forget=lambda _: None, gathers=gathers
        )

    def peer(self, name: str) -> "Peer":
        return Peer(self, name)


class Transport:
    def abort(self) -> None: ...


class Peer:
    """A connection and the owner of its frames."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._told, self.name = shared.told, name
        mine, theirs = socket.socketpair()
        self.connection = SocketConnection(shared.buffers, mine, name, ConnectionOptions(1 << 30, 1000))
        mine.close()
        theirs.close()
        transport: Any = Transport()
        self.connection.connection_made(transport)
        self.connection.bind(self)

    def frame_received(self, frame: bytearray) -> None:
        self.connection.frame_finished(frame)

    def frames_done(self) -> None:
        self._told.append(self.name)

    def drained(self) -> None: ...

    def disconnected(self) -> None: ...

    def say(self, size: int = 10) -> None:
        """A whole frame arrives."""
        data = struct.pack(">i", size) + b"x" * size
        while data:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self.connection.buffer_updated(count)


async def test_connections_that_are_read_in_one_turn_are_told_at_its_end():
    shared = Shared()
    one, other, third = (shared.peer(name) for name in ("one", "other", "third"))
    for size in (10, 200_000):
        for peer in (one, other, third):
            peer.say(size)
        assert shared.told == []
        await asyncio.sleep(0)
        # A large frame comes in several reads.
        assert list(dict.fromkeys(shared.told)) == ["one", "other", "third"]
        shared.told.clear()
    third.say()
    third.say()
    assert shared.told == ["third", "third"], "it has the loop for itself"


async def test_a_connection_that_ends_within_the_turn_is_not_told_any_more():
    shared = Shared()
    one, other, third = (shared.peer(name) for name in ("one", "other", "third"))
    for peer in (one, other, third):
        peer.say()
    one.connection.connection_lost(None)
    other.connection.close("because")
    await asyncio.sleep(0)
    assert shared.told == ["third"]


async def test_connections_that_do_not_gather_are_told_at_once():
    shared = Shared(gathers=False)
    one, other = shared.peer("one"), shared.peer("other")
    one.say()
    other.say()
    assert shared.told == ["one", "other"]


@pytest.mark.parametrize("others", [0, 1])
async def test_who_came_last_or_before_that_is_not_kept_when_it_has_ended(others: int):
    shared = Shared()
    peer = shared.peer("one")
    peer.say()
    behind = [shared.peer("other") for _ in range(others)]
    for each in behind:
        each.say()
    await asyncio.sleep(0)
    assert shared.told[0] == "one"
    is_there = watch(peer.connection)
    gc.disable()
    try:
        peer.connection.connection_lost(None)
        del peer
        assert not is_there()
    finally:
        gc.enable()
