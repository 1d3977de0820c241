"""What a log knows of a batch's producer, and what that makes of the batch: a duplicate, a gap, a stale marker."""

import contextlib
from typing import TYPE_CHECKING, Final

from barnabas.protocol.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TruncatedBatch,
    read_header,
    verify_crc,
)
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.append_checks import AppendRejected
from barnabas.storage.append_info import UNKNOWN_OFFSET, AppendInfo
from barnabas.storage.producer_state import MAX_SEQUENCE, NO_OFFSET, EndTxn, ProducerEntry, ProducerRejection
from barnabas.storage.read import OffsetOutOfRange
from barnabas.storage.scan import CorruptSegment, read_end_txn

if TYPE_CHECKING:
    from barnabas.storage.log import Log

_WINDOWS: Final = (100, 1000, 4000)
_MOST_BYTES: Final = 4 << 20

Marker = tuple[EndTxn, int]


def check_producer(log: "Log", header: BatchHeader, size_bytes: int, *, from_client: bool) -> AppendInfo | None:
    """Hold a batch of data against its producer's state; what was appended before, if it is a duplicate of that.

    Raises AppendRejected.
    """
    if header.producer_id < 0:
        return None
    try:
        if not from_client:
            log.producers.check_coordinator_batch(header)
        elif (original := log.producers.check_batch(header)) is not None:
            return _again(log, original.first_offset, original.last_offset, original.timestamp, size_bytes)
    except ProducerRejection as error:
        if error.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            appended_below = _find_earlier(log, header)
            if appended_below is not None:
                return _again(log, UNKNOWN_OFFSET, appended_below - 1, NO_TIMESTAMP, size_bytes)
        raise AppendRejected(error.error, str(error)) from None
    return None


def _find_earlier(log: "Log", header: BatchHeader) -> int | None:
    """As the producers' `find_earlier`; what a snapshot did not tell is looked up in the log, once for each of them."""
    entry = log.producers.late_retrier(header)
    if entry is not None and entry.restored_at >= 0:
        entry.unbroken += _count_unbroken(log, entry)
        entry.restored_at = NO_OFFSET
    return log.producers.find_earlier(header)


def _count_unbroken(log: "Log", entry: ProducerEntry) -> int:
    """How many sequences before those that are known stand in the log without a gap.

    A client tries a few batches again: they are looked for in ever more of the last offsets, as far as that is cheap.
    """
    mine = (entry.producer_id, entry.epoch)
    first_sequence = entry.last_sequence - entry.unbroken + 1
    found = 0
    for window in _WINDOWS:
        begin = max(log.log_start_offset, entry.restored_at - window)
        headers = _headers_between(log, begin, entry.restored_at)
        if headers is None:
            break
        found = 0
        for header in reversed(headers):
            if header.is_control or (header.producer_id, header.producer_epoch) != mine:
                continue
            if header.last_sequence != (first_sequence - found - 1) & MAX_SEQUENCE:
                return found
            found += header.last_offset_delta + 1
        if begin == log.log_start_offset:
            break
    return found


def _headers_between(log: "Log", offset: int, end_offset: int) -> list[BatchHeader] | None:
    """Of the batches that begin at or after `offset`; None where that is too much to read, or cannot be read."""
    headers: list[BatchHeader] = []
    left = _MOST_BYTES
    try:
        while offset < end_offset:
            read = log.read(offset, max_bytes=left, upper_bound_offset=end_offset, min_one_batch=True)
            if read.slice is None:
                return None
            try:
                data = read.slice.read()
            finally:
                read.slice.release()
            left -= len(data)
            before = offset
            with contextlib.suppress(TruncatedBatch):
                for _, header in iterate_entries(data):
                    headers.append(header)
                    offset = header.next_offset
            if offset == before or (left <= 0 and offset < end_offset):
                return None
    except (OffsetOutOfRange, CorruptSegment, CorruptBatch, OSError):
        return None
    return headers


def find_original(log: "Log", records: memoryview) -> AppendInfo | None:
    """What a client's batch repeats that stands in the log, whatever the settings ask of new ones by now.

    Kafka looks at sizes and times first. A producer that is told that its retry is too large divides it, and as no part
    is the same batch, all of it is written again.
    """
    try:
        header = read_header(records)
        if header.producer_id < 0 or header.is_control:
            return None
        verify_crc(records, 0, header)
        return check_producer(log, header, len(records), from_client=True)
    except (CorruptBatch, AppendRejected):
        return None


def _again(log: "Log", first_offset: int, last_offset: int, timestamp: int, size_bytes: int) -> AppendInfo:
    return AppendInfo(first_offset, last_offset, timestamp, timestamp, log.log_start_offset, size_bytes, duplicate=True)


def check_marker(log: "Log", records: memoryview, header: BatchHeader) -> Marker | None:
    """What a coordinator's control batch says of a transaction's end. Raises AppendRejected."""
    marker = read_marker(records, header)
    if marker is not None:
        try:
            log.producers.check_marker(header, marker[0])
        except ProducerRejection as error:
            raise AppendRejected(error.error, str(error)) from None
    return marker


def read_marker(batch: memoryview, header: BatchHeader) -> Marker | None:
    """What a control batch says of a transaction's end. Raises AppendRejected."""
    try:
        return read_end_txn(batch, header)
    except CorruptBatch as error:
        raise AppendRejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
