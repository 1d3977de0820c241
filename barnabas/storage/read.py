"""Reading a log: by offset for Fetch, by timestamp for ListOffsets, and the aborted transactions of a range (KIP-98).

A read hands out a slice of a segment's file, not bytes. It looks at the log's end once and at the caller's upper bound
once, so that an append meanwhile cannot move the end of what it hands out (KAFKA-9835). A slice never spans segments.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.protocol.batch import CODEC_MASK, CURRENT_MAGIC, HEADER_BYTES, BatchHeader, CorruptBatch
from barnabas.protocol.ids import NO_LEADER_EPOCH
from barnabas.protocol.message_set import LEAST_ENTRY_BYTES, find_offset_shift, iterate_inner
from barnabas.protocol.record_search import search_by_age
from barnabas.runtime.files import FileSlice
from barnabas.storage.file_names import LOG_SUFFIX
from barnabas.storage.index import CorruptIndex
from barnabas.storage.scan import CorruptSegment, iterate_file_headers
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTxn, search_aborted

if TYPE_CHECKING:
    from barnabas.storage.log import Log


class TimestampsUnknown(Exception):
    """The topic's message format has no timestamps to search for."""


class OffsetOutOfRange(Exception):
    """The offset is below the log's start or above its end."""

    def __init__(self, offset: int, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in {log_start_offset} to {log_end_offset}")
        self.offset = offset


@dataclass(slots=True, init=False)
class LogRead:
    """What a read found. Who takes the slice releases it.

    `slice` is None where there is nothing below the upper bound. Its last batch may be cut by `max_bytes`; with
    `first_batch_incomplete` even its first is.
    """

    offset: int
    slice: FileSlice | None
    first_batch_incomplete: bool
    segment_base_offset: int
    position: int

    # Written out: compiled, what dataclasses would make of the fields is interpreted still.
    def __init__(
        self,
        offset: int,
        slice: FileSlice | None,  # noqa: A002 - the field's name
        first_batch_incomplete: bool,
        segment_base_offset: int,
        position: int,
    ) -> None:
        self.offset = offset
        self.slice = slice
        self.first_batch_incomplete = first_batch_incomplete
        self.segment_base_offset = segment_base_offset
        self.position = position

    def __len__(self) -> int:
        return 0 if self.slice is None else self.slice.size


@dataclass(slots=True, frozen=True)
class TimestampedOffset:
    """A record by its offset, with its timestamp and the leader epoch it was written in (-1: not known)."""

    offset: int
    timestamp: int
    leader_epoch: int


_ANY_AGE: Final = -(1 << 63)

TimestampSearch: TypeAlias = Generator[None, None, TimestampedOffset | None]


def read_log(log: "Log", offset: int, *, max_bytes: int, upper_bound_offset: int, min_one_batch: bool) -> LogRead:
    """The batches from the one that holds `offset` to the last that ends below `upper_bound_offset`.

    At most `max_bytes`, but with `min_one_batch` at least the first whole. Raises OffsetOutOfRange, CorruptSegment and
    OSError.
    """
    end_offset = log.log_end_offset
    if not log.log_start_offset <= offset <= end_offset:
        raise OffsetOutOfRange(offset, log_start_offset=log.log_start_offset, log_end_offset=end_offset)
    upper = min(upper_bound_offset, end_offset)
    segments = log.segments
    place = segments.place_of(offset)
    if offset >= upper:
        segment = segments[max(place, 0)]
        return LogRead(offset, None, False, segment.base_offset, segment.size_bytes)
    damaged = log.damage.first_after(offset) if log.damage else None
    if damaged is not None and damaged.start_offset <= offset:
        raise CorruptSegment(f"{log.topic_partition}: damaged: {damaged}")
    for segment_place in range(max(place, 0), len(segments)):
        segment = segments[segment_place]
        batch = _find(log, segment, offset)
        if batch is None:
            continue
        position, first_bytes = batch
        if damaged is not None and damaged.start_offset < upper and damaged.segment_base_offset == segment.base_offset:
            limit = damaged.position
            if limit <= position:
                raise CorruptSegment(f"{log.topic_partition}: damaged: {damaged}")
            # What a reader asks for next does not begin where the damage does.
            ends_at = damaged.start_offset
        else:
            limit = _end_position(log, segment, segment_place, upper, end_offset)
            ends_at = upper
        found = LogRead(offset, None, False, segment.base_offset, position)
        _cut(log, segment, found, limit, first_bytes, max_bytes=max_bytes, min_one_batch=min_one_batch, ends_at=ends_at)
        return found
    return LogRead(offset, None, False, segments.active.base_offset, segments.active.size_bytes)


def _end_position(log: "Log", segment: Segment, place: int, upper: int, end_offset: int) -> int:
    """Where the batches of the segment end that lie below `upper`."""
    if upper == end_offset or (place + 1 < len(log.segments) and log.segments[place + 1].base_offset <= upper):
        return segment.size_bytes
    batch = _find(log, segment, upper)
    return segment.size_bytes if batch is None else batch[0]


def _find(log: "Log", segment: Segment, offset: int) -> tuple[int, int] | None:
    """As `Segment.find`, not looked for in what is known to be damaged."""
    damaged = log.damage.last_before(offset, segment_base_offset=segment.base_offset) if log.damage else None
    try:
        batch = segment.find(offset, at_least=0 if damaged is None else damaged.end_position)
    except CorruptSegment:
        log.ports.owner.suspect(log, offset)
        raise
    if segment.index_problem is not None:
        log.ports.owner.suspect(log, segment.base_offset)
    return batch


def _cut(
    log: "Log",
    segment: Segment,
    found: LogRead,
    limit: int,
    first_bytes: int,
    *,
    max_bytes: int,
    min_one_batch: bool,
    ends_at: int,
) -> None:
    """Let `found`, which has none yet, have a slice from its position on; `ends_at` is the offset at byte `limit`.

    `first_bytes` is the size of its first batch, 0 where it was not read.
    """
    available = limit - found.position
    size = available
    if max_bytes < available:
        first_bytes = first_bytes or segment.batch_bytes_at(found.position)
        if not LEAST_ENTRY_BYTES <= first_bytes <= available:
            # The place was remembered, and its header not read again.
            log.ports.owner.suspect(log, found.offset)
            raise CorruptSegment(f"{segment.path(LOG_SUFFIX)}: a batch of {first_bytes} bytes at {found.position}")
        size = max(max_bytes, first_bytes) if min_one_batch else max(max_bytes, 0)
        found.first_batch_incomplete = size < first_bytes
    if size > 0:
        if found.position + size == limit:
            segment.remember_end(ends_at, limit)
        found.slice = FileSlice(segment.log_file, found.position, size, segment)


def offset_bound(log: "Log", read: LogRead) -> int:
    """An offset that is above all that the slice holds, and not far above: for the search of aborted transactions."""
    place = log.segments.place_of(read.segment_base_offset)
    segment = log.segments[place]
    bound = segment.next_indexed_offset(read.position + len(read))
    return end_of_segment(log, segment.base_offset) if bound is None else bound


def end_of_segment(log: "Log", base_offset: int) -> int:
    """Below which offset the batches of a segment end: where the next one begins, else the log's end."""
    place = log.segments.place_of(base_offset) + 1
    return log.segments[place].base_offset if place < len(log.segments) else log.log_end_offset


def find_aborted(log: "Log", *, start: int, upper: int) -> list[AbortedTxn]:
    """The aborted transactions with a record in [start, upper)."""
    found: list[AbortedTxn] = []
    for segment in log.segments.from_offset(start):
        search = search_aborted(aborted_in(log, segment), start=start, upper=upper)
        found += search.transactions
        if search.complete:
            break
    return found


def aborted_in(log: "Log", segment: Segment) -> list[AbortedTxn]:
    """The aborted transactions whose marker stands in the segment. Raises CorruptIndex, and tells the scrubber."""
    try:
        return segment.aborted_transactions()
    except CorruptIndex:
        log.ports.owner.suspect(log, segment.base_offset)
        raise


def search_timestamp(log: "Log", timestamp: int) -> TimestampSearch:
    """The first record at or after the log's start whose timestamp is at least `timestamp` (KIP-79).

    Yields between the steps of a search in a batch, which may be long; the result is the generator's value, None where
    there is no such record. Batches are inflated within the topic's ceiling. A search that comes to what is known to be
    damaged ends there: the record may be one of those. Raises TimestampsUnknown, CorruptSegment and OSError.
    """
    if log.config.message_format < 1:
        raise TimestampsUnknown(f"{log.topic_partition}: message format 0 has no timestamps")
    for segment in list(log.segments):
        # Without a timestamp in its index a segment is searched: it may be one of time 0, or hold none at all. Of one
        # that has lost its end the index says only what is left.
        has_none = segment.size_bytes == 0 or 0 <= segment.max_timestamp < timestamp
        if has_none and not log.damage.has_lost_end(segment.base_offset, above=log.log_start_offset):
            continue
        segment.pin()
        try:
            found = yield from _search_segment(log, segment, timestamp)
        finally:
            segment.unpin()
        if found is not None:
            return found
    return None


def _search_segment(log: "Log", segment: Segment, timestamp: int) -> TimestampSearch:
    """The same in one segment. Where it cannot be read the scrubber is told, unless that is known."""
    offset = segment.offset_to_search_from(timestamp, log.log_start_offset)
    damaged = log.damage.first_after(offset)
    limit = segment.size_bytes
    if damaged is not None and damaged.start_offset <= offset:
        raise CorruptSegment(f"{log.topic_partition}: damaged: {damaged}")
    if damaged is not None and damaged.segment_base_offset == segment.base_offset:
        limit = damaged.position
    batch = _find(log, segment, offset)
    try:
        for at, header in iterate_file_headers(segment.log_file, 0 if batch is None else batch[0], limit):
            offset = max(offset, header.base_offset)
            if header.max_timestamp < timestamp or header.last_offset < log.log_start_offset:
                continue
            found = yield from _search_batch(log, segment, at, header, timestamp)
            if found is not None:
                return found
    except CorruptSegment:
        log.ports.owner.suspect(log, offset)
        raise
    if damaged is not None and damaged.segment_base_offset == segment.base_offset:
        raise CorruptSegment(f"{log.topic_partition}: damaged: {damaged}")
    return None


def _search_batch(log: "Log", segment: Segment, position: int, header: BatchHeader, timestamp: int) -> TimestampSearch:
    if header.magic < CURRENT_MAGIC:
        return (yield from _search_messages(log, segment, position, header, timestamp))
    if not header.record_count:
        # What the cleaner leaves of a batch for the sake of its producer.
        return None
    if header.uses_log_append_time and header.record_count == header.last_offset_delta + 1:
        return TimestampedOffset(
            max(header.base_offset, log.log_start_offset), header.max_timestamp, header.leader_epoch
        )
    batch = segment.log_file.pread(header.size_bytes, position)
    try:
        found = yield from search_by_age(
            memoryview(batch)[HEADER_BYTES:],
            header.codec,
            count=header.record_count,
            least_age=_ANY_AGE if header.uses_log_append_time else timestamp - header.first_timestamp,
            least_delta=log.log_start_offset - header.base_offset,
            max_inflated_bytes=log.config.max_decompressed_bytes,
        )
    except CorruptBatch as error:
        raise CorruptSegment(f"{segment.path(LOG_SUFFIX)}: the batch at byte {position}: {error}") from error
    if found is None:
        return None
    delta, age = found
    of_record = header.max_timestamp if header.uses_log_append_time else header.first_timestamp + age
    return TimestampedOffset(header.base_offset + delta, of_record, header.leader_epoch)


def _search_messages(
    log: "Log", segment: Segment, position: int, header: BatchHeader, timestamp: int
) -> TimestampSearch:
    """The same in an entry of an old format."""
    entry = segment.log_file.pread(header.size_bytes, position)
    try:
        if not header.attributes & CODEC_MASK:
            return TimestampedOffset(header.base_offset, header.max_timestamp, NO_LEADER_EPOCH)
        max_bytes = log.config.max_decompressed_bytes
        shift = yield from find_offset_shift(entry, 0, header, max_bytes)
        for some in iterate_inner(entry, 0, header, max_bytes):
            for record in some:
                if record.timestamp >= timestamp and record.offset + shift >= log.log_start_offset:
                    return TimestampedOffset(record.offset + shift, record.timestamp, NO_LEADER_EPOCH)
            yield
    except CorruptBatch as error:
        raise CorruptSegment(f"{segment.path(LOG_SUFFIX)}: the wrapper at byte {position}: {error}") from error
    return None


def offsets_before(log: "Log", timestamp: int, *, max_count: int, now_ms: int) -> list[int]:
    """Segment starts by file time, greatest offset first, as ListOffsets v0 answers.

    `timestamp` -1 asks for the newest, -2 for the oldest, else for those whose file was last changed at or before it.
    """
    starts = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms()) for segment in log.segments]
    if log.segments.active.size_bytes:
        starts.append((log.log_end_offset, now_ms))
    if timestamp == -1:
        last = len(starts) - 1
    elif timestamp == -2:
        last = 0
    else:
        last = max((place for place, (_, changed_ms) in enumerate(starts) if changed_ms <= timestamp), default=-1)
    return [offset for offset, _ in reversed(starts[: last + 1])][: max(max_count, 0)]
