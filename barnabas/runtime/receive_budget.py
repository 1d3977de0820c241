"""The bound on the memory that frames under way may take, over all connections of a broker.

When it is spent, connections that need more stop reading until others are done. So that frames which nobody
finishes cannot block everyone, one connection at a time, the longest waiting, may go beyond the bound; the sweep of
the network closes it, or any other that holds memory, when it makes no progress while others wait.
"""

from collections import deque
from typing import Protocol


class Receiver(Protocol):
    """A connection, as the budget sees it."""

    def pause_for_budget(self) -> None: ...

    def resume_with_budget(self) -> None: ...


class ReceiveBudget:
    """Counts bytes of frame buffers. One loop, no locks."""

    __slots__ = ("_beyond", "_granted", "_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Receiver] = deque()
        self._beyond: Receiver | None = None
        self._granted: Receiver | None = None

    @property
    def is_contended(self) -> bool:
        """Whether some connection waits for memory."""
        return bool(self._waiting)

    def take(self, receiver: Receiver, size: int) -> bool:
        """Count `size` more bytes for `receiver`; False when it has to wait, and is called when it may go on."""
        if self.used_bytes + size <= self.limit_bytes or receiver is self._granted or receiver is self._beyond:
            self.used_bytes += size
            return True
        if self._beyond is None:
            self._beyond = receiver
            self.used_bytes += size
            return True
        if receiver not in self._waiting:
            self._waiting.append(receiver)
        return False

    def hold(self, size: int) -> None:
        """Count bytes that have arrived and are in memory in any case."""
        self.used_bytes += size

    def give(self, size: int) -> None:
        """Bytes were let go."""
        self.used_bytes -= size
        assert self.used_bytes >= 0
        self._wake()

    def complete(self, receiver: Receiver) -> None:
        """The receiver's frame is whole: it no longer needs to be ahead of others."""
        if self._beyond is receiver:
            self._beyond = None
            self._wake()

    def forget(self, receiver: Receiver) -> None:
        """The connection ended."""
        if receiver in self._waiting:
            self._waiting.remove(receiver)
        self.complete(receiver)

    def _wake(self) -> None:
        while self._waiting and (self.used_bytes < self.limit_bytes or self._beyond is None):
            receiver = self._granted = self._waiting.popleft()
            if self.used_bytes >= self.limit_bytes:
                self._beyond = receiver
            receiver.resume_with_budget()
            self._granted = None
