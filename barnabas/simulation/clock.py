"""The clock of a simulated process: the loop's time, and a wall clock that drifts and jumps.

The monotonic clock of each process starts somewhere else, so that nobody can compare two of them.
"""

from barnabas.simulation.loop import Life, SimulationLoop

EPOCH_MS = 1_600_000_000_000


class SimulatedClock:
    """`wall_offset_ms` and `wall_drift` (seconds a second) are the machine's, and change as faults want it."""

    def __init__(self, loop: SimulationLoop, life: Life, *, started_ms: int, wall: "WallClock") -> None:
        self._loop = loop
        self._life = life
        self._started_us = started_ms * 1000
        self._wall = wall

    def _now_s(self) -> float:
        return max(self._loop.now_s, self._life.busy_until_s)

    def wall_ms(self) -> int:
        return self._wall.at_ms(self._now_s())

    def monotonic_ms(self) -> int:
        return self.monotonic_us() // 1000

    def monotonic_us(self) -> int:
        return self._started_us + int(self._now_s() * 1_000_000)

    def thread_use(self) -> tuple[int, int]:
        """A process here never loses its core: time that passes for it is time in which it waits."""
        return self.monotonic_us(), 0


class WallClock:
    """What a machine's clock shows."""

    def __init__(self, *, offset_ms: int = 0, drift: float = 0.0) -> None:
        self.offset_ms = offset_ms
        self.drift = drift

    def at_ms(self, now_s: float) -> int:
        return EPOCH_MS + self.offset_ms + int(now_s * 1000 * (1 + self.drift))
