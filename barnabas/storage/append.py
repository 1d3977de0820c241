"""Appending to a log: what is checked, and in which order (Kafka 2.7's, so that an answer has the same error).

An append has phases. `prepare_*` checks everything and changes nothing when it raises; then it rolls the log if need
be and stamps offset, leader epoch and time into the caller's buffer. `PreparedAppend.write` touches the disk only and
may run in the directory's writer thread. `apply_append` counts the batches in. Between the first and the last no other
append of the log may begin: the log asserts it.

What is not stored as it comes (an old message format, another codec than the topic's) takes another way:
`append_conversion.convert` gives the set as it will be written, and may take so long that whoever appends must let
others have their turn. So a greater set is refused with `LongConversion`, to come again with what `convert` made of it.

A client's batch of more than 16 KB is judged by its header and checksum, unless the topic's settings need its records:
a compacted topic refuses records without a key, a finite message.timestamp.difference.max.ms looks at each timestamp.
Smaller batches are always walked, as far as 128 KB of their content: a compressed one may hold any amount, and the
event loop waits meanwhile.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.protocol.batch import (
    CONTROL_BIT,
    CURRENT_MAGIC,
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
from barnabas.protocol.entries import read_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.message_set import HIGHEST_LEGACY_MAGIC
from barnabas.protocol.records import Ages, iterate_records, walk_records
from barnabas.protocol.steps import Steps, complete
from barnabas.runtime.files import File
from barnabas.storage.append_checks import (
    KEYLESS,
    AppendRejected,
    RecordError,
    UnexpectedOffset,
    check_client_header,
    records_error,
    timestamp_error,
    timestamp_message,
)
from barnabas.storage.append_conversion import (
    LONG_WALK_RECORDS,
    ConvertedSet,
    Placing,
    convert,
    is_stored_as_sent,
    needs_turns,
)
from barnabas.storage.append_info import UNKNOWN_OFFSET, AppendInfo
from barnabas.storage.append_producers import Marker, check_marker, check_producer, find_original
from barnabas.storage.log_config import LogConfig, TimestampType
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTxn

if TYPE_CHECKING:
    from barnabas.storage.log import Log

__all__ = [
    "UNKNOWN_OFFSET",
    "AppendInfo",
    "AppendOrigin",
    "AppendRejected",
    "LongConversion",
    "PreparedAppend",
    "RecordError",
    "UnexpectedOffset",
    "conversion_steps",
]

WALKED_BATCH_BYTES: Final = 16 * 1024
WALKED_INFLATED_BYTES: Final = 128 * 1024

_CRC_COVERS_FROM: Final = 21
_NOT_A_CLIENTS: Final = CONTROL_BIT | LOG_APPEND_TIME_BIT


class AppendOrigin(Enum):
    """Who wrote the batches: a client, a coordinator of this broker, or the partition's leader."""

    CLIENT = auto()
    COORDINATOR = auto()
    REPLICATION = auto()


# A member of an enumeration costs more to look up than a name of the module.
_CLIENT: Final = AppendOrigin.CLIENT
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME


class LongConversion(Exception):
    """The set takes long to convert: advance the steps of `conversion_steps` and append with what they made."""


class _NotAsStored(Exception):
    """The set is of an old message format, or has not the topic's format and codec."""


