"""The loop of a simulated world: time, order, and processes that die without a word."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from barnabas.simulation.loop import Life, NothingHappens, SimulationLoop, TimeStandsStill


def run(main: Callable[[SimulationLoop], Awaitable[None]], *, seed: int = 1, shuffle: float = 0.0) -> SimulationLoop:
    loop = SimulationLoop(random.Random(seed), shuffle=shuffle)

    async def started() -> None:
        await main(loop)

    try:
        loop.run_until_complete(started())
    finally:
        loop.close()
    return loop


def start(loop: SimulationLoop, life: Life, work) -> asyncio.Task:
    return loop.create_task(work, context=life.context.copy())


def test_time_passes_only_while_nobody_has_anything_to_do():
    async def main(loop):
        await asyncio.sleep(3600)
        assert loop.now_s == 3600
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await loop.create_future()
        assert loop.time() == 3605

    run(main)


def test_a_wait_that_nothing_can_end_is_an_error():
    async def main(loop):
        await loop.create_future()

    with pytest.raises(NothingHappens):
        run(main)


def test_events_without_time_are_an_error_at_last():
    async def main(loop):
        while True:  # noqa: ASYNC110 - that is the point
            await asyncio.sleep(0)

    with pytest.raises(TimeStandsStill):
        run(main)


def test_a_killed_process_runs_no_finally_and_hears_of_nothing():
    told: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
            told.append("it lived on")
        finally:
            told.append("finally")

    async def main(loop):
        life = loop.life("victim")
        task = start(loop, life, work())
        await asyncio.sleep(1)
        loop.end(life)
        loop.call_in(life, 1, told.append, "a message")
        del task
        await asyncio.sleep(100)
        assert told == []

    run(main)
    assert told == ["finally"], "only when the world has ended"


def test_what_a_process_starts_dies_with_it():
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def parent() -> None:
        asyncio.get_running_loop().create_task(tick())
        await asyncio.sleep(1000)

    async def main(loop):
        life = loop.life("victim")
        start(loop, life, parent())
        await asyncio.sleep(3.5)
        loop.end(life)
        await asyncio.sleep(10)

    run(main)
    assert ticks == [0, 1, 2, 3]


def test_a_held_process_stands_still_and_catches_up():
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def main(loop):
        life = loop.life("held")
        start(loop, life, tick())
        await asyncio.sleep(1.5)
        loop.hold(life)
        await asyncio.sleep(5)
        loop.release(life)
        await asyncio.sleep(1.1)

    run(main)
    assert ticks == [0, 1, 6.5, 7.5]


def test_a_stall_delays_only_its_own_process():
    done: list[tuple[str, float]] = []

    async def work(loop, life, *, stalls: bool) -> None:
        if stalls:
            loop.stall(life, 2)
        await asyncio.sleep(0)
        done.append((life.name, loop.time()))

    async def main(loop):
        for name in ("slow", "quick"):
            life = loop.life(name)
            start(loop, life, work(loop, life, stalls=name == "slow"))
        await asyncio.sleep(10)

    run(main)
    assert done == [("quick", 0), ("slow", 2)]


def test_which_process_goes_next_is_drawn_and_within_one_the_order_holds():
    async def main(loop):
        for name in ("a", "b"):
            life = loop.life(name)
            for number in range(5):
                loop.call_soon(order.append, f"{name}{number}", context=life.context)
        await asyncio.sleep(1)

    orders = set()
    for seed in range(8):
        order: list[str] = []
        run(main, seed=seed)
        for name in ("a", "b"):
            assert [each for each in order if each[0] == name] == [f"{name}{number}" for number in range(5)]
        orders.add(tuple(order))
    assert len(orders) > 4


def test_with_shuffle_the_order_within_a_process_is_drawn_too():
    async def main(loop):
        life = loop.life("a")
        for number in range(5):
            loop.call_soon(order.append, number, context=life.context)
        await asyncio.sleep(1)

    orders = set()
    for seed in range(8):
        order: list[int] = []
        run(main, seed=seed, shuffle=0.5)
        assert sorted(order) == list(range(5))
        orders.add(tuple(order))
    assert len(orders) > 3


def test_the_digest_tells_two_runs_apart():
    def digest(seed: int, seconds: float) -> int:
        async def main(loop):
            await asyncio.sleep(seconds)

        return run(main, seed=seed).digest

    assert digest(1, 1.0) == digest(1, 1.0)
    assert digest(1, 1.0) != digest(1, 1.001)


def test_an_exception_that_nobody_caught_is_told_with_its_process():
    failures: list[str] = []

    def fail() -> None:
        raise ValueError("planted")

    async def main(loop):
        loop.on_failure = lambda life, what, error: failures.append(f"{life}: {error!r}")
        life = loop.life("victim")
        loop.call_in(life, 1, fail)
        await asyncio.sleep(2)

    run(main)
    assert failures == ["victim: ValueError('planted')"]
