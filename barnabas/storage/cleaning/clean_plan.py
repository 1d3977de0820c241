"""What of which log is cleaned next: ranges, dirty ratios, the filthiest log, groups of segments, the delete horizon.

A log is, in order: a *clean* part below its first dirty offset (the checkpoint), which an earlier cleaning has seen; a
*dirty* part up to the uncleanable offset; and what no cleaning touches. The uncleanable offset is the beginning of a
segment: of the active one, of the one that holds the first unstable offset, or of the first dirty one with a record
that is younger than min.compaction.lag.ms. A cleaning may end before it, where its offset map is full. What is not
committed yet is not touched either, which Kafka 2.7 does not look at: for the first unstable offset the driver gives
the last stable one, which is not above the high watermark.

A segment that is clean in part counts as dirty.

A group of segments becomes one. It may hold as many bytes as a segment, of log and of each index, and its offsets must
fit relative ones.

End offsets are exclusive. Pure: the driver gathers the facts and acts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from barnabas.storage.log_config import MAX_INT32

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class SegmentFacts:
    """What planning asks of a segment. `first_timestamp_ms` is that of its first batch, None where it is not known."""

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    first_timestamp_ms: int | None


@dataclass(slots=True, frozen=True)
class LogFacts:
    """What planning asks of a log. `segments` are all of its segments, oldest first; the last one is active.

    `checkpoint` is where the last cleaning ended, None for a log that was never cleaned.
    """

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    log_end_offset: int
    first_unstable_offset: int | None
    checkpoint: int | None
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


@dataclass(slots=True, frozen=True)
class CleanRange:
    """The dirty part of a log that may be cleaned, and how much that would be."""

    first_dirty_offset: int
    uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """By how much the oldest dirty record is older than max.compaction.lag.ms allows; above 0 it must be cleaned."""
    checkpoint_was_reset: bool
    """The checkpoint lay outside of the log, so that all of the log counts as dirty."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """The part of the bytes that is dirty, 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(slots=True, frozen=True)
class SourceSegment:
    """A closed segment that is to be cleaned: where its offsets end, its sizes, when its file of batches changed."""

    base_offset: int
    next_base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    modified_ms: int
    has_txn_index: bool


def decide_range(facts: LogFacts, *, now_ms: int) -> CleanRange:
    """Which part of the log is dirty and may be cleaned."""
    first_dirty, was_reset = _first_dirty_offset(facts)
    closed, active = facts.segments[:-1], facts.segments[-1]
    ends = [segment.base_offset for segment in facts.segments[1:]]
    dirty = [segment for segment, end in zip(closed, ends, strict=True) if end > first_dirty]

    bound = active.base_offset
    if facts.first_unstable_offset is not None:
        bound = min(bound, facts.first_unstable_offset)
    if facts.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - facts.min_compaction_lag_ms
        for segment in dirty:
            if segment.largest_timestamp_ms > youngest_ms:
                bound = min(bound, segment.base_offset)
                break
    # The segment that holds the bound stays whole.
    holding = [segment.base_offset for segment in facts.segments if segment.base_offset <= bound]
    uncleanable = max(holding[-1] if holding else first_dirty, first_dirty)

    return CleanRange(
        first_dirty_offset=first_dirty,
        uncleanable_offset=uncleanable,
        clean_bytes=sum(s.size_bytes for s, end in zip(closed, ends, strict=True) if end <= first_dirty),
        cleanable_bytes=sum(
            s.size_bytes for s, end in zip(closed, ends, strict=True) if first_dirty < end <= uncleanable
        ),
        compaction_delay_ms=_compaction_delay_ms(dirty, now_ms - max(facts.max_compaction_lag_ms, 0)),
        checkpoint_was_reset=was_reset,
    )


def _first_dirty_offset(facts: LogFacts) -> tuple[int, bool]:
    if facts.checkpoint is None:
        return facts.log_start_offset, False
    if not facts.log_start_offset <= facts.checkpoint <= facts.log_end_offset:
        return facts.log_start_offset, True
    return facts.checkpoint, False


def _compaction_delay_ms(dirty: Sequence[SegmentFacts], must_be_clean_ms: int) -> int:
    times = [s.first_timestamp_ms for s in dirty if s.first_timestamp_ms is not None and s.first_timestamp_ms > 0]
    return max(0, must_be_clean_ms - min(times)) if times else 0


def is_due(cleanable: CleanRange, *, min_cleanable_dirty_ratio: float) -> bool:
    """Whether the log is dirty enough to be cleaned, or must be whatever its ratio (KIP-354)."""
    if cleanable.cleanable_bytes == 0:
        return False
    return cleanable.compaction_delay_ms > 0 or cleanable.dirty_ratio > min_cleanable_dirty_ratio


def decide_filthiest(due: Iterable[tuple[T, CleanRange]]) -> T | None:
    """The log with the highest dirty ratio of those that are due; of equals the first."""
    filthiest = max(due, key=lambda candidate: candidate[1].dirty_ratio, default=None)
    return None if filthiest is None else filthiest[0]


def delete_horizon_ms(
    sources: Sequence[SourceSegment], *, first_dirty_offset: int, delete_retention_ms: int
) -> int | None:
    """Up to which time of its last change a clean segment loses its tombstones and markers; None: none does.

    They are kept for delete.retention.ms from when they became part of the clean part, for which the age of its last
    segment stands.
    """
    clean = [source for source in sources if source.base_offset < first_dirty_offset]
    return clean[-1].modified_ms - delete_retention_ms if clean else None


def keeps_deletes(source: SourceSegment, *, first_dirty_offset: int, horizon_ms: int | None) -> bool:
    """Whether the tombstones and markers of a segment stay. Those of a segment that is not clean yet always do."""
    return horizon_ms is None or source.next_base_offset > first_dirty_offset or source.modified_ms > horizon_ms


def decide_groups(
    sources: Sequence[SourceSegment], *, segment_bytes: int, segment_index_bytes: int
) -> list[list[SourceSegment]]:
    """Consecutive segments that become one each."""
    groups: list[list[SourceSegment]] = []
    log_bytes = index_bytes = time_index_bytes = 0
    for source in sources:
        joins = (
            groups
            and log_bytes + source.size_bytes <= segment_bytes
            and index_bytes + source.index_bytes <= segment_index_bytes
            and time_index_bytes + source.time_index_bytes <= segment_index_bytes
            # An empty segment holds no offset that could be too far away.
            and (source.size_bytes == 0 or source.next_base_offset - 1 - groups[-1][0].base_offset <= MAX_INT32)
        )
        if joins:
            groups[-1].append(source)
        else:
            groups.append([source])
            log_bytes = index_bytes = time_index_bytes = 0
        log_bytes += source.size_bytes
        index_bytes += source.index_bytes
        time_index_bytes += source.time_index_bytes
    return groups
