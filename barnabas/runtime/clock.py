"""The time port: one place that knows what time it is.

Deadlines and intervals use `monotonic_ms`; what is written into records, files and ZooKeeper uses `wall_ms`,
which may jump in either direction. Nothing else in the product reads a clock.

Time passes for a thread that waits for something, and for one that has lost its core to others: `times_slept` tells
one from the other.
"""

import resource
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

    def times_slept(self) -> int:
        """How often this thread has given up its core so far to wait for something: a device, a lock, a peer."""
        ...


class SystemClock:
    """The clock of the machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def times_slept(self) -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
