"""The offload port: work that may wait or take long leaves the event loop through here.

`thread` is for calls that wait for the device (fsync, a cold read, a slow write); calls of one `lane` run one after
the other, in the order of the calls, and lanes do not wait for each other. `process` is for calls that burn CPU:
workers are spawned, never forked, and function and arguments must be picklable.
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Offload(Protocol):
    """Runs a call elsewhere and gives its result back to the loop."""

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    def close(self) -> None: ...


class SystemOffload:
    """Threads by lane, made on first use, and at most `processes` spawned workers."""

    def __init__(self, *, processes: int = 1) -> None:
        self._lanes: dict[str, ThreadPoolExecutor] = {}
        self._processes = processes
        self._workers: ProcessPoolExecutor | None = None
        self._is_closed = False

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        executor = self._lanes.get(lane)
        if executor is None:
            self._check_open()
            executor = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=lane)
        return await asyncio.wrap_future(executor.submit(call, *args, **kwargs))

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        workers = self._workers
        if workers is None:
            self._check_open()
            context = multiprocessing.get_context("spawn")
            workers = self._workers = ProcessPoolExecutor(self._processes, mp_context=context)
        try:
            return await asyncio.wrap_future(workers.submit(call, *args, **kwargs))
        except BrokenProcessPool:
            # A worker was killed, by the kernel for its memory perhaps; the next call gets others.
            if self._workers is workers and not self._is_closed:
                self._workers = None
            raise

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the offload is closed")

    def close(self) -> None:
        """Let calls under way end and refuse new ones."""
        self._is_closed = True
        for executor in self._lanes.values():
            executor.shutdown(wait=False, cancel_futures=True)
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
