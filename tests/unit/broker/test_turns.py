"""Long work lets the loop turn; short work does not wait."""

import asyncio
from collections.abc import Generator
from itertools import pairwise

import pytest

from broker.turns import TURN_US, Turns, in_turns
from tests.support.clock import ManualClock

TURN_MS = TURN_US // 1000


def counted(clock: ManualClock, steps: int) -> Generator[None, None, int]:
    """Work of `steps` pieces of 1 ms."""
    for _ in range(steps):
        clock.advance(1)
        yield
    return steps


async def test_a_turn_that_is_not_over_goes_on() -> None:
    clock = ManualClock()
    turns = Turns(clock)
    clock.advance(TURN_MS - 1)
    assert not turns.is_due
    assert not await turns.maybe_yield()


async def test_a_turn_that_is_over_lets_others_go_first_and_a_new_one_begins() -> None:
    clock = ManualClock()
    turns = Turns(clock)
    clock.advance(TURN_MS)
    seen: list[str] = []
    asyncio.get_running_loop().call_soon(seen.append, "other")
    assert turns.is_due
    assert await turns.maybe_yield()
    assert seen == ["other"]
    assert not turns.is_due


def test_work_of_one_turn_is_answered_at_once() -> None:
    assert in_turns(counted(ManualClock(), TURN_MS - 1), ManualClock()) == TURN_MS - 1


async def test_longer_work_turns_the_loop_every_few_milliseconds() -> None:
    clock = ManualClock()
    moments: list[int] = []
    loop = asyncio.get_running_loop()

    def watch() -> None:
        moments.append(clock.monotonic_ms())
        loop.call_soon(watch)

    result = in_turns(counted(clock, 20), clock)
    assert asyncio.iscoroutine(result)
    assert clock.monotonic_ms() == TURN_MS
    watch()
    assert await result == 20
    assert max(late - early for early, late in pairwise(moments)) == TURN_MS


async def test_what_the_work_raises_reaches_the_one_who_waits() -> None:
    clock = ManualClock()

    def failing() -> Generator[None, None, int]:
        clock.advance(TURN_MS)
        yield
        raise ValueError("broken")

    result = in_turns(failing(), clock)
    assert asyncio.iscoroutine(result)
    with pytest.raises(ValueError, match="broken"):
        await result


async def test_work_that_is_given_up_in_between_is_closed() -> None:
    clock = ManualClock()
    closed: list[bool] = []

    def steps() -> Generator[None, None, None]:
        try:
            yield from counted(clock, 100)
        finally:
            closed.append(True)

    result = in_turns(steps(), clock)
    assert asyncio.iscoroutine(result)
    task = asyncio.create_task(result)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]
