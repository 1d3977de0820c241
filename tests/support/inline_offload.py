"""An offload that does the work where it is called, so that a test is one thread and in one order."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, ParamSpec, TypeVar, cast

from barnabas.runtime.offload import Pause

P = ParamSpec("P")
T = TypeVar("T")


class InlineOffload:
    """Keeps the lanes that were used, and how long work in steps asked to pause."""

    def __init__(self) -> None:
        self.lanes: list[str] = []
        self.paused_ms = 0
        self.lets_others_run = False
        """Whether others come between a call and what its caller does next, as with threads."""

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.lanes.append(lane)
        if self.lets_others_run:
            await asyncio.sleep(0)
        return call(*args, **kwargs)

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.lanes.append("process")
        return call(*args, **kwargs)

    async def steps(
        self,
        on_report: Callable[[Any], None],
        work: Callable[P, Generator[Any, None, T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        self.lanes.append("process")
        steps = work(*args, **kw)
        while True:
            try:
                value = next(steps)
            except StopIteration as done:
                return cast("T", done.value)
            if isinstance(value, Pause):
                self.paused_ms += value.ms
            else:
                on_report(value)
            await asyncio.sleep(0)

    def close(self) -> None:
        pass
