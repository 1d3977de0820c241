"""The time port: one place that knows what time it is.

Deadlines and intervals use `monotonic_ms`; what is written into records, files and ZooKeeper uses `wall_ms`,
which may jump in either direction. Nothing else in the product reads a clock.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Time in whole milliseconds."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def monotonic_us(self) -> int:
        """Microseconds since the same moment, for measuring."""
        ...


class SystemClock:
    """The clock of the machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000
