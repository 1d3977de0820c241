"""Every change that a scripted scenario makes on a disk, cut before and after it; each state must recover.

A scenario is written once and played many times, each time on a disk of its own:

    class Roll(Scenario):
        async def prepare(self, disk): ...    what stands before: no crash comes here
        async def act(self): ...              what is cut; `Crashed` goes through it
        async def check(self, disk, point): ...   opens what is left and asserts; may be called on a whole run too

`changes_of` plays `act` once whole and names its changes; `play` cuts it at one of them. On the simulated disk a
change is cut before it (nothing of it is done), after it (all is done) or in the middle where it is a write; then
either the process alone ends (`kill`: what was written is there) or the power goes (`power`: exactly what was synced is
there, `power, and some`: with a drawn part of the rest). `tests.support.cutting_disk` does it to a real file system.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from barnabas.runtime.disk import Disk
from barnabas.simulation.disk import Crashed, SimulatedDisk

ROOT: Final = "/data"
MOMENTS: Final = {"before": 0.0, "in": 0.5, "after": 1.0}
ENDS: Final = ("kill", "power", "power, and some")


@dataclass(frozen=True)
class Change:
    """The `number`th change of a scenario's `act`: what kind it is and what it touches."""

    number: int
    kind: str
    path: str


@dataclass(frozen=True)
class CrashPoint:
    """Where the crash comes, and what ends with it."""

    change: Change
    moment: str
    end: str

    def __str__(self) -> str:
        return f"{self.end} {self.moment} change {self.change.number}: {self.change.kind} {self.change.path}"


class CutDisk(Disk, Protocol):
    """A disk whose process can end and begin anew."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


class Scenario(ABC):
    """See the module. `root` is an empty durable directory."""

    root = ROOT

    @abstractmethod
    async def prepare(self, disk: CutDisk) -> None:
        """Make what stands before."""

    @abstractmethod
    async def act(self) -> None:
        """What is cut."""

    @abstractmethod
    async def check(self, disk: CutDisk, point: CrashPoint | None) -> None:
        """Open what the crash left and assert what must hold; without a point all of `act` was done."""


def _new_disk(now_ms: Callable[[], int]) -> SimulatedDisk:
    disk = SimulatedDisk(now_ms)
    disk.make_directory(ROOT)
    disk.fsync_directory("/")
    return disk


async def changes_of(scenario: Scenario, now_ms: Callable[[], int] = lambda: 0) -> list[Change]:
    """Play the scenario whole, check it, and name the changes of its `act`."""
    disk = _new_disk(now_ms)
    await scenario.prepare(disk)
    seen: dict[int, tuple[str, str]] = {}
    first = disk.operations

    def note(kind: str, path: str) -> None:
        # Told just before the change; reads tell too, and the change after them overwrites what they said.
        seen[disk.operations - first] = (kind, path)

    disk.on_operation = note
    await scenario.act()
    count = disk.operations - first
    disk.on_operation = None
    disk.kill()
    disk.restart()
    await scenario.check(disk, None)
    return [Change(number, *seen.get(number, ("change", ""))) for number in range(count)]


def points_of(changes: list[Change]) -> Iterator[CrashPoint]:
    """All crash points of these changes."""
    for change in changes:
        moments = MOMENTS if change.kind == "pwrite" else ("before", "after")
        for moment in moments:
            for end in ENDS:
                yield CrashPoint(change, moment, end)


async def play(scenario: Scenario, point: CrashPoint, *, seed: int = 1, now_ms: Callable[[], int] = lambda: 0) -> None:
    """Cut the scenario at one point, bring the machine back and check it. Raises AssertionError with the point."""
    disk = _new_disk(now_ms)
    await scenario.prepare(disk)
    disk.crash_at(point.change.number, _Part(MOMENTS[point.moment]))
    try:
        await scenario.act()
    except Crashed:
        pass
    else:
        raise AssertionError(f"{point}: no crash came")
    if point.end == "power":
        disk.power_cut()
    elif point.end != "kill":
        disk.power_cut(Random(seed))
    disk.restart()
    try:
        await scenario.check(disk, point)
    except AssertionError as error:
        raise AssertionError(f"{point} (seed {seed}): {error}") from error
    except Exception as error:
        raise AssertionError(f"{point} (seed {seed}): does not recover: {error!r}") from error


class _Part(Random):
    """Chooses what part of the change at which the crash comes is done."""

    def __init__(self, part: float) -> None:
        super().__init__(0)
        self._part = part

    def choice(self, _: object) -> float:  # type: ignore[override]
        return self._part

    def random(self) -> float:
        return self._part
