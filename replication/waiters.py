"""Who waits for which offset of a partition.

A waiter is any object; it is handed back when the offset it waits for is reached, or when the leader epoch under
which it began is over. Pure: the partition completes what it is given.
"""

from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

NOBODY_WAITS: Final = 1 << 63
"""Above every offset."""

W = TypeVar("W")


class OffsetWaiters(Generic[W]):
    """Waiters by the end offset that must be reached, smallest first."""

    __slots__ = ("_heap", "_next", "next_offset")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, W]] = []
        self._next = 0
        self.next_offset = NOBODY_WAITS
        """The smallest end offset that is waited for."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end_offset: int, waiter: W) -> None:
        """`waiter` is done once everything below `end_offset` is."""
        heappush(self._heap, (end_offset, self._next, waiter))
        self._next += 1
        self.next_offset = self._heap[0][0]

    def pop_reached(self, offset: int) -> list[W]:
        """Those whose offset is at or below `offset`, in the order of their offsets."""
        heap = self._heap
        reached: list[W] = []
        while heap and heap[0][0] <= offset:
            reached.append(heappop(heap)[2])
        self.next_offset = heap[0][0] if heap else NOBODY_WAITS
        return reached

    def pop_all(self) -> list[W]:
        """Everyone: the leader epoch is over."""
        waiters = [waiter for _, _, waiter in sorted(self._heap, key=lambda entry: entry[:2])]
        self._heap.clear()
        self.next_offset = NOBODY_WAITS
        return waiters
