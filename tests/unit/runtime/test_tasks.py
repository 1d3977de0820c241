"""The supervisor of tasks, the measure of the loop's lag, and the watchdog."""

import asyncio
import threading
import time

import pytest

from barnabas.runtime.tasks import LoopMonitor, Supervisor, Watchdog

LIMIT_MS = 200


async def test_a_task_that_fails_is_fatal_with_its_name() -> None:
    failed: list[tuple[str, BaseException | None]] = []
    supervisor = Supervisor(lambda what, error: failed.append((what, error)))

    async def owner_of_state() -> None:
        raise ValueError("broken")

    task = supervisor.spawn(owner_of_state(), name="the state")
    with pytest.raises(ValueError, match="broken"):
        await task
    assert [(what, str(error)) for what, error in failed] == [("the state", "broken")]


async def test_a_task_that_is_cancelled_is_not_fatal() -> None:
    failed: list[str] = []
    supervisor = Supervisor(lambda what, error: failed.append(what))
    task = supervisor.spawn(asyncio.sleep(60), name="the state")
    await asyncio.sleep(0)
    await supervisor.stop()
    assert task.cancelled()
    assert failed == []


async def test_a_loop_that_is_held_up_shows_as_lag() -> None:
    lags_us: list[int] = []
    monitor = LoopMonitor(lags_us.append, interval_ms=10)
    running = asyncio.create_task(monitor.run())
    await asyncio.sleep(0.015)
    time.sleep(0.1)  # noqa: ASYNC251 - it is to hold the loop up
    await asyncio.sleep(0.02)
    running.cancel()
    assert max(lags_us) >= 80_000
    assert monitor.beats == len(lags_us)


def test_the_watchdog_barks_when_the_loop_stands_still() -> None:
    monitor, barked = LoopMonitor(lambda lag_us: None), threading.Event()
    watchdog = Watchdog(monitor, barked.set, limit_ms=LIMIT_MS)
    began = time.monotonic()
    watchdog.start()
    assert barked.wait(10)
    assert time.monotonic() - began >= LIMIT_MS / 1000 * 0.9


def test_the_watchdog_is_quiet_while_the_loop_turns() -> None:
    monitor, barked = LoopMonitor(lambda lag_us: None), threading.Event()
    watchdog = Watchdog(monitor, barked.set, limit_ms=LIMIT_MS)
    watchdog.start()
    for _ in range(40):
        monitor.beats += 1
        assert not barked.wait(LIMIT_MS / 1000 / 20)
    watchdog.stop()
