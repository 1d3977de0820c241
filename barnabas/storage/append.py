"""Appending to a log: what is checked, and in which order (Kafka 2.7's, so that an answer has the same error).

An append has phases. `prepare_*` checks everything and changes nothing when it raises; then it rolls the log if need
be and stamps offset, leader epoch and time into the caller's buffer. `PreparedAppend.write` touches the disk only and
may run in the directory's writer thread. `apply_append` counts the batches in. Between the first and the last no other
append of the log may begin: the log asserts it.

A client's batch of more than 16 KB is judged by its header and checksum, unless the topic's settings need its records:
a compacted topic refuses records without a key, a finite message.timestamp.difference.max.ms looks at each timestamp.
Smaller batches are always walked, as far as 128 KB of their content: a compressed one may hold any amount, and the
event loop waits meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.protocol.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
    patch_create_time,
    patch_log_append_time,
    place,
    read_header,
)
from barnabas.protocol.compression import DecompressionBomb
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import Ages, iterate_records, walk_records
from barnabas.runtime.disk import File
from barnabas.storage.log_config import MAX_INT32, LogConfig, TimestampType
from barnabas.storage.producer_state import EndTxn, ProducerRejection
from barnabas.storage.scan import read_end_txn
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTxn

if TYPE_CHECKING:
    from barnabas.storage.log import Log

WALKED_BATCH_BYTES: Final = 16 * 1024
WALKED_INFLATED_BYTES: Final = 128 * 1024
_CRC_COVERS_FROM: Final = 21
_LISTED_ERRORS: Final = 1000

Marker = tuple[EndTxn, int]


class AppendOrigin(Enum):
    """Who wrote the batches: a client, a coordinator of this broker, or the partition's leader."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


# A member of an enumeration costs more to look up than a name of the module.
_CLIENT: Final = AppendOrigin.CLIENT
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


@dataclass(slots=True, frozen=True)
class RecordError:
    """What is wrong with one record, by its place in the batch (KIP-467)."""

    batch_index: int
    message: str


