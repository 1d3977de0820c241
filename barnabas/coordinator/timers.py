"""When each of many keys is due. Pure.

A session's timer is set anew by each heartbeat and hardly ever comes due, so that setting it later costs an entry in a
dictionary: its place in the heap is looked at when that is reached.
"""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count


class Timers:
    """Due times in monotonic milliseconds, at most one for each key."""

    def __init__(self) -> None:
        self._due: dict[Hashable, int] = {}
        self._queued: dict[Hashable, int] = {}
        """The earliest place of a key in the heap."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, due_ms: int | None) -> None:
        """Have `key` due at `due_ms`, whatever it was before; None: never."""
        if due_ms is None:
            self._due.pop(key, None)
            return
        self._due[key] = due_ms
        queued = self._queued.get(key)
        if queued is None or due_ms < queued:
            self._queue(key, due_ms)

    def pop_due(self, now_ms: int) -> Hashable | None:
        """One key that is due, which is forgotten; None when there is none. Earlier ones first."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heappop(heap)
            if self._queued.get(key) != queued_ms:
                continue
            del self._queued[key]
            due_ms = self._due.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due[key]
                return key
            self._queue(key, due_ms)
        return None

    def next_look_ms(self) -> int | None:
        """When to ask `pop_due` again: no key is due before."""
        return self._heap[0][0] if self._due and self._heap else None

    def _queue(self, key: Hashable, due_ms: int) -> None:
        self._queued[key] = due_ms
        heappush(self._heap, (due_ms, next(self._numbers), key))
