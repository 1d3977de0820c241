"""A loop whose clock stands still while there is work and jumps to the next timer when there is none.

A test in virtual time waits for nothing and is the same each time. It fails where nothing will ever happen any more,
and when an exception reached the loop itself, where a broker would end its process.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


class NothingHappens(AssertionError):
    """The test waits, and there is no timer that could end the wait."""


class _JumpingSelector(selectors.DefaultSelector):
    """Moves the loop's clock instead of waiting."""

    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise NothingHappens
        self.loop.now_s += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module. For one thread: whoever calls from another is not waited for."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.errors: list[str] = []
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self.set_exception_handler(
            lambda _, context: self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")
        )

    def time(self) -> float:
        return self.now_s


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))
            loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        assert loop.errors == []

    return run


def timers() -> int:
    """How many timers the running loop has."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    scheduled: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


async def turns(count: int = 10) -> None:
    """Let the loop turn, without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)
