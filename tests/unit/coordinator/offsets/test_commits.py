"""OffsetCommit and TxnOffsetCommit: the records they become, and what is answered when these are refused."""

import pytest

from barnabas.coordinator.group_records import OffsetAndMetadata, OffsetKey, decode_key, decode_offset_value
from barnabas.coordinator.offsets.commits import (
    commit_in_transaction,
    commit_offsets,
    refuse_commit,
    refuse_commit_in_transaction,
)
from barnabas.coordinator.offsets.settings import OffsetSettings
from barnabas.coordinator.outcome import Outcome, ProducerStamp, Ticket
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

NOW = 1_700_000_000_000
TICKET = Ticket(7)
SETTINGS = OffsetSettings(metadata_max_bytes=4)
Partition = OffsetCommitRequestPartition


def request(*partitions: Partition, **fields: object) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", list(partitions))], **fields)  # type: ignore[arg-type]


def commit(asked: OffsetCommitRequest) -> Outcome:
    return commit_offsets(TICKET, asked, settings=SETTINGS, wall_ms=NOW)


def stored(outcome: Outcome) -> dict[OffsetKey, OffsetAndMetadata]:
    found = {}
    for key, value in outcome.records:
        assert value is not None
        name = decode_key(key)
        assert isinstance(name, OffsetKey)
        found[name] = decode_offset_value(value)
    return found


def errors(response: OffsetCommitResponse | TxnOffsetCommitResponse) -> list[tuple[str, int, ErrorCode]]:
    return [
        (topic.name, each.partition_index, ErrorCode(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    ]


def answer(outcome: Outcome) -> list[tuple[str, int, ErrorCode]]:
    ((ticket, response),) = outcome.replies
    assert ticket == TICKET
    return errors(response)


def test_a_commit_becomes_one_record_for_each_partition() -> None:
    outcome = commit(request(Partition(0, 5, 3, committed_metadata="note"), Partition(1, 6, committed_metadata=None)))
    assert stored(outcome) == {
        OffsetKey("g", "t", 0): OffsetAndMetadata(5, 3, "note", NOW),
        OffsetKey("g", "t", 1): OffsetAndMetadata(6, -1, "", NOW),
    }
    assert answer(outcome) == [("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.NONE)]
    assert outcome.producer is None


def test_version_1_may_name_the_time_of_the_commit() -> None:
    (value,) = stored(commit(request(Partition(0, 5, commit_timestamp=77)))).values()
    assert value.commit_timestamp_ms == 77


@pytest.mark.parametrize(
    ("retention_time_ms", "expires_ms"), [(-1, -1), (0, NOW), (60_000, NOW + 60_000), ((1 << 63) - 1, -1)]
)
def test_a_retention_time_becomes_the_time_when_the_offset_expires(retention_time_ms: int, expires_ms: int) -> None:
    (value,) = stored(commit(request(Partition(0, 5), retention_time_ms=retention_time_ms))).values()
    assert (value.commit_timestamp_ms, value.expire_timestamp_ms) == (NOW, expires_ms)


def test_a_note_that_is_too_long_refuses_its_partition_alone() -> None:
    outcome = commit(request(Partition(0, 5, committed_metadata="12345"), Partition(1, 6, committed_metadata="1234")))
    assert list(stored(outcome)) == [OffsetKey("g", "t", 1)]
    assert answer(outcome) == [("t", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE), ("t", 1, ErrorCode.NONE)]


def test_notes_are_measured_in_utf16_units() -> None:
    assert answer(commit(request(Partition(0, 5, committed_metadata="\u00e9" * 4)))) == [("t", 0, ErrorCode.NONE)]
    for note in ("\u00e9" * 5, "\U0001f680" * 2 + "1"):
        outcome = commit(request(Partition(0, 5, committed_metadata=note)))
        assert (answer(outcome)[0][2], outcome.records) == (ErrorCode.OFFSET_METADATA_TOO_LARGE, [])


def test_a_partition_that_is_named_twice_is_committed_as_it_is_named_last() -> None:
    asked = request(Partition(0, 5), Partition(0, 9))
    asked.topics.append(OffsetCommitRequestTopic("t", [Partition(1, 1), Partition(0, 2)]))
    outcome = commit(asked)
    assert [value.offset for value in stored(outcome).values()] == [2, 1]
    assert answer(outcome) == [("t", 0, ErrorCode.NONE), ("t", 1, ErrorCode.NONE)]


def test_a_commit_of_nothing_is_answered_with_nothing() -> None:
    outcome = commit(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", [])]))
    assert (outcome.records, answer(outcome)) == ([], [])


@pytest.mark.parametrize(
    ("logs_error", "heard"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_what_the_log_refuses_is_told_as_kafka_tells_it(logs_error: ErrorCode, heard: ErrorCode) -> None:
    asked = request(Partition(0, 5), Partition(1, 6, committed_metadata="12345"))
    outcome = commit(asked)
    assert outcome.if_failed is not None
    ((ticket, response),) = outcome.if_failed(logs_error)
    expected = [("t", 0, heard), ("t", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]
    assert (ticket, errors(response)) == (TICKET, expected)
    in_transaction = commit_in_transaction(TICKET, transactional(long_note=True), settings=SETTINGS, wall_ms=NOW)
    assert in_transaction.if_failed is not None
    ((ticket, response),) = in_transaction.if_failed(logs_error)
    assert (ticket, errors(response)) == (TICKET, expected)


def transactional(*, long_note: bool = False) -> TxnOffsetCommitRequest:
    partitions = [TxnOffsetCommitRequestPartition(0, 5, 3, None)]
    if long_note:
        partitions.append(TxnOffsetCommitRequestPartition(1, 6, 3, "12345"))
    return TxnOffsetCommitRequest("id", "g", 9, 2, topics=[TxnOffsetCommitRequestTopic("t", partitions)])


def test_a_commit_in_a_transaction_is_part_of_it() -> None:
    outcome = commit_in_transaction(TICKET, transactional(), settings=SETTINGS, wall_ms=NOW)
    assert stored(outcome) == {OffsetKey("g", "t", 0): OffsetAndMetadata(5, 3, "", NOW)}
    assert (outcome.producer, answer(outcome)) == (ProducerStamp(9, 2), [("t", 0, ErrorCode.NONE)])


def test_a_commit_in_a_transaction_measures_notes_too() -> None:
    asked = transactional(long_note=True)
    del asked.topics[0].partitions[0]
    outcome = commit_in_transaction(TICKET, asked, settings=SETTINGS, wall_ms=NOW)
    assert (outcome.records, outcome.producer) == ([], None)
    assert answer(outcome) == [("t", 1, ErrorCode.OFFSET_METADATA_TOO_LARGE)]


def test_a_refusal_names_each_partition_once() -> None:
    asked = request(Partition(0, 5), Partition(1, 5), Partition(0, 6))
    error = ErrorCode.ILLEGAL_GENERATION
    assert errors(refuse_commit(asked, error)) == [("t", 0, error), ("t", 1, error)]
    assert errors(refuse_commit_in_transaction(transactional(), error)) == [("t", 0, error)]
