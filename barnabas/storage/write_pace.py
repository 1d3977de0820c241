"""Whether a directory's next write may be done on the event loop: while the recent ones were quick.

A write is slow that a disk made wait. One whose thread had lost its core to others says nothing of the disk, and what
it would be given to, the directory's thread, needs a core too: so after a slow write it is asked of the next ones
whether their thread slept.

Owned by the event loop; on it at most one write is under way.
"""

from typing import Final

from barnabas.runtime.clock import Clock

SLOW_WRITE_US: Final = 5_000
STALLED_WRITE_US: Final = 20_000
"""A write in the thread that takes so long was held up by the disk, not by others that had the core."""
STALL_US: Final = 5_000_000
"""How long a directory that held up a write in the thread gets none from the loop: it does so again and again."""
LOOKS_CLOSER_US: Final = 60_000_000
"""How long it is asked after a slow write: that costs as much as a small write does."""
_NOT_COUNTED: Final = -1


class WritePace:
    """See the module."""

    __slots__ = ("_clock", "_looks_closer_until_us", "_slept_before", "_stalled_until_us", "slowest_us")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.slowest_us = 0
        """The slowest recent write, fading: one slow write moves about a dozen to the thread."""
        self._stalled_until_us = 0
        self._looks_closer_until_us = 0
        self._slept_before = _NOT_COUNTED

    @property
    def is_quick(self) -> bool:
        """Whether the next write may be done on the loop."""
        # What waits in the thread still is no sign: under load something always does.
        return self.slowest_us <= SLOW_WRITE_US and self._clock.monotonic_us() >= self._stalled_until_us

    def begin(self) -> int:
        """A write on the loop begins: what `end` is to be given."""
        started_us = self._clock.monotonic_us()
        looks_closer = started_us < self._looks_closer_until_us
        self._slept_before = self._clock.times_slept() if looks_closer else _NOT_COUNTED
        return started_us

    def end(self, started_us: int) -> bool:
        """It has ended; whether the next may be done there too."""
        took_us = self._clock.monotonic_us() - started_us
        if took_us > SLOW_WRITE_US:
            self._looks_closer_until_us = started_us + LOOKS_CLOSER_US
            if self._slept_before == self._clock.times_slept():
                took_us = 0
        self._note(took_us)
        return self.slowest_us <= SLOW_WRITE_US

    def note_in_thread(self, took_us: int) -> None:
        """So long took a write in the directory's thread."""
        if took_us > STALLED_WRITE_US:
            self._stalled_until_us = self._clock.monotonic_us() + STALL_US
        self._note(took_us)

    def _note(self, took_us: int) -> None:
        self.slowest_us = max(took_us, self.slowest_us * 9 // 10)
