"""Which of a log's oldest segments may go (KIP-107 for the start offset).

A segment goes only when everything before the high watermark's segment allows it: oldest first, up to the first that
must stay, never one that reaches to the high watermark or over it. A log keeps an active segment: where all may go, a
new one is rolled first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from barnabas.storage.log_config import LogConfig


class DeletionReason(StrEnum):
    """Why a segment goes; the text stands in the log line."""

    RETENTION_TIME = "retention.ms"
    RETENTION_SIZE = "retention.bytes"
    START_OFFSET = "log start offset"


@dataclass(slots=True, frozen=True)
class SegmentFacts:
    """What retention asks of a segment. `next_base_offset` is None for the active one."""

    base_offset: int
    next_base_offset: int | None
    size_bytes: int
    largest_timestamp_ms: int


@dataclass(slots=True, frozen=True)
class Deletion:
    """The segment at this place among those that were given goes, for this reason."""

    base_offset: int
    reason: DeletionReason


def decide_retention(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    log_end_offset: int,
) -> list[Deletion]:
    """The segments to delete, a prefix of `segments` (which are in order). Time first, then size, then start offset."""
    deletions: list[Deletion] = []

    def take_while(reason: DeletionReason, may_go: Callable[[SegmentFacts], bool]) -> None:
        for segment in segments[len(deletions) :]:
            end = segment.next_base_offset if segment.next_base_offset is not None else log_end_offset
            is_empty_active = segment.next_base_offset is None and segment.size_bytes == 0
            if is_empty_active or high_watermark < end or not may_go(segment):
                return
            deletions.append(Deletion(segment.base_offset, reason))

    if config.delete and config.retention_ms >= 0:
        take_while(
            DeletionReason.RETENTION_TIME, lambda segment: now_ms - segment.largest_timestamp_ms > config.retention_ms
        )
    if config.delete and config.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[len(deletions) :]) - config.retention_bytes

        def fits_excess(segment: SegmentFacts) -> bool:
            nonlocal excess
            excess -= segment.size_bytes
            return excess >= 0

        take_while(DeletionReason.RETENTION_SIZE, fits_excess)
    take_while(
        DeletionReason.START_OFFSET,
        lambda segment: segment.next_base_offset is not None and segment.next_base_offset <= log_start_offset,
    )
    return deletions
