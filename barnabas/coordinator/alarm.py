"""Rings when a key of a machine is due."""

import asyncio
from collections.abc import Callable, Hashable

from barnabas.coordinator.timers import Timers
from barnabas.runtime.clock import Clock


class Alarm:
    """Many keys, one timer of the loop. `ring(key, now_ms)` is called once for each due key, earlier ones first."""

    def __init__(self, clock: Clock, ring: Callable[[Hashable, int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock
        self._ring = ring
        self._timers = Timers()
        self._handle: asyncio.TimerHandle | None = None
        self._look_ms = 0

    def set(self, key: Hashable, due_ms: int | None) -> None:
        """Have `key` due at a monotonic time, whatever it was before; None: never."""
        self._timers.set(key, due_ms)
        self._wait()

    def clear(self) -> None:
        """Forget all keys."""
        self._timers = Timers()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wait(self) -> None:
        look_ms = self._timers.next_look_ms()
        if self._handle is not None:
            if look_ms is not None and look_ms >= self._look_ms:
                return
            self._handle.cancel()
            self._handle = None
        if look_ms is not None:
            self._look_ms = look_ms
            delay_s = max(0, look_ms - self._clock.monotonic_ms()) / 1000
            self._handle = self._loop.call_later(delay_s, self._look)

    def _look(self) -> None:
        self._handle = None
        timers = self._timers
        now_ms = self._clock.monotonic_ms()
        # What rings may forget all keys.
        while timers is self._timers and (key := timers.pop_due(now_ms)) is not None:
            self._ring(key, now_ms)
        self._wait()
