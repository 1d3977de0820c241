"""OffsetCommit and TxnOffsetCommit: which records, and what is answered. The group has let the request pass.

A note longer than offset.metadata.max.bytes refuses its partition alone. A commit counts from now, or, in version 1 of
OffsetCommit, from the time that it names; versions 2 to 4 may say how long the offset shall be kept, which goes into
the record as the time when it expires (KIP-211 took that away). A partition that is named twice is committed as it is
named last, and answered once.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from barnabas.coordinator.group_records import (
    NO_TIMESTAMP,
    OffsetAndMetadata,
    encode_offset_key,
    encode_offset_value,
)
from barnabas.coordinator.offsets.committed import TopicPartition
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp, Replies, Ticket, coordinator_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_LATEST_MS: Final = (1 << 63) - 1
_Errors = dict[TopicPartition, ErrorCode]


def commit_offsets(ticket: Ticket, request: OffsetCommitRequest, *, settings: OffsetSettings, wall_ms: int) -> Outcome:
    """Store what the request says."""
    expires_ms = _expiry(request.retention_time_ms, wall_ms)
    offsets = {
        (topic.name, each.partition_index): OffsetAndMetadata(
            each.committed_offset,
            each.committed_leader_epoch,
            each.committed_metadata or "",
            each.commit_timestamp if each.commit_timestamp != NO_TIMESTAMP else wall_ms,
            expires_ms,
        )
        for topic in request.topics
        for each in topic.partitions
    }
    errors = _errors(offsets, settings)
    return Outcome(
        records=_records(request.group_id, offsets, errors),
        replies=[(ticket, _response(errors))],
        if_failed=partial(_commit_failed, ticket, errors),
    )


def commit_in_transaction(
    ticket: Ticket, request: TxnOffsetCommitRequest, *, settings: OffsetSettings, wall_ms: int
) -> Outcome:
    """Store what the request says as part of its producer's transaction: it counts once that commits."""
    offsets = {
        (topic.name, each.partition_index): OffsetAndMetadata(
            each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", wall_ms
        )
        for topic in request.topics
        for each in topic.partitions
    }
    errors = _errors(offsets, settings)
    records = _records(request.group_id, offsets, errors)
    return Outcome(
        records=records,
        replies=[(ticket, _transactional_response(errors))],
        producer=ProducerStamp(request.producer_id, request.producer_epoch) if records else None,
        if_failed=partial(_transactional_commit_failed, ticket, errors),
    )


def refuse_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The answer that gives every partition the same error."""
    return _response(
        {(topic.name, each.partition_index): error for topic in request.topics for each in topic.partitions}
    )


def refuse_commit_in_transaction(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The answer that gives every partition the same error."""
    return _transactional_response(
        {(topic.name, each.partition_index): error for topic in request.topics for each in topic.partitions}
    )


def _expiry(retention_time_ms: int, wall_ms: int) -> int:
    """When an offset goes that is kept so long; later than any clock can say is never."""
    if retention_time_ms == NO_TIMESTAMP or wall_ms + retention_time_ms > _LATEST_MS:
        return NO_TIMESTAMP
    return wall_ms + retention_time_ms


def _errors(offsets: Mapping[TopicPartition, OffsetAndMetadata], settings: OffsetSettings) -> _Errors:
    return {
        partition: ErrorCode.OFFSET_METADATA_TOO_LARGE
        if _utf16_units(value.metadata) > settings.metadata_max_bytes
        else ErrorCode.NONE
        for partition, value in offsets.items()
    }


def _utf16_units(text: str) -> int:
    """The length that Java's strings have."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2


def _records(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], errors: _Errors
) -> list[CoordinatorRecord]:
    return [
        CoordinatorRecord(encode_offset_key(group_id, *partition), encode_offset_value(value))
        for partition, value in offsets.items()
        if errors[partition] is ErrorCode.NONE
    ]


def _failed(errors: _Errors, error: ErrorCode) -> _Errors:
    """What those hear whose records are not in the log; a note that is too long is still that."""
    heard = coordinator_error(
        error, timed_out=ErrorCode.REQUEST_TIMED_OUT, too_large=ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    )
    return {partition: heard if each is ErrorCode.NONE else each for partition, each in errors.items()}


def _commit_failed(ticket: Ticket, errors: _Errors, error: ErrorCode) -> Replies:
    return [(ticket, _response(_failed(errors, error)))]


def _transactional_commit_failed(ticket: Ticket, errors: _Errors, error: ErrorCode) -> Replies:
    return [(ticket, _transactional_response(_failed(errors, error)))]


def _response(errors: _Errors) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic, [OffsetCommitResponsePartition(partition, error.value) for partition, error in found]
            )
            for topic, found in _by_topic(errors)
        ]
    )


def _transactional_response(errors: _Errors) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic, [TxnOffsetCommitResponsePartition(partition, error.value) for partition, error in found]
            )
            for topic, found in _by_topic(errors)
        ]
    )


def _by_topic(errors: _Errors) -> Iterable[tuple[str, list[tuple[int, ErrorCode]]]]:
    found: dict[str, list[tuple[int, ErrorCode]]] = {}
    for (topic, partition), error in errors.items():
        found.setdefault(topic, []).append((partition, error))
    return found.items()
