"""Which partition of the target a record goes to. Pure.

Where both topics have as many partitions, each goes to the one of its number, and its batches stay whole. Where they
differ, a key chooses as Kafka's producers choose, so that a key is in one partition; records without a key go to the
partition of their own number modulo how many there are. Either way the records of one partition that get to the same
partition are in the order that they had.
"""

from collections.abc import Callable
from dataclasses import dataclass

Chooser = Callable[[bytes, int], int]
"""(key, partitions) -> partition."""


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """How the partitions of one topic are mapped: so many there, so many here."""

    source_count: int
    target_count: int

    @property
    def is_same(self) -> bool:
        return self.source_count == self.target_count

    @property
    def name(self) -> str:
        """As it is written down."""
        return "same" if self.is_same else "key"

    def fixed(self, partition: int) -> int | None:
        """Where all records of a partition go, whatever their keys; None where that depends on the key."""
        if self.is_same:
            return partition
        return 0 if self.target_count == 1 else None

    def target_of(self, partition: int, key: bytes | None, choose: Chooser) -> int:
        """Where a record goes."""
        fixed = self.fixed(partition)
        if fixed is not None:
            return fixed
        return partition % self.target_count if key is None else choose(key, self.target_count)
