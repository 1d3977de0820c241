"""The time port: one place that knows what time it is.

Deadlines and intervals use `monotonic_ms`; what is written into records, files and ZooKeeper uses `wall_ms`,
which may jump in either direction. Nothing else in the product reads a clock.

Time passes for a thread that waits for something, that works, or that has lost its core to others: `thread_use` tells
one from the others.
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

    def thread_use(self) -> tuple[int, int]:
        """How often this thread has slept so far to wait for something, and how much of the CPU it has used in us.

        That is for a device, a peer, or a lock, the interpreter's too. An event loop's thread has slept; 0 is of a
        system that does not count.
        """
        ...


class SystemClock:
    """The clock of the machine."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def thread_use(self) -> tuple[int, int]:
        used = resource.getrusage(resource.RUSAGE_THREAD)
        return used.ru_nvcsw, int((used.ru_utime + used.ru_stime) * 1_000_000)
