"""What a log knows of a batch's producer, and what that makes of the batch: a duplicate, a gap, a stale marker."""

from typing import TYPE_CHECKING

from barnabas.protocol.batch import NO_TIMESTAMP, BatchHeader, CorruptBatch, read_header, verify_crc
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.append_checks import AppendRejected
from barnabas.storage.append_info import UNKNOWN_OFFSET, AppendInfo
from barnabas.storage.producer_state import EndTxn, ProducerRejection
from barnabas.storage.scan import read_end_txn

if TYPE_CHECKING:
    from barnabas.storage.log import Log

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
            appended_below = log.producers.find_earlier(header)
            if appended_below is not None:
                return _again(log, UNKNOWN_OFFSET, appended_below - 1, NO_TIMESTAMP, size_bytes)
        raise AppendRejected(error.error, str(error)) from None
    return None


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
