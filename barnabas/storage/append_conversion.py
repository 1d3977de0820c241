"""Appending what is not stored as it comes: old message formats, another codec than the topic's, conversions of format.

A set is what a Produce request brings for one partition: one record batch, or one wrapper, or any number of plain
messages. `convert` checks all of it as Kafka 2.7's `LogValidator` does, gives the records their offsets and writes them
in the topic's format and codec: in place where only offsets and times change (plain messages of the topic's format, a
wrapper of format 1 that counts from 0, a batch that is as the topic wants it), built anew otherwise. It works in steps
and touches no log, so that the one who drives it may let others have their turn; meanwhile the log must not be appended
to.

What is stricter than 2.7: a message's lengths must fill it, a wrapper must hold whole messages only. Of a wrapper's bad
records the first is told, without its place: the versions of Produce that carry wrappers have no room for more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    Codec,
    CorruptBatch,
    CrcMismatch,
    InvalidBatchSize,
    InvalidRecord,
    TruncatedBatch,
    UnsupportedCodec,
    patch_create_time,
    patch_log_append_time,
    place,
)
from barnabas.protocol.entries import read_entry, verify_entry
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.message_set import (
    LEAST_ENTRY_BYTES,
    InnerOffsets,
    iterate_inner,
    offset_shift_of,
    patch_message_time,
    place_message,
    read_plain,
)
from barnabas.protocol.record_stream import stream_records
from barnabas.protocol.records import Record
from barnabas.protocol.steps import Steps
from barnabas.storage.append_checks import (
    KEYLESS,
    LISTED_ERRORS,
    AppendRejected,
    RecordError,
    check_client_header,
    records_error,
    timestamp_error,
    timestamp_message,
)
from barnabas.storage.log_config import LogConfig, TimestampType

LONG_SET_BYTES: Final = 16 * 1024
"""A set that is greater, or compressed, is converted in turns."""
LONG_WALK_RECORDS: Final = 5_000
"""A batch of more records is looked at in turns, where all of them are to be looked at: they take 3 ms."""
_ENTRIES_A_STEP: Final = 500


@dataclass(slots=True, frozen=True)
class Placing:
    """What a set is converted for: the place and time of its append. `from_client` says that a client sent it."""

    config: LogConfig
    base_offset: int
    leader_epoch: int
    from_client: bool
    now_ms: int

    @property
    def log_append_time_ms(self) -> int | None:
        """The time of all records, if it is the broker's."""
        is_brokers = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return self.now_ms if is_brokers else None


@dataclass(slots=True)
class ConvertedSet:
    """A set as it is to be written at `base_offset`.

    `headers` are those of its entries; plain messages in a row share one. `rebuilt_records` is 0 where the set was
    changed in place.
    """

    data: memoryview
    headers: list[BatchHeader]
    base_offset: int
    max_timestamp: int
    log_append_time_ms: int
    rebuilt_records: int


@dataclass(slots=True)
class _Analysis:
    """What the entries of a set are: whole ones up to `end`, the codec of the last one that has one."""

    first: BatchHeader
    count: int
    end: int
    codec: Codec
    same_magic: bool


def needs_turns(records: memoryview, header: BatchHeader) -> bool:
    """Whether the set, whose first entry has that header, may take so long that others must have their turn."""
    return len(records) > LONG_SET_BYTES or header.attributes & CODEC_MASK != 0


def is_stored_as_sent(config: LogConfig, header: BatchHeader) -> bool:
    """Whether a record batch needs nothing but its offset; control records are never compressed anew."""
    if config.message_format != CURRENT_MAGIC:
        return False
    return config.compression is None or header.is_control or header.attributes & CODEC_MASK == config.compression


def convert(records: memoryview, placing: Placing) -> Steps[ConvertedSet]:
    """The set as the log stores it; `records` may be changed. Raises AppendRejected."""
    try:
        analysis = yield from _analyze(records, placing)
        return (yield from _convert_entries(records[: analysis.end], analysis, placing))
    except UnsupportedCodec as error:
        raise AppendRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except (CrcMismatch, InvalidBatchSize) as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None


