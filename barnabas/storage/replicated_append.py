"""Appending as a follower: the entries that the leader gave, checked and not changed.

The phases are those of append.py. Old message formats come as they stand in the leader's log.
"""

from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from barnabas.protocol.batch import (
    CURRENT_MAGIC,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    CorruptBatch,
    TruncatedBatch,
    read_header,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.message_set import (
    HIGHEST_LEGACY_MAGIC,
    LEAST_ENTRY_BYTES,
    MAGIC_AT,
    read_message_header,
    verify_message_crc,
)
from barnabas.storage.append import PreparedAppend, wrong_crc
from barnabas.storage.append_checks import AppendRejected, UnexpectedOffset
from barnabas.storage.append_conversion import extend_runs
from barnabas.storage.append_producers import Marker, read_marker
from barnabas.storage.log_config import MAX_INT32

if TYPE_CHECKING:
    from barnabas.storage.log import Log

OLD_MESSAGES_AT_ONCE: Final = 500
_CRC_COVERS_FROM: Final = 21


def prepare_from_leader(log: "Log", records: memoryview, *, now_ms: int) -> PreparedAppend:
    """Check the batches that the leader gave, and change no byte of them. A batch that is cut at the end is left out.

    Of old messages so few are taken at a time that the event loop need not wait: see `has_more`.
    Raises AppendRejected, or OSError when the log had to be rolled and could not.
    """
    old_messages = 0
    headers: list[BatchHeader] = []
    markers: list[Marker | None] = []
    position, next_offset, max_timestamp = 0, log.log_end_offset, -1
    while len(records) - position >= LEAST_ENTRY_BYTES:
        header = _read_replicated(records, position)
        if header is None:
            break
        end = position + header.size_bytes
        if end > len(records) or (headers and header.last_offset - headers[0].base_offset > MAX_INT32):
            break
        is_batch = header.magic == CURRENT_MAGIC
        if is_batch:
            if crc32c(records[position + _CRC_COVERS_FROM : end]) != header.crc:
                raise wrong_crc(records, position, header)
        else:
            _verify_message(records, position, header)
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            if not headers:
                raise UnexpectedOffset(
                    first_offset=header.base_offset, last_offset=header.last_offset, log_end_offset=next_offset
                )
            raise AppendRejected(
                ErrorCode.CORRUPT_MESSAGE, f"base offset {header.base_offset} comes after {next_offset - 1}"
            )
        if is_batch:
            markers.append(read_marker(records[position:end], header) if header.is_control else None)
            headers.append(header)
        else:
            old_messages += 1
            extend_runs(headers, header, log.config.index_interval_bytes)
            markers += [None] * (len(headers) - len(markers))
        if header.max_timestamp > max_timestamp:  # noqa: PLR1730 - a call less for every batch
            max_timestamp = header.max_timestamp
        next_offset = header.next_offset
        position = end
        if old_messages == OLD_MESSAGES_AT_ONCE:
            break
    if not headers:
        segment = log.segments.active
        return PreparedAppend(log, segment.log_file, records[:0], segment.size_bytes, next_offset, headers=[])
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
        headers=headers,
        markers=markers,
    )


def has_more(records: memoryview, taken_bytes: int) -> bool:
    """Whether an append that took so much of what the leader gave stopped before an old message, to be gone on with."""
    return (
        0 < taken_bytes <= len(records) - LEAST_ENTRY_BYTES
        and records[taken_bytes + MAGIC_AT] <= HIGHEST_LEGACY_MAGIC
        and LOG_OVERHEAD_BYTES + int.from_bytes(records[taken_bytes + 8 : taken_bytes + 12], "big")
        <= len(records) - taken_bytes
    )


def _read_replicated(records: memoryview, position: int) -> BatchHeader | None:
    """The header of the next entry; None when it is cut."""
    try:
        if records[position + MAGIC_AT] <= HIGHEST_LEGACY_MAGIC:
            return read_message_header(records, position)
        return read_header(records, position)
    except TruncatedBatch:
        return None
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _verify_message(records: memoryview, position: int, header: BatchHeader) -> None:
    try:
        verify_message_crc(records, position, header)
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
