"""Whether a directory's next write may be done on the event loop: while the recent ones were quick.

A write is slow that a disk made wait, or that had much to do. One whose thread had lost its core to others says nothing
of the disk, and the directory's thread, which would have the next ones, needs a core too: so after a slow write on the
loop it is asked of those that follow there whether their thread slept. Where it did not, the CPU that it used counts.

Owned by the event loop; on it at most one write is under way.
"""

from typing import Final

from barnabas.runtime.clock import Clock

SLOW_WRITE_US: Final = 5_000
STALLED_WRITE_US: Final = 20_000
"""A write in the thread that takes so long was most likely held up by the disk, not by others that had the core."""
STALL_US: Final = 5_000_000
"""How long a directory that held up a write in the thread gets none from the loop: it does so again and again."""
LOOKS_CLOSER_US: Final = 60_000_000
"""How long it is asked after a slow write: that costs as much as a small write does."""
_NOT_COUNTED: Final = 0


class WritePace:
    """See the module."""

    __slots__ = (
        "_clock",
        "_cpu_before_us",
        "_looks_closer_until_us",
        "_slept_before",
        "_stalled_until_us",
        "_started_us",
        "slowest_us",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.slowest_us = 0
        """The slowest recent write, fading: one slow write moves about a dozen to the thread."""
        self._stalled_until_us = 0
        self._looks_closer_until_us = 0
        self._started_us = 0
        self._slept_before = _NOT_COUNTED
        self._cpu_before_us = 0

    @property
    def is_quick(self) -> bool:
        """Whether the next write may be done on the loop."""
        # What waits in the thread still is no sign: under load something always does.
        return self.slowest_us <= SLOW_WRITE_US and self._clock.monotonic_us() >= self._stalled_until_us

    def begin(self) -> None:
        """A write on the loop begins."""
        self._started_us = started_us = self._clock.monotonic_us()
        if started_us < self._looks_closer_until_us:
            self._slept_before, self._cpu_before_us = self._clock.thread_use()
        else:
            self._slept_before = _NOT_COUNTED

    def end(self) -> bool:
        """It has ended; whether the next may be done there too. No stall is on: then there was none on the loop."""
        took_us = self._clock.monotonic_us() - self._started_us
        if took_us > SLOW_WRITE_US:
            self._looks_closer_until_us = self._started_us + LOOKS_CLOSER_US
            slept, cpu_us = self._clock.thread_use()
            if slept == self._slept_before != _NOT_COUNTED:
                took_us = min(took_us, cpu_us - self._cpu_before_us)
        self._note(took_us)
        return self.slowest_us <= SLOW_WRITE_US

    def note_in_thread(self, took_us: int) -> None:
        """So long took a write in the directory's thread, by the clock."""
        if took_us > STALLED_WRITE_US:
            self._stalled_until_us = self._clock.monotonic_us() + STALL_US
        self._note(took_us)

    def _note(self, took_us: int) -> None:
        self.slowest_us = max(took_us, self.slowest_us * 9 // 10)