def _analyze(records: memoryview, placing: Placing) -> Steps[_Analysis]:
    """What 2.7 looks at before it gives offsets: sizes and checksums; an entry that is cut at the end is left out."""
    max_bytes = placing.config.max_message_bytes
    first: BatchHeader | None = None
    codec, same_magic = Codec.NONE, True
    position = count = 0
    while len(records) - position >= LEAST_ENTRY_BYTES:
        try:
            header = read_entry(records, position)
        except TruncatedBatch:
            break
        except CorruptBatch as error:
            raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        end = position + header.size_bytes
        if end > len(records):
            break
        if header.magic == CURRENT_MAGIC and placing.from_client and header.base_offset != 0:
            raise AppendRejected(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}, not 0")
        if header.size_bytes > max_bytes:
            raise _too_large(header.size_bytes, max_bytes)
        verify_entry(records, position, header)
        if first is None:
            first = header
        same_magic = same_magic and header.magic == first.magic
        codec = header.codec or codec
        position = end
        count += 1
        if count % _ENTRIES_A_STEP == 0:
            yield
    if first is None:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "there is no whole batch")
    return _Analysis(first, count, position, codec, same_magic)


def _convert_entries(records: memoryview, analysis: _Analysis, placing: Placing) -> Steps[ConvertedSet]:
    config, first, source = placing.config, analysis.first, analysis.codec
    if source is Codec.ZSTD and first.magic < CURRENT_MAGIC:
        raise AppendRejected(ErrorCode.INVALID_RECORD, f"message format {first.magic} does not know zstd")
    if analysis.count > 1 and (first.magic == CURRENT_MAGIC or source is not Codec.NONE):
        raise AppendRejected(ErrorCode.INVALID_RECORD, "there is more than one batch")
    if not analysis.same_magic:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "there are messages of different formats")
    _check_header(first, placing)
    target = source if config.compression is None else config.compression
    if config.message_format == first.magic == CURRENT_MAGIC and source is target:
        return (yield from _place_batch(records, first, placing))
    if config.message_format < CURRENT_MAGIC:
        if first.magic == config.message_format and source is target is Codec.NONE:
            return (yield from _place_plain(records, placing))
        if first.magic == config.message_format == 1 and source is target:
            placed = yield from _place_wrapper(records, first, placing)
            if placed is not None:
                return placed
        if target is Codec.ZSTD:
            # 2.7's builder throws what its clients see as an unknown error.
            raise AppendRejected(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"message format {config.message_format} does not know zstd"
            )
    return (yield from _rebuild(records, first, target, placing))


def _check_header(header: BatchHeader, placing: Placing) -> None:
    if header.magic == CURRENT_MAGIC and placing.from_client:
        check_client_header(header)
    elif header.uses_log_append_time and placing.from_client:
        raise AppendRejected(ErrorCode.INVALID_TIMESTAMP, "a producer cannot say that a timestamp is the broker's")
    if placing.config.message_format < CURRENT_MAGIC and (header.is_transactional or header.producer_id >= 0):
        kind = "transactional" if header.is_transactional else "idempotent"
        raise AppendRejected(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{kind} records cannot be stored in message format {placing.config.message_format}",
        )


def _place_batch(records: memoryview, header: BatchHeader, placing: Placing) -> Steps[ConvertedSet]:
    """Look at all records of a batch that is stored as it was sent, and give it its offset where it stands."""
    count, newest = 0, NO_TIMESTAMP
    for some in _checked(stream_records(records, 0, header, placing.config.max_decompressed_bytes), placing):
        for record in some:
            if record.offset != count:
                raise InvalidRecord(f"record {count} has offset delta {record.offset}")
            newest = max(newest, record.timestamp)
            count += 1
        yield
    header.base_offset, header.leader_epoch = placing.base_offset, placing.leader_epoch
    place(records, 0, header)
    append_time = placing.log_append_time_ms
    if append_time is not None:
        patch_log_append_time(records, 0, append_time)
    elif newest != header.max_timestamp:
        patch_create_time(records, 0, newest)
    header.max_timestamp = newest if append_time is None else append_time
    return _converted(records, [header], placing, header.max_timestamp, rebuilt_records=0)


def _place_plain(records: memoryview, placing: Placing) -> Steps[ConvertedSet]:
    """Give plain messages of the topic's format their offsets where they stand, and their times in format 1."""
    interval_bytes = placing.config.index_interval_bytes
    append_time = placing.log_append_time_ms
    asks = _RecordChecks(placing).asks
    runs: list[BatchHeader] = []
    position, offset, max_timestamp = 0, placing.base_offset, NO_TIMESTAMP
    while position < len(records):
        header = read_entry(records, position)
        _check_header(header, placing)
        record = read_plain(records, position, header)
        if asks:
            _check_alone(record, placing)
        place_message(records, position, offset)
        header.base_offset = offset
        if header.magic == 1:
            timestamp = max(header.max_timestamp, NO_TIMESTAMP) if append_time is None else append_time
            patch_message_time(records, position, header, timestamp, log_append_time=append_time is not None)
            header.max_timestamp = timestamp
            max_timestamp = max(max_timestamp, timestamp)
        extend_runs(runs, header, interval_bytes)
        position += header.size_bytes
        offset += 1
        if offset % _ENTRIES_A_STEP == 0:
            yield
    return _converted(records, runs, placing, max_timestamp, rebuilt_records=0)


