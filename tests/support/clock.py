"""A clock that stands still until a test moves it."""


class ManualClock:
    """Wall and monotonic time that move together, but for `jump_wall`; who sees time pass has slept."""

    def __init__(self, wall_ms: int = 1_600_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_us = monotonic_ms * 1000
        self._times_slept = 1
        self._cpu_us = 0

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_us // 1000

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def thread_use(self) -> tuple[int, int]:
        return self._times_slept, self._cpu_us

    def advance(self, ms: int) -> None:
        self._times_slept += 1
        self.lose_core(ms)

    def work(self, ms: int) -> None:
        """Let time pass in which the core was used."""
        self._cpu_us += ms * 1000
        self.lose_core(ms)

    def lose_core(self, ms: int) -> None:
        """Let time pass in which nobody has slept: others had the core."""
        self._wall_ms += ms
        self._monotonic_us += ms * 1000

    def jump_wall(self, ms: int) -> None:
        """Move the wall clock alone, as an operator or NTP does."""
        self._wall_ms += ms