class AppendRejected(Exception):
    """The batches cannot be appended; nothing was changed."""

    def __init__(self, error: ErrorCode, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.error = error
        self.record_errors = record_errors


class UnexpectedOffset(AppendRejected):
    """The leader's batches do not continue this log. The follower may restart an empty log at `first_offset`."""

    def __init__(self, *, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"offsets {first_offset} to {last_offset} cannot follow a log that ends at {log_end_offset}",
        )
        self.first_offset = first_offset
        self.last_offset = last_offset


@dataclass(slots=True)
class AppendInfo:
    """An append as the answer tells it. Offsets are inclusive; times are milliseconds, -1 for none."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    size_bytes: int
    duplicate: bool


@dataclass(slots=True)
class PreparedAppend:
    """Checked batches with their place in the log. Where `duplicate` is set there is nothing to write or publish."""

    log: "Log"
    file: File
    data: memoryview
    position: int
    first_offset: int
    headers: list[BatchHeader]
    markers: list[Marker | None] | None
    log_append_time_ms: int
    duplicate: AppendInfo | None = None

    def write(self) -> None:
        """Write the batches; may run in a thread. Raises OSError, and then the log takes nothing more."""
        try:
            self.file.pwrite(self.data, self.position)
        except OSError:
            self.log.offline = True
            raise


def prepare_from_client(
    log: "Log", records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
) -> PreparedAppend:
    """Check one batch of a client or coordinator, reserve its place and stamp it in `records`.

    Raises AppendRejected, or OSError when the log had to be rolled and could not.
    """
    config = log.config
    header = _read_single(records, config, from_client=origin is _CLIENT)
    size_bytes = LOG_OVERHEAD_BYTES + header.length
    if len(records) != size_bytes:
        records = records[:size_bytes]
    base_offset = log.log_end_offset
    max_timestamp = header.max_timestamp
    if origin is _CLIENT:
        max_timestamp = _check_client_batch(records, header, config, base_offset, now_ms)
    if size_bytes > config.segment_bytes:
        raise AppendRejected(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch of {size_bytes} bytes is greater than a segment may be, {config.segment_bytes}",
        )
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch
    marker = None
    if header.producer_id >= 0:
        try:
            if header.is_control:
                marker = _check_marker(log, records, header)
            elif origin is not _CLIENT:
                log.producers.check_coordinator_batch(header)
            elif (original := log.producers.check_batch(header)) is not None:
                return _duplicate(log, original.first_offset, original.last_offset, original.timestamp, size_bytes)
        except ProducerRejection as error:
            raise AppendRejected(error.error, str(error)) from None
    log_append_time_ms = -1
    place(records, 0, header)
    if config.message_timestamp_type is _LOG_APPEND_TIME:
        log_append_time_ms = max_timestamp = now_ms
        patch_log_append_time(records, 0, now_ms)
    elif max_timestamp != header.max_timestamp:
        patch_create_time(records, 0, max_timestamp)
    header.max_timestamp = max_timestamp
    segment = log.segment_for_append(
        size_bytes=size_bytes,
        first_offset=base_offset,
        last_offset=base_offset + header.last_offset_delta,
        max_timestamp=max_timestamp,
        now_ms=now_ms,
    )
    return PreparedAppend(
        log,
        segment.log_file,
        records,
        segment.size_bytes,
        base_offset,
        [header],
        None if marker is None else [marker],
        log_append_time_ms,
    )


def prepare_from_leader(log: "Log", records: memoryview, *, now_ms: int) -> PreparedAppend:
    """Check the batches that the leader gave, and change no byte of them. A batch that is cut at the end is left out.

    Raises AppendRejected, or OSError when the log had to be rolled and could not.
    """
    headers: list[BatchHeader] = []
    markers: list[Marker | None] = []
    position, next_offset, max_timestamp = 0, log.log_end_offset, -1
    while len(records) - position >= HEADER_BYTES:
        header = _read_replicated(records, position)
        end = position + header.size_bytes
        if end > len(records) or (headers and header.last_offset - headers[0].base_offset > MAX_INT32):
            break
        if crc32c(records[position + _CRC_COVERS_FROM : end]) != header.crc:
            raise _wrong_crc(records, position, header)
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            if not headers:
                raise UnexpectedOffset(
                    first_offset=header.base_offset, last_offset=header.last_offset, log_end_offset=next_offset
                )
            raise AppendRejected(
                ErrorCode.CORRUPT_MESSAGE, f"base offset {header.base_offset} comes after {next_offset - 1}"
            )
        marker = _read_marker(records[position:end], header) if header.is_control else None
        headers.append(header)
        markers.append(marker)
        max_timestamp = max(max_timestamp, header.max_timestamp)
        next_offset = header.next_offset
        position = end
    if not headers:
        segment = log.segments.active
        return PreparedAppend(log, segment.log_file, records[:0], segment.size_bytes, next_offset, [], None, -1)
    segment = log.segment_for_append(
        size_bytes=position,
        first_offset=headers[0].base_offset,
        last_offset=next_offset - 1,
        max_timestamp=max_timestamp,
        now_ms=now_ms,
    )
    return PreparedAppend(
        log,
        segment.log_file,
        records[:position],
        segment.size_bytes,
        headers[0].base_offset,
        headers,
        markers,
        -1,
    )


def apply_append(log: "Log", prepared: PreparedAppend) -> AppendInfo:
    """Count in what was written: indexes, end offset, leader epochs, producers."""
    segment = log.segments.active
    interval_bytes = log.config.index_interval_bytes
    max_timestamp = -1
    markers = prepared.markers
    next_offset = prepared.first_offset
    for index, header in enumerate(prepared.headers):
        segment.publish_batch(header, interval_bytes=interval_bytes)
        max_timestamp = max(max_timestamp, header.max_timestamp)
        if header.leader_epoch != log.leader_epochs.latest_epoch and header.leader_epoch >= 0:
            log.assign_leader_epoch(header.leader_epoch, start_offset=header.base_offset)
        if header.producer_id >= 0:
            _apply_to_producers(log, segment, header, None if markers is None else markers[index])
        next_offset = header.base_offset + header.last_offset_delta + 1
    log.log_end_offset = log.producers.end_offset = next_offset
    return AppendInfo(
        prepared.first_offset,
        next_offset - 1,
        max_timestamp,
        prepared.log_append_time_ms,
        log.log_start_offset,
        len(prepared.data),
        False,
    )


def _apply_to_producers(log: "Log", segment: Segment, header: BatchHeader, marker: Marker | None) -> None:
    if not header.is_control:
        log.producers.apply_batch(header, base_offset=header.base_offset)
        return
    if marker is None:
        return
    end_txn, timestamp = marker
    done = log.producers.apply_marker(header, end_txn, offset=header.base_offset, timestamp=timestamp)
    if done.aborted:
        assert segment.growing is not None
        stable = log.producers.last_stable_offset_after(done)
        segment.growing.aborted.append(AbortedTxn(done.producer_id, done.first_offset, done.last_offset, stable))


def _read_single(records: memoryview, config: LogConfig, *, from_client: bool) -> BatchHeader:
    """The header of the one batch, whose size and checksum are right."""
    try:
        header = read_header(records)
    except UnsupportedMagic as error:
        code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if error.magic in (0, 1) else ErrorCode.CORRUPT_MESSAGE
        raise AppendRejected(code, str(error)) from None
    except TruncatedBatch as error:
        raise AppendRejected(ErrorCode.INVALID_RECORD, f"there is no whole batch: {error}") from None
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    size_bytes = LOG_OVERHEAD_BYTES + header.length
    if size_bytes > len(records):
        raise AppendRejected(
            ErrorCode.INVALID_RECORD, f"there is no whole batch: {len(records)} of {size_bytes} bytes are there"
        )
    if from_client and header.base_offset != 0:
        raise AppendRejected(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}, not 0")
    if size_bytes > config.max_message_bytes:
        raise AppendRejected(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch of {size_bytes} bytes is greater than max.message.bytes, {config.max_message_bytes}",
        )
    if crc32c(records[_CRC_COVERS_FROM:size_bytes]) != header.crc:
        raise _wrong_crc(records, 0, header)
    if len(records) - size_bytes >= HEADER_BYTES:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "there is more than one batch")
    return header


def _read_replicated(records: memoryview, position: int) -> BatchHeader:
    try:
        return read_header(records, position)
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _wrong_crc(records: memoryview, position: int, header: BatchHeader) -> AppendRejected:
    actual = crc32c(records[position + _CRC_COVERS_FROM : position + LOG_OVERHEAD_BYTES + header.length])
    return AppendRejected(
        ErrorCode.CORRUPT_MESSAGE, f"the checksum is {actual:#010x}, the batch says {header.crc:#010x}"
    )


def _check_client_batch(
    records: memoryview, header: BatchHeader, config: LogConfig, base_offset: int, now_ms: int
) -> int:
    """Check what only a client's batch must be; its greatest timestamp."""
    count = header.record_count
    if count <= 0 or count != header.last_offset_delta + 1:
        raise AppendRejected(
            ErrorCode.INVALID_RECORD, f"{count} records do not fill offset deltas 0 to {header.last_offset_delta}"
        )
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "clients cannot write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise AppendRejected(
            ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent sequence {header.base_sequence}"
        )
    if attributes & LOG_APPEND_TIME_BIT:
        message = "a producer cannot say that a timestamp is the broker's"
        errors = [RecordError(index, message) for index in range(min(count, _LISTED_ERRORS))]
        raise AppendRejected(ErrorCode.INVALID_TIMESTAMP, message, errors)
    if not config.walks_all_records and len(records) > WALKED_BATCH_BYTES:
        _check_codec(header)
        return header.max_timestamp
    keyless: list[int] | None = [] if config.compact else None
    ages = _walk(records, header, config, keyless)
    if ages is None:
        return header.max_timestamp
    if keyless:
        message = "a compacted topic takes no record without a key"
        errors = [RecordError(index, message) for index in keyless]
        raise AppendRejected(ErrorCode.INVALID_RECORD, "one or more records have been rejected", errors)
    if config.limits_timestamps:
        _check_timestamps(records, header, config, ages, base_offset=base_offset, now_ms=now_ms)
    if config.message_timestamp_type is _LOG_APPEND_TIME:
        return header.max_timestamp
    newest = header.first_timestamp + ages[1]
    # A batch whose timestamps are all below -1 has none, as Kafka sees it.
    return newest if newest > NO_TIMESTAMP else NO_TIMESTAMP  # noqa: FURB136 - a call less for every request