def _place_wrapper(records: memoryview, header: BatchHeader, placing: Placing) -> Steps[ConvertedSet | None]:
    """Give a wrapper of format 1 its offset where it stands; None when its messages do not count from 0.

    Old clients count otherwise, and 2.7 writes their wrappers anew.
    """
    count, max_timestamp, is_dense = 0, NO_TIMESTAMP, True
    written = InnerOffsets(0, 0)
    for some in _checked(iterate_inner(records, 0, header, placing.config.max_decompressed_bytes), placing):
        for record in some:
            if not count:
                written.first = record.offset
            is_dense = is_dense and record.offset - written.first == count
            written.last = record.offset
            max_timestamp = max(max_timestamp, record.timestamp)
            count += 1
        yield
    if not is_dense or written.first + offset_shift_of(header, written) != 0:
        return None
    append_time = placing.log_append_time_ms
    timestamp = max_timestamp if append_time is None else append_time
    place_message(records, 0, placing.base_offset + count - 1)
    patch_message_time(records, 0, header, timestamp, log_append_time=append_time is not None)
    header.base_offset, header.last_offset_delta, header.max_timestamp = placing.base_offset, count - 1, timestamp
    return _converted(records, [header], placing, timestamp, rebuilt_records=0)


def _rebuild(records: memoryview, first: BatchHeader, target: Codec, placing: Placing) -> Steps[ConvertedSet]:
    """Write all records anew, in the topic's format."""
    config = placing.config
    append_time = placing.log_append_time_ms
    builder = EntryBuilder(magic=config.message_format, codec=target, log_append_time_ms=append_time)
    # Plain messages are entries of their own; of them a segment is the limit.
    is_one = config.message_format == CURRENT_MAGIC or target is not Codec.NONE
    limit = config.max_message_bytes if is_one else config.segment_bytes
    offset = placing.base_offset
    for some in _all_records(records, placing):
        _check_buildable(some, config.message_format)
        for record in some:
            record.offset = offset
            offset += 1
        builder.add(some)
        if builder.size_bytes > limit:
            raise _too_large(builder.size_bytes, limit) if is_one else _too_large_for_segment(builder.size_bytes, limit)
        yield
    data = builder.finish(
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        transactional=first.is_transactional,
        leader_epoch=placing.leader_epoch,
    )
    view = memoryview(data)
    headers = yield from _headers_of(view, placing, one_of=builder.count if is_one else None)
    return _converted(view, headers, placing, builder.max_timestamp, rebuilt_records=builder.count)


def _converted(
    data: memoryview, headers: list[BatchHeader], placing: Placing, max_timestamp: int, *, rebuilt_records: int
) -> ConvertedSet:
    append_time = placing.log_append_time_ms
    if append_time is None:
        return ConvertedSet(data, headers, placing.base_offset, max_timestamp, -1, rebuilt_records)
    return ConvertedSet(data, headers, placing.base_offset, append_time, append_time, rebuilt_records)


def _headers_of(data: memoryview, placing: Placing, *, one_of: int | None) -> Steps[list[BatchHeader]]:
    """The headers of built entries: of one with that many records, or of plain messages."""
    config = placing.config
    if one_of is not None:
        header = read_entry(data)
        if header.size_bytes > config.max_message_bytes:
            raise _too_large(header.size_bytes, config.max_message_bytes)
        header.base_offset, header.last_offset_delta = placing.base_offset, one_of - 1
        return [header]
    runs: list[BatchHeader] = []
    position = count = 0
    while position < len(data):
        header = read_entry(data, position)
        if header.size_bytes > config.max_message_bytes:
            raise _too_large(header.size_bytes, config.max_message_bytes)
        position += header.size_bytes
        count += 1
        extend_runs(runs, header, config.index_interval_bytes)
        if count % _ENTRIES_A_STEP == 0:
            yield
    return runs


