"""A clock that moves only when a test says so."""


class ManualClock:
    """Implements `barnabas.runtime.clock.Clock`. Wall and monotonic time move together unless the wall is set."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 1_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def monotonic_us(self) -> int:
        return self._monotonic_ms * 1000

    def advance(self, duration_ms: int) -> None:
        """Let time pass on both clocks."""
        assert duration_ms >= 0
        self._wall_ms += duration_ms
        self._monotonic_ms += duration_ms

    def set_wall(self, wall_ms: int) -> None:
        """Jump, as an operator or NTP may make a wall clock jump."""
        self._wall_ms = wall_ms
