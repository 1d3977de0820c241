"""The indexes of a segment that grows, in memory, and what a cut makes of it."""

from dataclasses import dataclass, field

from barnabas.storage.index import OffsetIndex, TimeIndex
from barnabas.storage.txn_index import AbortedTxn


@dataclass(slots=True)
class GrowingIndexes:
    """The indexes of a segment that is not closed yet."""

    offsets: OffsetIndex = field(default_factory=OffsetIndex)
    times: TimeIndex = field(default_factory=TimeIndex)
    aborted: list[AbortedTxn] = field(default_factory=list)
    bytes_since_entry: int = 0


@dataclass(slots=True, frozen=True)
class SegmentCut:
    """How a segment is cut: it ends at `offset`, byte `position`. `indexes` are those of the whole segment.

    `max_timestamp` is the greatest of what stays, -1 for none, and `offset_of_max_timestamp` of the batch that has it.
    """

    offset: int
    position: int
    indexes: GrowingIndexes
    max_timestamp: int
    offset_of_max_timestamp: int
