"""From edges to ranges of offsets, and from ranges to tasks. Pure.

An edge is resolved in two steps: `questions` says what to ask of the leaders (ListOffsets), `resolve_start` and
`resolve_end` what the answers mean.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.pipeline.source.partition_json import show
from barnabas.pipeline.source.subscription import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, Edge, LogEdge
from barnabas.protocol.ids import TopicPartition

NO_RECORD: Final = -1
"""What a leader answers where no record is late enough."""


class EdgeError(ValueError):
    """An edge does not fit the partitions that there are, or no record is late enough for it."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The records of a partition from `start` to `end` (exclusive)."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What a partition has: its first offset and its end (exclusive; the last stable offset for read_committed)."""

    start: int
    end: int


Spans = Mapping[TopicPartition, LogSpan]


def questions(edge: Edge, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """What to ask beside the spans: a time for each partition whose offset hangs on one. Raises EdgeError."""
    wanted = list(partitions)
    match edge:
        case AtTime(timestamp_ms):
            return dict.fromkeys(wanted, timestamp_ms)
        case AtTimes(timestamps_ms):
            _must_name_all(timestamps_ms, wanted, "OffsetsByTimestamp")
            return dict(timestamps_ms)
        case AtOffsets(offsets):
            _must_name_all(offsets, wanted, "Offsets")
            return {}
        case LogEdge():
            return {}


def resolve_start(
    edge: Edge, spans: Spans, by_time: Mapping[TopicPartition, int], *, latest_without_record: bool
) -> dict[TopicPartition, int]:
    """Where to begin in each partition. Raises EdgeError where a time has no record and the strategy is error."""
    if isinstance(edge, AtTime | AtTimes) and not latest_without_record:
        for each, offset in by_time.items():
            if offset == NO_RECORD:
                raise EdgeError(
                    f"{each} has no record at or after the time to start at, {_time_of(edge, each)} ms; set "
                    "startingOffsetsByTimestampStrategy=latest to start at its end, or name an earlier time"
                )
    return _resolve(edge, spans, by_time)


def resolve_end(edge: Edge, spans: Spans, by_time: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Where to end in each partition: at its end where no record is late enough."""
    return _resolve(edge, spans, by_time)


def _resolve(edge: Edge, spans: Spans, by_time: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    match edge:
        case LogEdge.EARLIEST:
            return {each: span.start for each, span in spans.items()}
        case LogEdge.LATEST:
            return {each: span.end for each, span in spans.items()}
        case AtOffsets(offsets):
            ends = {EARLIEST: lambda span: span.start, LATEST: lambda span: span.end}
            return {each: ends[offset](spans[each]) if offset in ends else offset for each, offset in offsets.items()}
        case AtTime() | AtTimes():
            return {each: span.end if by_time[each] == NO_RECORD else by_time[each] for each, span in spans.items()}


def _must_name_all(named: Mapping[TopicPartition, int], wanted: list[TopicPartition], option: str) -> None:
    if named.keys() != set(wanted):
        missing = sorted(set(wanted) - named.keys())
        unknown = sorted(named.keys() - set(wanted))
        told = [f"missing: {', '.join(map(str, missing))}"] if missing else []
        told += [f"not read: {', '.join(map(str, unknown))}"] if unknown else []
        raise EdgeError(
            f"the JSON of starting{option} or ending{option} must name exactly the partitions that are read "
            f"({'; '.join(told)}); it is {show(named)}; -2 is earliest, -1 latest"
        )


def _time_of(edge: AtTime | AtTimes, each: TopicPartition) -> int:
    return edge.timestamp_ms if isinstance(edge, AtTime) else edge.timestamps_ms[each]


def limited_ends(
    begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Ends for about `limit` offsets in all, shared in proportion to what each partition has left.

    A partition that has something gets at least one offset, so that none starves: with more such partitions than
    `limit` it is exceeded by their number at most, as in Spark's source.
    """
    sizes = {each: end - begins[each] for each, end in ends.items()}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= limit:
        return dict(ends)
    return {
        each: begins[each] + max(1, limit * size // total) if size > 0 else ends[each] for each, size in sizes.items()
    }


def split_ranges(
    ranges: Iterable[TopicRange],
    *,
    min_partitions: int | None,
    max_records: int | None,
    segment_starts: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> list[TopicRange]:
    """Tasks that read `ranges`: each of `max_records` offsets at most, and `min_partitions` tasks if offsets suffice.

    The largest parts are halved, thirded and so on first; small ranges stay whole. Without `max_records` a cut moves
    to a segment's start by up to half a part, so that no two tasks read the same file, nor the batch at the cut twice.
    """
    starts = {} if segment_starts is None or max_records is not None else segment_starts
    filled = [each for each in ranges if each.size > 0]
    parts = [1 if max_records is None else -(-each.size // max_records) for each in filled]
    wanted = min(min_partitions or 0, sum(each.size for each in filled))
    heap = [(-each.size / parts[at], at) for at, each in enumerate(filled)]
    heapq.heapify(heap)
    for _ in range(wanted - sum(parts)):
        _, at = heapq.heappop(heap)
        parts[at] += 1
        heapq.heappush(heap, (-filled[at].size / parts[at], at))
    return [
        piece
        for each, count in zip(filled, parts, strict=True)
        for piece in _divide(each, count, starts.get(each.topic_partition, ()))
    ]


def _divide(whole: TopicRange, count: int, starts: Sequence[int]) -> list[TopicRange]:
    """`starts` rise."""
    reach = whole.size // count // 2
    edges = [whole.start]
    for at in range(1, count):
        even = whole.start + whole.size * at // count
        near = [(abs(start - even), start) for start in _around(starts, even) if edges[-1] < start < whole.end]
        distance, start = min(near, default=(0, even))
        edges.append(start if distance <= reach else even)
    edges.append(whole.end)
    return [TopicRange(whole.topic_partition, *edges[at : at + 2]) for at in range(count)]


def _around(numbers: Sequence[int], number: int) -> Sequence[int]:
    """The last one up to `number` and the first one from it on."""
    at = bisect_left(numbers, number)
    return numbers[max(0, at - 1) : at + 1]


@dataclass(slots=True)
class TriggerDelay:
    """Waits for `min_offsets` before a batch is made, but no longer than `longest_ms` after the one before."""

    min_offsets: int
    longest_ms: int
    last_ms: int | None = None

    def is_due(self, waiting: int, now_ms: int) -> bool:
        """Whether a batch of `waiting` offsets is made now; the first one always is. Remembers when one was."""
        is_late = self.last_ms is None or now_ms - self.last_ms >= self.longest_ms
        if not is_late and waiting < self.min_offsets:
            return False
        self.last_ms = now_ms
        return True
