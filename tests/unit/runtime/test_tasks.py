"""Tasks have an owner, a failure has a name, and a loop that hangs ends its process."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from barnabas.runtime import tasks
from barnabas.runtime.tasks import LoopMonitor, Supervisor, Watchdog
from tests.support.virtual_time import VirtualTimeLoop, turns, virtual_time


class Owner:
    """A supervisor, and what was fatal to it."""

    def __init__(self) -> None:
        self.fatal: list[tuple[str, str]] = []
        self.supervisor = Supervisor(lambda what, error: self.fatal.append((what, type(error).__name__)))


async def fails() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError


@virtual_time
async def test_a_task_that_fails_is_fatal_by_its_name() -> None:
    owner = Owner()
    owner.supervisor.spawn(fails(), name="state of x")
    await turns()
    assert owner.fatal == [("state of x", "ZeroDivisionError")]


@virtual_time
async def test_a_task_that_ends_or_is_cancelled_is_not_fatal_and_is_forgotten() -> None:
    owner = Owner()
    ended = owner.supervisor.spawn(asyncio.sleep(0, "result"), name="short")
    cancelled = owner.supervisor.spawn(asyncio.sleep(100), name="long")
    unstarted = owner.supervisor.spawn(asyncio.sleep(100), name="never")
    unstarted.cancel()
    await turns()
    cancelled.cancel()
    await turns()
    assert ended.result() == "result"
    assert owner.fatal == []
    assert not owner.supervisor._tasks


@virtual_time
async def test_tasks_are_cancelled_in_the_order_in_which_they_began() -> None:
    owner = Owner()
    cancelled: list[int] = []

    async def works(number: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            cancelled.append(number)

    for number in range(50):
        owner.supervisor.spawn(works(number), name=f"work {number}")
    await turns()
    await owner.supervisor.stop()
    assert cancelled == list(range(50))


@virtual_time
async def test_what_no_task_can_carry_is_reported_as_it_is() -> None:
    owner = Owner()
    owner.supervisor.fail("the disk")
    owner.supervisor.fail("the disk", OSError())
    assert owner.fatal == [("the disk", "NoneType"), ("the disk", "OSError")]


@virtual_time
async def test_a_stop_cancels_what_runs_and_returns_when_it_has_ended() -> None:
    owner = Owner()
    ended: list[int] = []

    async def works(number: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(number)
            ended.append(number)

    for number in range(3):
        owner.supervisor.spawn(works(number), name=f"work {number}")
    await turns()
    await owner.supervisor.stop()
    assert ended == [0, 1, 2]
    assert asyncio.get_running_loop().time() == 2
    assert owner.fatal == []


@virtual_time
async def test_what_fails_while_it_is_stopped_is_still_fatal() -> None:
    owner = Owner()

    async def fails_at_the_end() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise ZeroDivisionError

    owner.supervisor.spawn(fails_at_the_end(), name="x")
    await turns()
    await owner.supervisor.stop()
    await turns()
    assert owner.fatal == [("x", "ZeroDivisionError")]


@virtual_time
async def test_a_task_may_stop_its_own_supervisor() -> None:
    owner = Owner()
    other = owner.supervisor.spawn(asyncio.sleep(1000), name="other")
    stopping = owner.supervisor.spawn(owner.supervisor.stop(), name="stop")
    await stopping
    assert other.cancelled()
    assert not stopping.cancelled()


# How late the loop is.


@virtual_time
async def test_the_lag_is_how_much_later_than_due_the_loop_came() -> None:
    lags: list[int] = []
    monitor = LoopMonitor(lags.append, interval_ms=100)
    running = asyncio.get_running_loop().create_task(monitor.run())
    await asyncio.sleep(0.35)
    assert lags == [0, 0, 0]
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    # Somebody holds the loop for 250 ms; the next beat was due 50 ms after he began.
    loop.now_s += 0.25
    await turns()
    assert len(lags) == 4
    assert lags[3] == pytest.approx(200_000, abs=2)
    await asyncio.sleep(0.1)
    assert lags[4] == pytest.approx(0, abs=2)
    assert monitor.beats == 5
    running.cancel()


# The watchdog. It is a thread, so these wait for what must happen, and for no longer than that takes.


class Hang:
    """A watchdog over a loop that beats when the test says so."""

    def __init__(self, limit_ms: int) -> None:
        self.monitor = LoopMonitor(lambda _: None)
        self.ended = threading.Event()
        self.watchdog = Watchdog(self.monitor, self.ended.set, limit_ms=limit_ms)
        self.watchdog.start()


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Catches the stacks that a watchdog shows."""
    yield
    capfd.readouterr()


@pytest.mark.usefixtures("quiet")
def test_a_loop_that_does_not_turn_ends_the_process() -> None:
    hang = Hang(limit_ms=50)
    assert hang.ended.wait(10)


@pytest.mark.usefixtures("quiet")
def test_a_loop_that_turned_and_then_hangs_ends_the_process_and_tells_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hang = Hang(limit_ms=400)
    for _ in range(20):
        hang.monitor.beats += 1
        assert not hang.ended.wait(0.02)
    assert hang.ended.wait(10)
    assert "the event loop has not turned for 400 ms" in caplog.text


def test_a_watchdog_that_is_stopped_ends_nothing() -> None:
    hang = Hang(limit_ms=50)
    hang.watchdog.stop()
    hang.watchdog._thread.join(10)
    assert not hang.ended.is_set()


class Blocked(logging.Handler):
    """A log whose reader has gone away without closing it."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.released.wait(20)


@pytest.mark.usefixtures("quiet")
def test_a_log_that_cannot_be_written_to_does_not_keep_a_hung_process_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_TELLING_S", 0.1)
    blocked, log = Blocked(), logging.getLogger("barnabas.runtime.tasks")
    log.addHandler(blocked)
    try:
        hang = Hang(limit_ms=50)
        assert hang.ended.wait(10)
    finally:
        blocked.released.set()
        log.removeHandler(blocked)
