"""An offload whose lanes a test can hold: what is called there happens when the test lets it.

Calls of a lane run one after the other. The oldest call of a held lane counts as under way: like a thread's it is
carried out in the end, also when nobody waits for it any more. Those behind it are dropped when they are cancelled.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar, cast

from barnabas.runtime.offload import Pause, advance

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Call:
    run: Callable[[], Any]
    done: "asyncio.Future[Any]"


@dataclass(slots=True)
class HeldOffload:
    """`calls` has the lane of each call that was carried out."""

    calls: list[str] = field(default_factory=list)
    _held: set[str] = field(default_factory=set)
    _waiting: dict[str, deque[_Call]] = field(default_factory=dict)

    def hold(self, kind: str) -> None:
        """Carry out nothing in the lanes of that kind ("write", "flush") until `release`."""
        self._held.add(kind)

    def release(self, kind: str) -> None:
        """Carry out what waits in such lanes, and what comes from now on."""
        self._held.discard(kind)
        while self.step(kind):
            pass

    def step(self, kind: str) -> bool:
        """Carry out the oldest call of each such lane; whether there was one."""
        found = False
        for lane, waiting in self._waiting.items():
            if lane.startswith(kind) and waiting:
                self._carry_out(lane, waiting.popleft())
                while waiting and waiting[0].done.cancelled():
                    waiting.popleft()
                found = True
        return found

    def waiting(self, kind: str) -> int:
        """How many calls wait in lanes of that kind."""
        return sum(len(waiting) for lane, waiting in self._waiting.items() if lane.startswith(kind))

    async def thread(self, lane: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        job = _Call(lambda: call(*args, **kwargs), asyncio.get_running_loop().create_future())
        waiting = self._waiting.setdefault(lane, deque())
        waiting.append(job)
        if lane.partition(":")[0] not in self._held:
            while waiting:
                self._carry_out(lane, waiting.popleft())
        return cast("T", await job.done)

    async def process(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.thread("process", call, *args, **kwargs)

    async def steps(
        self,
        on_report: Callable[[Any], None],
        work: Callable[P, Generator[Any, None, T]],
        *args: P.args,
        **kw: P.kwargs,
    ) -> T:
        """Each step waits for its turn in the lane; pauses take no time."""
        steps = work(*args, **kw)
        try:
            while True:
                has_ended, value = await self.thread("process", advance, steps)
                if has_ended:
                    return cast("T", value)
                if not isinstance(value, Pause):
                    on_report(value)
        finally:
            steps.close()

    def close(self) -> None:
        pass

    def _carry_out(self, lane: str, job: _Call) -> None:
        self.calls.append(lane)
        try:
            result = job.run()
        except OSError as error:
            if not job.done.done():
                job.done.set_exception(error)
        else:
            if not job.done.done():
                job.done.set_result(result)
