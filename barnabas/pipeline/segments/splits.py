"""What one task reads of a segment, and how segments are cut into such parts at entries of their offset index.

Parts of a segment meet at one position that both take from the same entry, so together they hold every byte: an index
that is wrong makes a part that cannot be read, and hides nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.client.fetched_records import AbortedRange
from barnabas.pipeline.segments.log_copies import LogCopy, LogEndsEarly, SegmentFile, UnreadableLogs
from barnabas.pipeline.segments.options import SegmentOptions
from barnabas.pipeline.segments.stability import AbortedSpan, Stability, find_stability
from barnabas.pipeline.source.filters import Pushed
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, StoredIndex

NO_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """The bytes `[position, end_position)` of a segment and the offsets `[start, end)` that are wanted of them.

    `expected_end` is the offset to which the last part of a log must reach, None elsewhere. `last` is the part with
    which a log ends, where a tail may be torn.
    """

    topic_partition: TopicPartition
    path: str
    base_offset: int
    position: int
    end_position: int
    start: int
    end: int
    aborted: tuple[AbortedRange, ...] = ()
    last: bool = False
    expected_end: int | None = None


def plan_splits(disk: Disk, logs: Sequence[LogCopy], options: SegmentOptions, pushed: Pushed) -> list[SegmentSplit]:
    """The parts to read of these logs. Raises UnreadableLogs and OSError."""
    splits: list[SegmentSplit] = []
    for copy in logs:
        if pushed.wants(copy.topic_partition):
            splits += _plan_log(disk, copy, options, pushed)
    return splits


def _plan_log(disk: Disk, copy: LogCopy, options: SegmentOptions, pushed: Pushed) -> Iterator[SegmentSplit]:
    readable_end = _readable_end(copy, options)
    end, stability = readable_end, None
    if options.read_committed:
        stability = find_stability(disk, copy, readable_end, to_the_end_of_the_log=options.beyond_high_watermark)
        end = stability.end
    start = copy.log_start_offset
    if pushed.least_offset is not None:
        start = max(start, pushed.least_offset)
    if pushed.end_offset is not None:
        end = min(end, pushed.end_offset)
    wanted = [
        (segment, at + 1 == len(copy.segments))
        for at, segment in enumerate(copy.segments)
        if segment.base_offset < end and (at + 1 == len(copy.segments) or copy.segments[at + 1].base_offset > start)
    ]
    expected_end = _expected_end(readable_end, end, options)
    if not copy.segments and expected_end:
        raise LogEndsEarly(copy.topic_partition, end=0, expected_end=expected_end)
    for segment, is_last in wanted:
        if not segment.size_bytes:
            if is_last and expected_end is not None and segment.base_offset < expected_end:
                raise LogEndsEarly(copy.topic_partition, end=segment.base_offset, expected_end=expected_end)
            continue
        if not is_last and pushed.since_ms is not None and _is_older(disk, segment, pushed.since_ms):
            continue
        for position, end_position in _cut(disk, segment, options.split_bytes):
            at_the_end = is_last and end_position == segment.size_bytes
            yield SegmentSplit(
                copy.topic_partition,
                segment.path,
                segment.base_offset,
                position,
                end_position,
                start,
                end,
                _aborted(stability, segment.base_offset),
                last=at_the_end,
                expected_end=expected_end if at_the_end else None,
            )


def _readable_end(copy: LogCopy, options: SegmentOptions) -> int:
    if options.beyond_high_watermark:
        return NO_END
    if copy.high_watermark is not None:
        return copy.high_watermark
    if not any(segment.size_bytes for segment in copy.segments):
        return 0
    raise UnreadableLogs(
        f"no replication-offset-checkpoint says how much of {copy.directory} was replicated; copy it with the log, or "
        "set beyondHighWatermark to true to read all there is"
    )


def _expected_end(readable_end: int, end: int, options: SegmentOptions) -> int | None:
    if readable_end == NO_END or not options.fail_on_data_loss:
        return None
    return min(readable_end, end)


def _aborted(stability: Stability | None, base_offset: int) -> tuple[AbortedRange, ...]:
    """The aborted transactions that may have records at or after the segment's first."""
    if stability is None:
        return ()
    spans: list[AbortedSpan] = [each for each in stability.aborted if each.last_offset >= base_offset]
    return tuple(AbortedRange(each.producer_id, each.first_offset) for each in spans)


def _is_older(disk: Disk, segment: SegmentFile, since_ms: int) -> bool:
    """Whether a closed segment's time index says that no record of it is so late."""
    path = segment.path.removesuffix(LOG_SUFFIX) + TIME_INDEX_SUFFIX
    if not disk.exists(path):
        return False
    index = StoredIndex(disk.open(path, writable=False), TIME_ENTRY)
    try:
        last = index.last
    except CorruptIndex:
        return False
    finally:
        index.close()
    return last is not None and last[0] < since_ms


def _cut(disk: Disk, segment: SegmentFile, split_bytes: int) -> Iterator[tuple[int, int]]:
    """The positions of parts of about that size."""
    position, size = 0, segment.size_bytes
    path = segment.path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
    if size > split_bytes and disk.exists(path):
        index = StoredIndex(disk.open(path, writable=False), OFFSET_ENTRY)
        try:
            while (entry := index.first_at_least(position + split_bytes)) is not None:
                if not position < entry[1] < size:
                    break
                yield position, entry[1]
                position = entry[1]
        except CorruptIndex:
            pass  # the rest is one part
        finally:
            index.close()
    yield position, size
