"""What one task reads of a segment, and how segments are cut into such parts at entries of their offset index.

Parts of a segment meet at one position that both take from the same entry, so together they hold every byte: an index
that is wrong makes a part that cannot be read, and hides nothing. Where records from a time on are asked for, a closed
segment's time index says where they begin, as it does when a broker is asked for that time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from struct import Struct
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
        first = 0 if is_last or pushed.since_ms is None else _first_position(disk, segment, pushed.since_ms)
        if first == segment.size_bytes:
            continue
        for position, end_position in _cut(disk, segment, first, options.split_bytes):
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


def _first_position(disk: Disk, segment: SegmentFile, since_ms: int) -> int:
    """Up to where a closed segment's indexes say that no record is so late; 0 where they do not say."""
    with (
        _opened(disk, segment, TIME_INDEX_SUFFIX, TIME_ENTRY) as times,
        _opened(disk, segment, INDEX_SUFFIX, OFFSET_ENTRY) as offsets,
    ):
        try:
            if times is None or (latest := times.last) is None:
                return 0
            if latest[0] < since_ms:
                return segment.size_bytes
            # Up to an entry's offset no record is later than its time.
            older = times.last_at_most(since_ms - 1)
            entry = None if older is None or offsets is None else offsets.last_at_most(older[1])
        except CorruptIndex:
            return 0
    return entry[1] if entry is not None and 0 <= entry[1] < segment.size_bytes else 0


def _cut(disk: Disk, segment: SegmentFile, position: int, split_bytes: int) -> Iterator[tuple[int, int]]:
    """The positions of parts of about that size, from this position on."""
    size = segment.size_bytes
    if size - position > split_bytes:
        with _opened(disk, segment, INDEX_SUFFIX, OFFSET_ENTRY) as index:
            try:
                while index is not None and (entry := index.first_at_least(position + split_bytes)) is not None:
                    if not position < entry[1] < size:
                        break
                    yield position, entry[1]
                    position = entry[1]
            except CorruptIndex:
                pass  # the rest is one part
    yield position, size


@contextmanager
def _opened(disk: Disk, segment: SegmentFile, suffix: str, entry: Struct) -> Iterator[StoredIndex | None]:
    """An index of a segment, None where it has none."""
    path = segment.path.removesuffix(LOG_SUFFIX) + suffix
    if not disk.exists(path):
        yield None
        return
    index = StoredIndex(disk.open(path, writable=False), entry)
    try:
        yield index
    finally:
        index.close()
