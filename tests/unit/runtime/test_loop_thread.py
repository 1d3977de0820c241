"""A loop in a thread: it turns while its caller does other things, and ends with all that ran on it."""

import asyncio
import threading

import pytest

from barnabas.runtime.loop_thread import LoopThread


def test_it_gives_results_and_raises_what_is_raised() -> None:
    async def work(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise ZeroDivisionError
        return number

    with LoopThread("test") as loop:
        assert [loop.run(work(number)) for number in range(3)] == [0, 1, 2]
        with pytest.raises(ZeroDivisionError):
            loop.run(work(-1))


def test_what_was_begun_goes_on_between_two_calls_and_is_cancelled_at_the_end() -> None:
    went_on, was_cancelled = threading.Event(), threading.Event()
    tasks = []

    async def stay() -> None:
        went_on.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    async def begin() -> None:
        tasks.append(asyncio.create_task(stay()))

    with LoopThread("test") as loop:
        loop.run(begin())
        assert went_on.wait(30)
        assert not was_cancelled.is_set()
    assert was_cancelled.is_set()
    assert "test" not in [each.name for each in threading.enumerate()]
