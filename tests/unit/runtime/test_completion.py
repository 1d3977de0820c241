"""A completion beside asyncio's future: the same answers, but callbacks run at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.runtime.completion import Completion

ENDS: list[Callable[[Any], object]] = [
    lambda each: None,
    lambda each: each.set_result(7),
    lambda each: each.set_exception(ValueError("no")),
    lambda each: each.cancel(),
]


def told(call: Callable[[], object]) -> object:
    """What a call says: its result, or the kind of what it raises."""
    try:
        found = call()
    except BaseException as error:  # noqa: BLE001 - also asyncio's CancelledError is an answer
        return type(error)
    return repr(found)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("again", ENDS[1:])
async def test_it_says_what_a_future_says(end, again):
    future, completion = asyncio.get_running_loop().create_future(), Completion[int]()
    for each in (future, completion):
        end(each)
    for question in ("done", "cancelled", "exception", "result"):
        assert told(getattr(completion, question)) == told(getattr(future, question)), question
    assert told(lambda: again(completion)) == told(lambda: again(future))
    for question in ("done", "cancelled", "exception", "result"):
        assert told(getattr(completion, question)) == told(getattr(future, question)), question


@pytest.mark.parametrize("end", ENDS[1:])
async def test_callbacks_run_within_the_call_that_completes_in_their_order(end):
    completion, heard = Completion[int](), []
    completion.add_done_callback(lambda done: heard.append(("first", done is completion, done.done())))
    completion.add_done_callback(lambda done: heard.append(("second", done is completion, done.done())))
    assert heard == []
    end(completion)
    assert heard == [("first", True, True), ("second", True, True)]
    completion.add_done_callback(lambda done: heard.append(("late", done is completion, done.done())))
    assert heard[2:] == [("late", True, True)]


async def test_a_callback_that_fails_is_the_loops_to_handle_and_hinders_no_other():
    completion, heard, failed = Completion[int](), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(type(context["exception"])))
    completion.add_done_callback(lambda _: 1 // 0)
    completion.add_done_callback(heard.append)
    completion.set_result(1)
    assert (heard, failed) == ([completion], [ZeroDivisionError])


@pytest.mark.parametrize("end", ENDS[1:])
@pytest.mark.parametrize("is_early", [False, True])
async def test_it_can_be_awaited(end, is_early):
    async def wait(awaited):
        return await awaited

    future, completion = asyncio.get_running_loop().create_future(), Completion[int]()
    if is_early:
        end(future)
        end(completion)
    tasks = [asyncio.create_task(wait(each)) for each in (future, completion)]
    await asyncio.sleep(0)
    if not is_early:
        end(future)
        end(completion)
    await asyncio.wait(tasks)
    of_future, of_completion = (told(task.result) for task in tasks)
    assert of_completion == of_future


async def test_a_task_that_is_cancelled_takes_along_what_it_waits_for():
    async def wait(awaited):
        return await awaited

    future, completion = asyncio.get_running_loop().create_future(), Completion[int]()
    for each in (future, completion):
        task = asyncio.create_task(wait(each))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert each.cancelled()
