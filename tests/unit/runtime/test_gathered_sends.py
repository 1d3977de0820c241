"""Who sends at once, who at the end of the turn, and what ends the waiting before that."""

import asyncio
import logging

from barnabas.runtime.gathered_sends import LONGEST_S, TOGETHER, GatheredSends


class Desk:
    """Notes in which order senders send, and keeps a clock that the test moves."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.closed: list[str] = []
        self.now_s = 100.0
        self.sends = GatheredSends(lambda: self.now_s)

    def add(self, *senders: "NamedSender") -> None:
        for sender in senders:
            self.sends.add(sender)

    def sender(self, name: str, *, fails: bool = False) -> "NamedSender":
        return NamedSender(self, name, fails=fails)


class NamedSender:
    peer_host = "10.0.0.1"

    def __init__(self, desk: Desk, name: str, *, fails: bool) -> None:
        self.desk, self.name, self.fails = desk, name, fails

    def send_gathered(self) -> None:
        if self.fails:
            raise ValueError("a bug")
        self.desk.sent.append(self.name)

    def close(self, reason: str) -> None:
        self.desk.closed.append(f"{self.name}: {reason}")


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


async def test_the_first_does_not_wait_for_longer_than_the_bound():
    desk = Desk()
    one, other, third = (desk.sender(name) for name in ("one", "other", "third"))
    desk.add(one)
    desk.now_s += LONGEST_S * 0.9
    desk.add(other)
    assert desk.sent == []
    desk.now_s += LONGEST_S * 0.2
    desk.add(third)
    assert desk.sent == ["one", "other", "third"]


async def test_the_next_turn_has_an_end_of_its_own():
    desk = Desk()
    one, other = desk.sender("one"), desk.sender("other")
    for _ in range(3):
        desk.add(one, other)
        await asyncio.sleep(0)
    assert desk.sent == ["one", "other"] * 3


async def test_a_failure_costs_its_own_connection_and_no_other(caplog):
    desk = Desk()
    desk.add(desk.sender("good"), desk.sender("bad", fails=True), desk.sender("also good"))
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0)
    assert desk.sent == ["good", "also good"]
    assert desk.closed == ["bad: its answers could not be sent"]
    assert "10.0.0.1: sending failed" in caplog.text
    assert "a bug" in caplog.text
