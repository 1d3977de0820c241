"""How fast throttled replicas are copied (KIP-73): bytes a second, measured over a few samples of time.

The rate is what was counted in the samples that are not too old yet, over the time since the oldest of them began, at
least one sample's. While it is above the bound whoever copies leaves throttled replicas out that lag; those in sync go
on. One answer may carry the rate above the bound: what follows waits the longer. Without a bound nothing is held.

Pure.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

UNBOUNDED: Final = None
ALL_REPLICAS: Final = "*"


class ReplicationQuota:
    """One bound, and what was copied lately."""

    __slots__ = ("_counted", "_sample_ms", "_samples", "bytes_per_second", "sample_count")

    def __init__(self, *, sample_count: int = 11, sample_ms: int = 1_000) -> None:
        self.sample_count = sample_count
        self._sample_ms = sample_ms
        self.bytes_per_second: int | None = UNBOUNDED
        self._samples: deque[list[int]] = deque()
        self._counted = 0

    def record(self, size_bytes: int, now_ms: int) -> None:
        """So much was copied of throttled replicas."""
        self._forget_old(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._sample_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size_bytes
        self._counted += size_bytes

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether throttled replicas that lag have to wait."""
        bound = self.bytes_per_second
        if bound is None:
            return False
        self._forget_old(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._sample_ms)
        return self._counted * 1_000 > bound * elapsed_ms

    def _forget_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self.sample_count * self._sample_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._counted -= self._samples.popleft()[1]


@dataclass(slots=True)
class ReplicationQuotas:
    """Those of one broker: as a leader, as a follower, and for moves between its log directories."""

    leader: ReplicationQuota = field(default_factory=ReplicationQuota)
    follower: ReplicationQuota = field(default_factory=ReplicationQuota)
    moves: ReplicationQuota = field(default_factory=ReplicationQuota)


def names_replica(throttled: Iterable[str], *, partition: int, broker_id: int) -> bool:
    """Whether a list of throttled replicas, `partition:broker` each or `*`, has this one."""
    wanted = f"{partition}:{broker_id}"
    return any(entry.strip() in (ALL_REPLICAS, wanted) for entry in throttled)
