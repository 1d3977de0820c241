"""Lanes keep their order and do not wait for each other; nothing is lost, and nothing is begun after the end."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from functools import partial
from pathlib import Path

import pytest

from barnabas.runtime.offload import Pause, SystemOffload, WorkerLost


@pytest.fixture
async def offload() -> AsyncIterator[SystemOffload]:
    offload = SystemOffload()
    yield offload
    offload.close()


async def test_a_call_gives_its_result_or_its_error(offload: SystemOffload) -> None:
    assert await offload.thread("a", divmod, 7, 2) == (3, 1)
    assert await offload.thread("a", int, "ff", base=16) == 255
    with pytest.raises(ZeroDivisionError):
        await offload.thread("a", divmod, 1, 0)
    assert await offload.thread("a", threading.get_ident) != threading.get_ident()


async def test_calls_of_a_lane_run_one_by_one_in_the_order_of_the_calls(offload: SystemOffload) -> None:
    gate = threading.Event()
    order: list[int] = []
    running = [0]

    def work(number: int) -> int:
        running[0] += 1
        assert running[0] == 1
        gate.wait(10)
        order.append(number)
        running[0] -= 1
        return number

    calls = [asyncio.ensure_future(offload.thread("a", work, number)) for number in range(50)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*calls) == list(range(50))
    assert order == list(range(50))


async def test_lanes_do_not_wait_for_each_other(offload: SystemOffload) -> None:
    both = threading.Barrier(2, timeout=10)
    await asyncio.gather(offload.thread("a", both.wait), offload.thread("b", both.wait))


async def test_the_loop_turns_while_a_thread_works(offload: SystemOffload) -> None:
    gate = threading.Event()
    call = asyncio.ensure_future(offload.thread("a", gate.wait, 10))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not call.done()
    gate.set()
    assert await call is True


async def test_a_call_that_was_cancelled_before_its_turn_is_not_done(offload: SystemOffload) -> None:
    gate = threading.Event()
    done: list[int] = []
    first = asyncio.ensure_future(offload.thread("a", gate.wait, 10))
    second = asyncio.ensure_future(offload.thread("a", done.append, 2))
    third = asyncio.ensure_future(offload.thread("a", done.append, 3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, third)
    assert done == [3]


async def test_a_call_under_way_goes_on_when_nobody_waits_for_it_and_those_behind_it_follow(
    offload: SystemOffload,
) -> None:
    begun, gate = threading.Event(), threading.Event()
    done: list[int] = []

    def work() -> None:
        begun.set()
        gate.wait(10)
        done.append(1)

    first = asyncio.ensure_future(offload.thread("a", work))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    second = asyncio.ensure_future(offload.thread("a", done.append, 2))
    await asyncio.sleep(0)
    gate.set()
    await second
    assert done == [1, 2]


async def test_after_the_end_what_is_under_way_ends_and_nothing_is_begun() -> None:
    offload = SystemOffload()
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(10)
        ended.set()

    under_way = asyncio.ensure_future(offload.thread("a", work))
    await asyncio.to_thread(begun.wait, 10)
    behind = asyncio.ensure_future(offload.thread("a", ended.clear))
    await asyncio.sleep(0)
    offload.close()
    for lane in ("a", "another"):
        with pytest.raises(RuntimeError):
            await offload.thread(lane, ended.clear)
    with pytest.raises(RuntimeError):
        await offload.process(os.getpid)
    gate.set()
    await under_way
    assert ended.is_set()
    assert (await asyncio.gather(behind, return_exceptions=True))[0] is not None
    offload.close()


def kill_me() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def test_processes_are_others_and_one_that_dies_is_replaced(offload: SystemOffload) -> None:
    first = await offload.process(os.getpid)
    assert first != os.getpid()
    assert await offload.process(os.getpid) == first
    with pytest.raises(ZeroDivisionError):
        await offload.process(divmod, 1, 0)
    with pytest.raises(WorkerLost):
        await offload.process(kill_me)
    assert await offload.process(os.getpid) not in (first, os.getpid())


def count(upto: int, *, pause_ms: int = 0) -> Iterator[object]:
    for number in range(upto):
        yield number
        yield Pause(pause_ms)
    return os.getpid()


def fail_after(reports: int) -> Iterator[object]:
    yield from range(reports)
    raise OSError(28, "No space left on device")


def tell_who_then_wait() -> Iterator[object]:
    yield os.getpid()
    while True:
        yield Pause(60_000)


def burn_after(path: str) -> Iterator[object]:
    yield os.getpid()
    while True:
        with open(path, "ab") as file:
            file.write(b"x")


AUTOGROUP = Path("/proc/self/autogroup")


def niceness() -> tuple[int, str]:
    """Of this process within its session, and what its session's group is called and how nice that is."""
    return os.nice(0), AUTOGROUP.read_text() if AUTOGROUP.exists() else ""


