"""Long work of one request, cut so that the event loop turns between the pieces.

A request of many small elements is little on the wire and much to do. Whoever does it asks after each element, or each
few, whether its turn is over, and then lets everything else that is ready go first. What takes less than one turn never
waits. A single element that takes longer than a turn is not helped by this.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, Final, TypeVar, cast

from barnabas.runtime.clock import Clock

T = TypeVar("T")

TURN_US: Final = 2_000
"""How long a request works before it lets others go first."""


class Turns:
    """One request's turns. The first begins when this is made."""

    __slots__ = ("_ends_us", "_monotonic_us")

    def __init__(self, clock: Clock) -> None:
        self._monotonic_us = clock.monotonic_us
        self._ends_us = self._monotonic_us() + TURN_US

    @property
    def is_due(self) -> bool:
        """Whether this turn is over; costs a look at the clock."""
        return self._monotonic_us() >= self._ends_us

    async def let_others(self) -> None:
        """Let the loop turn, then begin a new turn."""
        await asyncio.sleep(0)
        self._ends_us = self._monotonic_us() + TURN_US

    async def maybe_yield(self) -> bool:
        """Let the loop turn if this turn is over; whether it was."""
        if not self.is_due:
            return False
        await self.let_others()
        return True

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Do work that yields wherever it may be interrupted; what it returns."""
        # Whoever gives up while others have their turn must not leave the work half done until it is collected.
        with contextlib.closing(steps):
            while True:
                try:
                    next(steps)
                except StopIteration as done:
                    return cast("T", done.value)
                if self.is_due:
                    await self.let_others()


def in_turns(steps: Generator[None, None, T], clock: Clock) -> T | Coroutine[Any, Any, T]:
    """Do work that yields wherever it may be interrupted: what it returns, at once if one turn is enough.

    For a handler that need not wait for anything, so that short requests stay without a coroutine.
    """
    turns = Turns(clock)
    try:
        while True:
            next(steps)
            if turns.is_due:
                return _go_on(steps, turns)
    except StopIteration as done:
        return cast("T", done.value)


async def _go_on(steps: Generator[None, None, T], turns: Turns) -> T:
    with contextlib.closing(steps):
        await turns.let_others()
        return await turns.finish(steps)