class PreparedAppend:
    """Checked batches with their place in the log. Where `duplicate` is set there is nothing to write or publish."""

    # No dataclass: a compiled one cannot have a field of a type that its module only knows to the checker of types.
    __slots__ = (
        "data",
        "duplicate",
        "file",
        "first_offset",
        "headers",
        "log",
        "log_append_time_ms",
        "markers",
        "position",
        "rebuilt_records",
    )

    def __init__(
        self,
        log: "Log",
        file: File,
        data: memoryview,
        position: int,
        first_offset: int,
        *,
        headers: list[BatchHeader],
        markers: list[Marker | None] | None = None,
        log_append_time_ms: int = -1,
        duplicate: AppendInfo | None = None,
        rebuilt_records: int = 0,
    ) -> None:
        self.log = log
        self.file = file
        self.data = data
        self.position = position
        self.first_offset = first_offset
        self.headers = headers
        self.markers = markers
        self.log_append_time_ms = log_append_time_ms
        self.duplicate = duplicate
        self.rebuilt_records = rebuilt_records

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

    Raises AppendRejected, LongConversion, or OSError when the log had to be rolled and could not.
    """
    config = log.config
    base_offset = log.log_end_offset
    try:
        try:
            header = _read_single(records, config, from_client=origin is _CLIENT)
        except _NotAsStored:
            converted = _convert_short(log, records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
            return prepare_converted(log, converted, origin=origin, now_ms=now_ms)
        size_bytes = LOG_OVERHEAD_BYTES + header.length
        if len(records) != size_bytes:
            records = records[:size_bytes]
        max_timestamp = header.max_timestamp
        if origin is _CLIENT:
            max_timestamp = _check_client_batch(records, header, config, base_offset, now_ms)
        _check_segment_holds(config, size_bytes)
    except (AppendRejected, LongConversion):
        original = find_original(log, records) if origin is _CLIENT else None
        if original is None:
            raise
        return _not_again(log, original)
    header.base_offset = base_offset
    header.leader_epoch = leader_epoch
    marker = None
    if header.producer_id >= 0:
        if header.is_control:
            marker = check_marker(log, records, header)
        elif (original := check_producer(log, header, size_bytes, from_client=origin is _CLIENT)) is not None:
            return _not_again(log, original)
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
        headers=[header],
        markers=None if marker is None else [marker],
        log_append_time_ms=log_append_time_ms,
    )


def conversion_steps(
    log: "Log", records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
) -> Steps[ConvertedSet]:
    """What a set is to be appended as, in steps, while which nothing else may be appended. Raises AppendRejected."""
    return convert(records, Placing(log.config, log.log_end_offset, leader_epoch, origin is _CLIENT, now_ms))


def _convert_short(
    log: "Log", records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
) -> ConvertedSet:
    try:
        header = read_entry(records)
    except CorruptBatch:
        # That is soon said.
        pass
    else:
        if needs_turns(records, header):
            raise LongConversion
    return complete(conversion_steps(log, records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms))


def prepare_converted(log: "Log", converted: ConvertedSet, *, origin: AppendOrigin, now_ms: int) -> PreparedAppend:
    """Reserve the place of a set that was converted for it. Raises as `prepare_from_client`."""
    assert converted.base_offset == log.log_end_offset, "something was appended while the set was converted"
    data, headers = converted.data, converted.headers
    _check_segment_holds(log.config, len(data))
    original = check_producer(log, headers[0], len(data), from_client=origin is _CLIENT)
    if original is not None:
        return _not_again(log, original)
    segment = log.segment_for_append(
        size_bytes=len(data),
        first_offset=converted.base_offset,
        last_offset=headers[-1].last_offset,
        max_timestamp=converted.max_timestamp,
        now_ms=now_ms,
    )
    return PreparedAppend(
        log,
        segment.log_file,
        data,
        segment.size_bytes,
        converted.base_offset,
        headers=headers,
        log_append_time_ms=converted.log_append_time_ms,
        rebuilt_records=converted.rebuilt_records,
    )


def _check_segment_holds(config: LogConfig, size_bytes: int) -> None:
    if size_bytes > config.segment_bytes:
        raise AppendRejected(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch of {size_bytes} bytes is greater than a segment may be, {config.segment_bytes}",
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
        if header.max_timestamp > max_timestamp:  # noqa: PLR1730 - a call less for every request
            max_timestamp = header.max_timestamp
        if header.leader_epoch != log.leader_epochs.latest_epoch:
            _note_leader_epoch(log, header)
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
        prepared.rebuilt_records,
    )


def _note_leader_epoch(log: "Log", header: BatchHeader) -> None:
    if header.leader_epoch >= 0:
        log.assign_leader_epoch(header.leader_epoch, start_offset=header.base_offset)
    elif header.magic < CURRENT_MAGIC:  # noqa: SIM102
        # What follows an old message is of an epoch that it does not tell: truncation goes by the high watermark then.
        if log.leader_epochs.clear():
            log.note_epochs_changed()


def append_at_once(
    log: "Log", records: memoryview, *, leader_epoch: int, origin: AppendOrigin, now_ms: int
) -> AppendInfo:
    """All phases in one, however long a conversion takes. Raises as these do."""
    converted = None
    while True:
        try:
            prepared = log.prepare_append(
                records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms, converted=converted
            )
            break
        except LongConversion:
            converted = complete(
                conversion_steps(log, records, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms)
            )
    if prepared.duplicate is None:
        prepared.write()
    return log.publish(prepared)


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
    except UnsupportedMagic as unknown:
        if 0 <= unknown.magic <= HIGHEST_LEGACY_MAGIC:
            raise _NotAsStored from None
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(unknown)) from None
    except TruncatedBatch as truncated:
        raise AppendRejected(ErrorCode.INVALID_RECORD, f"there is no whole batch: {truncated}") from None
    except CorruptBatch as corrupt:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(corrupt)) from None
    if not config.stores_as_sent and not is_stored_as_sent(config, header):
        raise _NotAsStored
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
        raise wrong_crc(records, 0, header)
    if len(records) - size_bytes >= HEADER_BYTES:
        raise AppendRejected(ErrorCode.INVALID_RECORD, "there is more than one batch")
    return header


def wrong_crc(records: memoryview, position: int, header: BatchHeader) -> AppendRejected:
    """Why a batch is refused whose checksum does not match."""
    actual = crc32c(records[position + _CRC_COVERS_FROM : position + LOG_OVERHEAD_BYTES + header.length])
    return AppendRejected(
        ErrorCode.CORRUPT_MESSAGE, f"the checksum is {actual:#010x}, the batch says {header.crc:#010x}"
    )


def _check_client_batch(
    records: memoryview, header: BatchHeader, config: LogConfig, base_offset: int, now_ms: int
) -> int:
    """Check what only a client's batch must be; its greatest timestamp."""
    count = header.record_count
    if (
        count <= 0
        or count != header.last_offset_delta + 1
        or header.attributes & _NOT_A_CLIENTS
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        # It says what is wrong. To ask it about every batch would cost a call.
        check_client_header(header)
    if not config.walks_all_records and len(records) > WALKED_BATCH_BYTES:
        _check_codec(header)
        return header.max_timestamp
    if count > LONG_WALK_RECORDS and config.walks_all_records:
        raise LongConversion
    keyless: list[int] | None = [] if config.compact else None
    ages = _walk(records, header, config, keyless)
    if ages is None:
        return header.max_timestamp
    if keyless:
        raise records_error([RecordError(index, KEYLESS) for index in keyless])
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
    except UnsupportedCodec as unknown:
        raise AppendRejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(unknown)) from None
    except DecompressionBomb as bomb:
        if not config.walks_all_records:
            return None
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(bomb)) from None
    except CorruptBatch as corrupt:
        raise AppendRejected(ErrorCode.INVALID_RECORD, str(corrupt)) from None


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
            timestamp_message(
                record.timestamp, offset=base_offset + index, earliest_ms=now_ms - allowed, latest_ms=now_ms + allowed
            ),
        )
        for index, record in enumerate(iterate_records(records, 0, header, config.max_decompressed_bytes))
        if record.timestamp != -1 and abs(record.timestamp - now_ms) > allowed
    ]
    if errors:
        raise timestamp_error(errors)


def _not_again(log: "Log", original: AppendInfo) -> PreparedAppend:
    active = log.segments.active
    first_offset = original.first_offset
    return PreparedAppend(
        log, active.log_file, memoryview(b""), active.size_bytes, first_offset, headers=[], duplicate=original
    )