def tell_niceness() -> Generator[None, None, tuple[int, str]]:
    yield
    return niceness()


async def test_steps_give_way_to_who_is_of_another_session_too(offload: SystemOffload) -> None:
    own, (group, _, _) = os.nice(0), niceness()[1].partition(" ")
    assert await offload.process(niceness) == (own, niceness()[1])
    nice, session = await offload.steps(lambda _: None, tell_niceness)
    assert nice == min(own + 10, 19)
    if session:
        assert session.split(" ")[0] != group
        assert session.split()[1:] == ["nice", "10"]


def tell_policy() -> Generator[None, None, tuple[int, str]]:
    yield
    of_scheduling = Path("/proc/self/sched")
    lines = of_scheduling.read_text().splitlines() if of_scheduling.exists() else []
    told = [line.rpartition(":")[2].strip() for line in lines if line.startswith("se.slice")]
    return os.sched_getscheduler(0), "".join(told)


async def test_steps_run_in_short_slices_and_take_the_processor_from_nobody(offload: SystemOffload) -> None:
    policy, slice_ns = await offload.steps(lambda _: None, tell_policy)
    assert policy == os.SCHED_BATCH
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    if slice_ns and release >= (6, 12):
        assert slice_ns == "100000"


async def test_steps_tell_of_themselves_before_their_result(offload: SystemOffload) -> None:
    heard: list[object] = []
    worker = await offload.steps(heard.append, count, 4, pause_ms=1)
    assert heard == [0, 1, 2, 3]
    assert worker == await offload.process(os.getpid) != os.getpid()


async def test_an_error_comes_after_what_was_told_before_it(offload: SystemOffload) -> None:
    heard: list[object] = []
    with pytest.raises(OSError, match="No space"):
        await offload.steps(heard.append, fail_after, 3)
    assert heard == [0, 1, 2]


async def test_steps_that_are_called_off_have_ended_when_the_caller_goes_on(
    offload: SystemOffload, tmp_path: Path
) -> None:
    for work in (tell_who_then_wait, partial(burn_after, str(tmp_path / "burnt"))):
        told: asyncio.Queue[int] = asyncio.Queue()
        task = asyncio.ensure_future(offload.steps(told.put_nowait, work))
        worker = await told.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not _is_alive(worker)
        assert told.empty()
        assert await offload.process(os.getpid) != worker


async def test_steps_are_called_off_before_the_worker_has_begun(offload: SystemOffload) -> None:
    heard: list[object] = []
    for turns in range(4):
        task = asyncio.ensure_future(offload.steps(heard.append, tell_who_then_wait))
        behind = asyncio.ensure_future(offload.process(divmod, 7, 2))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await behind == (3, 1)


async def test_a_worker_without_work_ends() -> None:
    offload = SystemOffload(idle_worker_s=0.05)
    worker = await offload.process(os.getpid)
    await _end_of(worker)
    assert await offload.process(os.getpid) != worker
    offload.close()


async def test_the_end_takes_the_worker_along() -> None:
    offload = SystemOffload()
    told: asyncio.Queue[int] = asyncio.Queue()
    task = asyncio.ensure_future(offload.steps(told.put_nowait, tell_who_then_wait))
    worker = await told.get()
    offload.close()
    with pytest.raises(WorkerLost):
        await task
    await _end_of(worker)


async def test_a_worker_dies_with_its_broker(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from barnabas.runtime.offload import SystemOffload
from tests.unit.runtime.test_offload import tell_who_then_wait
async def main():
    await SystemOffload().steps(lambda pid: print(pid, flush=True), tell_who_then_wait)
asyncio.run(main())
"""
    broker = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert broker.stdout is not None
    worker = int(await asyncio.wait_for(broker.stdout.readline(), 30))
    broker.kill()
    await broker.wait()
    await _end_of(worker)


async def _end_of(process: int) -> None:
    async with asyncio.timeout(10):
        while _is_alive(process):  # noqa: ASYNC110 - nobody tells of the end of another's child
            await asyncio.sleep(0.01)


def _is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False
