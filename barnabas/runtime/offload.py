"""The offload port: work that may wait or take long leaves the event loop through here.

`thread` is for calls that wait for the device (fsync, a cold read, a slow write); calls of one `lane` run one after
the other, in the order of the calls, and lanes do not wait for each other. `process` is for calls that burn CPU:
workers are spawned, never forked, and function and arguments must be picklable.
"""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
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

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        executor = self._lanes.get(lane)
        if executor is None:
            executor = self._lanes[lane] = ThreadPoolExecutor(1, thread_name_prefix=lane)
        return await asyncio.wrap_future(executor.submit(call, *args, **kwargs))

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._workers is None:
            context = multiprocessing.get_context("spawn")
            self._workers = ProcessPoolExecutor(self._processes, mp_context=context)
        return await asyncio.wrap_future(self._workers.submit(call, *args, **kwargs))

    def close(self) -> None:
        """Let calls under way end and refuse new ones."""
        for executor in self._lanes.values():
            executor.shutdown(wait=False, cancel_futures=True)
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
