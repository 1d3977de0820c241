"""The offload port of a simulated process: what is called happens on the loop, after a drawn time.

Calls of a lane run one after the other, in the order of the calls; lanes do not wait for each other. A call that was
cancelled before its turn is dropped, as in an executor; one under way is carried out. Work in steps takes its turn for
each: whatever else happens comes between them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from barnabas.runtime.worker import Pause

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedOffload:
    """`delay` gives the seconds that a call of a lane takes."""

    def __init__(self, delay: Callable[[str], float]) -> None:
        self._delay = delay
        self._lanes: dict[str, deque[tuple[Callable[[], Any], asyncio.Future[Any]]]] = {}
        self._is_closed = False

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise RuntimeError("the offload is closed")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waiting = self._lanes.get(lane)
        if waiting is None:
            waiting = self._lanes[lane] = deque()
        waiting.append((partial(call, *args, **kwargs), done))
        if len(waiting) == 1:
            self._begin(lane)
        return cast("T", await done)

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.thread("process", call, *args, **kwargs)

    async def steps(
        self,
        on_report: Callable[[Any], None],
        work: Callable[P, Generator[Any, None, T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Each step takes a drawn time; other calls of the worker do not wait for it."""
        if self._is_closed:
            raise RuntimeError("the offload is closed")
        generator = work(*args, **kw)
        try:
            while True:
                await asyncio.sleep(self._delay("process"))
                try:
                    told = next(generator)
                except StopIteration as end:
                    return cast("T", end.value)
                if isinstance(told, Pause):
                    await asyncio.sleep(told.ms / 1000)
                else:
                    on_report(told)
        finally:
            generator.close()

    def close(self) -> None:
        self._is_closed = True

    def _begin(self, lane: str) -> None:
        asyncio.get_running_loop().call_later(self._delay(lane), self._carry_out, lane)

    def _carry_out(self, lane: str) -> None:
        waiting = self._lanes[lane]
        call, done = waiting[0]
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - it is whoever waits who handles it
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)
        waiting.popleft()
        while waiting and waiting[0][1].cancelled():
            waiting.popleft()
        if waiting:
            self._begin(lane)
