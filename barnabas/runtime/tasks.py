"""Tasks with an owner, and the watchdog that ends a process whose loop no longer turns.

Every task of a process belongs to one `Supervisor`. A task that owns state must not die quietly: when it raises,
what it owned is no longer kept true, so the process ends with the state's name. A task that serves one peer costs
only that peer, and catches for itself.
"""

import asyncio
import faulthandler
import logging
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

_WATCH_STEPS: Final = 10
_TELLING_S: Final = 2.0

FatalHandler = Callable[[str, BaseException | None], None]
"""Called with what failed and why; in a process it does not return."""


class Supervisor:
    """Owns the tasks of one process or one simulated broker."""

    def __init__(self, on_fatal: FatalHandler) -> None:
        self._on_fatal = on_fatal
        # In the order in which they began, and not in that of their addresses: so they are cancelled.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> "asyncio.Task[Any]":
        """Run `work` as the owner of `name`; an exception that leaves it is fatal, cancellation is not."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    def fail(self, what: str, error: BaseException | None = None) -> None:
        """Report a broken invariant of `what` that no task can carry."""
        self._on_fatal(what, error)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        del self._tasks[task]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_fatal(task.get_name(), error)

    async def stop(self) -> None:
        """Cancel what is still running and wait until it has ended."""
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is never cancelled: a cancellation is passed on when it has ended."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result


class LoopMonitor:
    """Measures the lag of the event loop and feeds the watchdog: one beat each `interval_ms`."""

    def __init__(self, on_lag_us: Callable[[int], None], *, interval_ms: int = 100) -> None:
        self._on_lag_us = on_lag_us
        self._interval_s = interval_ms / 1000
        self.beats = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._interval_s
            await asyncio.sleep(self._interval_s)
            self.beats += 1
            self._on_lag_us(max(0, int((loop.time() - due) * 1_000_000)))


class Watchdog:
    """A thread that ends the process when the loop has not turned for `limit_ms`.

    ZooKeeper's client pings from its own thread, so a broker whose loop hangs would stay registered and lead.
    """

    def __init__(self, monitor: LoopMonitor, on_hang: Callable[[], None], *, limit_ms: int) -> None:
        self._monitor = monitor
        self._on_hang = on_hang
        self._limit_s = limit_ms / 1000
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        # In short steps: after a pause of the whole process one of them is over, not all, and the loop has its chance.
        seen, still = self._monitor.beats, 0
        while not self._stopped.wait(self._limit_s / _WATCH_STEPS):
            beats = self._monitor.beats
            still = still + 1 if beats == seen else 0
            seen = beats
            if still >= _WATCH_STEPS:
                # In a thread of its own: the loop may hang because nobody reads what is logged.
                telling = threading.Thread(target=self._tell, name="watchdog telling", daemon=True)
                telling.start()
                telling.join(_TELLING_S)
                self._on_hang()
                return

    def _tell(self) -> None:
        log.critical("the event loop has not turned for %d ms: ending the process", int(self._limit_s * 1000))
        faulthandler.dump_traceback(sys.stderr)