def _check_codec(header: BatchHeader) -> None:
    try:
        header.codec  # noqa: B018
    except UnsupportedCodec as error:
        raise AppendRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None


def _walk(records: memoryview, header: BatchHeader, config: LogConfig, keyless: list[int] | None) -> Ages | None:
    """What the records say; None when all that was looked at is right and there is more, which need not be."""
    max_bytes = config.max_decompressed_bytes if config.walks_all_records else WALKED_INFLATED_BYTES
    try:
        return walk_records(records[HEADER_BYTES:], header, max_bytes, keyless)
    except UnsupportedCodec as error:
        raise AppendRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except DecompressionBomb as error:
        if not config.walks_all_records:
            return None
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(error)) from None


def _check_timestamps(
    records: memoryview,
    header: BatchHeader,
    config: LogConfig,
    ages: Ages,
    *,
    base_offset: int,
    now_ms: int,
) -> None:
    allowed = config.message_timestamp_difference_max_ms
    oldest, newest = header.first_timestamp + ages[0], header.first_timestamp + ages[1]
    if now_ms - allowed <= oldest and newest <= now_ms + allowed:
        return
    errors = [
        RecordError(
            index,
            f"timestamp {record.timestamp} of the record for offset {base_offset + index} is not within "
            f"{now_ms - allowed} to {now_ms + allowed}",
        )
        for index, record in enumerate(iterate_records(records, 0, header, config.max_decompressed_bytes))
        if record.timestamp != -1 and abs(record.timestamp - now_ms) > allowed
    ]
    if errors:
        raise AppendRejected(ErrorCode.INVALID_TIMESTAMP, "the timestamps of one or more records are invalid", errors)


def _check_marker(log: "Log", records: memoryview, header: BatchHeader) -> Marker | None:
    marker = _read_marker(records, header)
    if marker is not None:
        log.producers.check_marker(header, marker[0])
    return marker


def _read_marker(batch: memoryview, header: BatchHeader) -> Marker | None:
    try:
        return read_end_txn(batch, header)
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _duplicate(log: "Log", first_offset: int, last_offset: int, timestamp: int, size_bytes: int) -> PreparedAppend:
    info = AppendInfo(first_offset, last_offset, timestamp, timestamp, log.log_start_offset, size_bytes, duplicate=True)
    active = log.segments.active
    return PreparedAppend(log, active.log_file, memoryview(b""), active.size_bytes, first_offset, [], None, -1, info)