def _all_records(records: memoryview, placing: Placing) -> Iterator[list[Record]]:
    """The records of all entries, checked, some at a time."""
    config = placing.config
    plain: list[Record] = []
    position, asks = 0, _RecordChecks(placing).asks
    while position < len(records):
        header = read_entry(records, position)
        _check_header(header, placing)
        if header.magic == CURRENT_MAGIC:
            yield from _checked(stream_records(records, position, header, config.max_decompressed_bytes), placing)
        elif header.attributes & CODEC_MASK:
            yield from _checked(iterate_inner(records, position, header, config.max_decompressed_bytes), placing)
        else:
            record = read_plain(records, position, header)
            if asks:
                _check_alone(record, placing)
            plain.append(record)
            if len(plain) == _ENTRIES_A_STEP:
                yield plain
                plain = []
        position += header.size_bytes
    if plain:
        yield plain


def _checked(pieces: Iterator[list[Record]], placing: Placing) -> Iterator[list[Record]]:
    """The same pieces; when all are through, and one had a bad record, the append is refused for all of them."""
    checks = _RecordChecks(placing)
    for some in pieces:
        checks.add(some)
        yield [] if checks.errors else some
    checks.finish()


class _RecordChecks:
    """Holds keys and timestamps of a batch's records against what the topic asks of a client's."""

    __slots__ = ("_earliest_ms", "_index", "_latest_ms", "_placing", "_with_time", "asks", "errors")

    def __init__(self, placing: Placing) -> None:
        config = placing.config
        self.asks = placing.from_client and (config.compact or config.limits_timestamps)
        self.errors: list[RecordError] = []
        self._placing = placing
        self._earliest_ms = placing.now_ms - config.message_timestamp_difference_max_ms
        self._latest_ms = placing.now_ms + config.message_timestamp_difference_max_ms
        self._index = 0
        self._with_time = False

    def add(self, records: list[Record]) -> None:
        """Look at the next records of the batch."""
        if not self.asks:
            return
        config = self._placing.config
        for record in records:
            if config.compact and record.key is None:
                self._note(KEYLESS)
            elif (
                config.limits_timestamps
                and record.timestamp != NO_TIMESTAMP
                and not self._earliest_ms <= record.timestamp <= self._latest_ms
            ):
                self._with_time = True
                offset = self._placing.base_offset + self._index
                self._note(
                    timestamp_message(
                        record.timestamp, offset=offset, earliest_ms=self._earliest_ms, latest_ms=self._latest_ms
                    )
                )
            self._index += 1

    def _note(self, message: str) -> None:
        if len(self.errors) < LISTED_ERRORS:
            self.errors.append(RecordError(self._index, message))

    def finish(self) -> None:
        """The batch ends. Raises AppendRejected."""
        if self.errors:
            raise timestamp_error(self.errors) if self._with_time else records_error(self.errors)


def _check_alone(record: Record, placing: Placing) -> None:
    """A plain message is a batch of its own."""
    checks = _RecordChecks(placing)
    checks.add([record])
    checks.finish()


def _check_buildable(records: list[Record], magic: int) -> None:
    """Refuse what the format cannot hold; 2.7's builder throws what its clients see as an unknown error."""
    for record in records:
        if record.timestamp < NO_TIMESTAMP:
            raise AppendRejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"timestamp {record.timestamp} is not possible")
        if record.headers and magic < CURRENT_MAGIC:
            raise AppendRejected(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"message format {magic} does not know headers of records"
            )


def extend_runs(runs: list[BatchHeader], header: BatchHeader, interval_bytes: int) -> None:
    """Add the header of the next entry; plain messages in a row share one, up to an index entry's distance."""
    if runs and header.magic < CURRENT_MAGIC and not header.attributes & CODEC_MASK:
        run = runs[-1]
        if (
            run.magic < CURRENT_MAGIC
            and not run.attributes & CODEC_MASK
            and run.size_bytes + header.size_bytes <= interval_bytes
        ):
            run.length += header.size_bytes
            run.last_offset_delta = header.base_offset - run.base_offset
            run.max_timestamp = max(run.max_timestamp, header.max_timestamp)
            run.record_count += 1
            return
    runs.append(header)


def _too_large(size_bytes: int, limit: int) -> AppendRejected:
    return AppendRejected(
        ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size_bytes} bytes is greater than max.message.bytes, {limit}"
    )


def _too_large_for_segment(size_bytes: int, limit: int) -> AppendRejected:
    return AppendRejected(
        ErrorCode.RECORD_LIST_TOO_LARGE, f"{size_bytes} bytes are more than a segment may be, {limit}"
    )
