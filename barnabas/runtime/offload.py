"""The offload port: work that may wait or take long leaves the event loop through here.

`thread` is for calls that wait for the device (fsync, a cold read, a slow write); calls of one `lane` run one after
the other, in the order of the calls, and lanes do not wait for each other. `process` is for calls that burn CPU, and
`steps` for work that takes long and tells of itself meanwhile: both run in one worker process, spawned, never forked,
one after the other; function, arguments and whatever comes back must be picklable.
"""

import asyncio
import contextlib
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

from barnabas.runtime.worker import Pause, Task, Worker, WorkerLost

__all__ = ["Offload", "Pause", "SystemOffload", "WorkerLost", "advance", "call_in_one_step"]

P = ParamSpec("P")
T = TypeVar("T")

IDLE_WORKER_S: Final = 10.0
"""How long a worker process is kept that has nothing to do."""


class Offload(Protocol):
    """Runs a call elsewhere and gives its result back to the loop."""

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def steps(
        self,
        on_report: Callable[[Any], None],
        work: Callable[P, Generator[Any, None, T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Advance a generator to its end, with less of the CPU than others get, and give its result.

        What it yields goes to `on_report`, in order, while it goes on; a `Pause` makes it wait instead. Who is
        cancelled is so when the work has ended: it ends at once, between two steps or in the midst of one.
        """
        ...

    def close(self) -> None: ...


def call_in_one_step(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Generator[Any, None, T]:
    """A call as work of a single step."""
    yield from ()
    return call(*args, **kwargs)


def advance(steps: Generator[Any, None, Any]) -> tuple[bool, Any]:
    """One step: (whether it was the last, the result or what was yielded)."""
    try:
        return False, next(steps)
    except StopIteration as done:
        return True, done.value


class SystemOffload:
    """Threads by lane, made on first use, and at most one worker process, which ends when it has nothing to do."""

    def __init__(self, *, idle_worker_s: float = IDLE_WORKER_S) -> None:
        self._lanes: dict[str, ThreadPoolExecutor] = {}
        self._worker = Worker()
        self._worker_thread: ThreadPoolExecutor | None = None
        self._idle_worker_s = idle_worker_s
        self._idle: asyncio.TimerHandle | None = None
        self._at_work = 0
        self._is_closed = False
        self._is_ending = False

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        executor = self._lanes.get(lane)
        if executor is None:
            self._check_open()
            executor = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=lane)
        return await asyncio.wrap_future(executor.submit(call, *args, **kwargs))

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises WorkerLost when the worker was killed, by the kernel for its memory perhaps; the next is another."""
        task = Task(call_in_one_step, (call, *args), kwargs, is_patient=False)
        return cast("T", await self._work(task, _ignore))

    async def steps(
        self,
        on_report: Callable[[Any], None],
        work: Callable[P, Generator[Any, None, T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """See the port. Raises WorkerLost."""
        return cast("T", await self._work(Task(work, args, kw, is_patient=True), on_report))

    async def _work(self, task: Task, on_report: Callable[[Any], None]) -> Any:
        self._check_open()
        if self._worker_thread is None:
            self._worker_thread = ThreadPoolExecutor(1, thread_name_prefix="worker")
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._at_work += 1
        is_heard = True

        def deliver(value: Any) -> None:
            if is_heard:
                on_report(value)

        def report(value: Any) -> None:
            loop.call_soon_threadsafe(deliver, value)

        call = self._worker_thread.submit(self._worker.run, task, report)
        try:
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            is_heard = False
            await self._call_off(task, call)
            raise
        finally:
            self._at_work -= 1
            if not self._at_work and not self._is_closed:
                self._idle = loop.call_later(self._idle_worker_s, self._end_idle_worker)

    async def _call_off(self, task: Task, call: "Future[Any]") -> None:
        """Return when the task has ended; one that had not begun is dropped."""
        if call.cancelled():
            return
        self._worker.call_off(task)
        ended = asyncio.wrap_future(call)
        while not ended.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        if not ended.cancelled():
            ended.exception()

    def _end_idle_worker(self) -> None:
        assert self._worker_thread is not None
        self._idle = None
        self._worker_thread.submit(self._worker.end)

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the offload is closed")

    def close(self) -> None:
        """Let calls under way end, but for the worker's, and refuse new ones."""
        self._is_closed = True
        for executor in self._lanes.values():
            executor.shutdown(wait=False, cancel_futures=True)
        if self._idle is not None:
            self._idle.cancel()
        if self._worker_thread is not None and not self._is_ending:
            self._is_ending = True
            self._worker.call_off()
            self._worker_thread.submit(self._worker.end)
            self._worker_thread.shutdown(wait=False)


def _ignore(_: object) -> None:
    """Nothing is reported by a call."""
