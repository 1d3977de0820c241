"""Why an append is refused, and what a client's entry must be, whatever becomes of it (Kafka 2.7's `LogValidator`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.batch import CONTROL_BIT, LOG_APPEND_TIME_BIT, BatchHeader
from barnabas.protocol.error_code import ErrorCode

LISTED_ERRORS: Final = 1000
KEYLESS: Final = "a compacted topic takes no record without a key"


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


def check_client_header(header: BatchHeader) -> None:
    """Check what the header of a client's batch says. Raises AppendRejected."""
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
        errors = [RecordError(index, message) for index in range(min(count, LISTED_ERRORS))]
        raise AppendRejected(ErrorCode.INVALID_TIMESTAMP, message, errors)


def records_error(errors: Sequence[RecordError]) -> AppendRejected:
    """Records are not what the topic takes, but for their times."""
    return AppendRejected(ErrorCode.INVALID_RECORD, "one or more records have been rejected", errors)


def timestamp_error(errors: Sequence[RecordError]) -> AppendRejected:
    """Records bear times too far from the broker's."""
    return AppendRejected(ErrorCode.INVALID_TIMESTAMP, "the timestamps of one or more records are invalid", errors)


def timestamp_message(timestamp: int, *, offset: int, earliest_ms: int, latest_ms: int) -> str:
    """What is wrong with such a record."""
    return f"timestamp {timestamp} of the record for offset {offset} is not within {earliest_ms} to {latest_ms}"
