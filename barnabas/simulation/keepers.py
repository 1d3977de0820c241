"""Who looks after a client of a simulated cluster: kills it, pauses it, asks it to leave, and starts another one there.

    crash     the process ends without a word to anybody but its peers' kernels, or not even that; the next one starts
    zombie    the process stands still, the next one starts beside it, and then the first one goes on
    pause     the process stands still for a while
    leave     the process ends in order; the next one starts

All of them are processes of one host, which outlives them.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from barnabas.simulation.load import ClientProcess
from barnabas.simulation.world import World


class KeptProcess(ClientProcess, ABC):
    """What can be kept."""

    @abstractmethod
    async def run(self) -> None:
        """Work until the load is over or the process is asked to leave."""


P = TypeVar("P", bound=KeptProcess)

_ACTS: Final = ("crash", "crash", "zombie", "zombie", "pause", "leave")
_LONGEST_LEAVE_S: Final = 20.0
_UNDER_WAY_S: Final = 1.0
"""How long what a process has sent may take to arrive."""


class Keeper(Generic[P]):
    """Has one place filled by one process after the other, which `make` makes from a name."""

    def __init__(self, world: World, host: str, make: Callable[[str], P], *, mean_gap_s: float) -> None:
        self.host = host
        self.is_acting = False
        self._world = world
        self._make = make
        self._mean_gap_s = mean_gap_s
        self._chance = random.Random(f"{world.seed}/keeper/{host}")
        self._made = 0
        self.process: P
        self._work: asyncio.Task[Any]
        self._zombies: list[tuple[P, asyncio.Task[Any]]] = []

    def begin(self) -> None:
        """Start the first process."""
        self._made += 1
        self.process = self._make(f"{self.host}-{self._made}")
        self._work = self.process.start(self.process.run())

    async def keep(self) -> None:
        """Let things happen to the process until the load is over."""
        chance, stage = self._chance, self._world.stage
        acts: dict[str, Callable[[], Awaitable[None]]] = {
            "crash": self._crash,
            "zombie": self._zombie,
            "pause": self._pause,
            "leave": self._leave,
        }
        while True:
            await asyncio.sleep(chance.expovariate(1 / self._mean_gap_s))
            if stage.is_over:
                return
            kind = chance.choice(_ACTS)
            self._world.tell(f"{self.host}: {kind}")
            self.is_acting = True
            await acts[kind]()
            self.is_acting = False

    async def ended(self) -> None:
        """Return when the process has ended in order, or was given up."""
        await asyncio.wait([self._work], timeout=_LONGEST_LEAVE_S)

    async def end(self) -> None:
        """Return when the process has ended, no zombie of it is left, and all that any of them sent has arrived."""
        await self.ended()
        left = [process for process, work in (*self._zombies, (self.process, self._work)) if not work.done()]
        for process in left:
            self._end(process)
        if left:
            await asyncio.sleep(_UNDER_WAY_S)

    async def _crash(self) -> None:
        world, life = self._world, self.process.life
        world.loop.end(life)
        world.wires.process_died(life, says_so=self._chance.random() < 0.7)
        await asyncio.sleep(self._chance.uniform(0.2, 5))
        self.begin()

    async def _zombie(self) -> None:
        loop, old = self._world.loop, self.process
        self._zombies.append((old, self._work))
        loop.hold(old.life)
        await asyncio.sleep(self._chance.uniform(0.1, 8))
        old.is_superseded = True
        self.begin()
        await asyncio.sleep(self._chance.uniform(0, 8))
        loop.release(old.life)
        self._world.loop.call_in(self._world.loop.world, self._chance.uniform(5, 30), self._end, old)

    def _end(self, old: P) -> None:
        """Not all zombies learn of it: somebody puts an end to them."""
        if not old.life.is_dead:
            self._world.loop.end(old.life)
            self._world.wires.process_died(old.life, says_so=True)

    async def _pause(self) -> None:
        loop, life = self._world.loop, self.process.life
        loop.hold(life)
        await asyncio.sleep(self._chance.uniform(0.5, 12))
        loop.release(life)

    async def _leave(self) -> None:
        self.process.is_leaving = True
        await self.ended()
        self._end(self.process)
        self.begin()
