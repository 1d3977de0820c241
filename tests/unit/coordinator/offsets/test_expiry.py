"""Offsets go when nobody has needed them for the retention time, and never earlier (KIP-211, museum 63)."""

from dataclasses import replace

import pytest

from barnabas.coordinator.group_records import OffsetAndMetadata, decode_offset_value, encode_offset_value
from barnabas.coordinator.offsets.committed import CommittedOffsets
from barnabas.coordinator.offsets.deletion import tombstones
from barnabas.coordinator.offsets.expiry import NO_GROUP, PIECE_BYTES, GroupUse, expired_partitions, pieces
from barnabas.coordinator.outcome import CoordinatorRecord

DAY = 24 * 60 * 60 * 1000
RETENTION = 7 * DAY
T0 = 1_700_000_000_000
EMPTY = GroupUse("consumer", is_empty=True, is_stable=False, state_since_ms=T0, subscribed_topics=frozenset())
STABLE = GroupUse("consumer", is_empty=False, is_stable=True, state_since_ms=T0, subscribed_topics=frozenset({"a"}))


def offsets_at(committed_ms: int = T0, expires_ms: int = -1, topics: str = "a") -> CommittedOffsets:
    offsets = CommittedOffsets("g")
    for topic in topics:
        offsets.replay(topic, 0, OffsetAndMetadata(5, -1, "", committed_ms, expires_ms))
    return offsets


def expired(offsets: CommittedOffsets, use: GroupUse, wall_ms: int) -> list[str]:
    found = expired_partitions(offsets, use, retention_ms=RETENTION, wall_ms=wall_ms)
    return [topic for topic, _ in found]


def last_moment(offsets: CommittedOffsets, use: GroupUse, expected_ms: int) -> None:
    assert expired(offsets, use, expected_ms - 1) == []
    assert expired(offsets, use, expected_ms) == ["a"]


def test_offsets_without_a_group_age_from_their_commit() -> None:
    last_moment(offsets_at(T0 + DAY), NO_GROUP, T0 + DAY + RETENTION)
    last_moment(offsets_at(T0 + DAY), replace(NO_GROUP, protocol_type=""), T0 + DAY + RETENTION)


def test_offsets_of_an_empty_group_age_from_when_it_became_so() -> None:
    last_moment(offsets_at(T0 - 100 * DAY), EMPTY, T0 + RETENTION)
    last_moment(offsets_at(T0 + DAY), EMPTY, T0 + RETENTION)


def test_offsets_of_an_empty_group_that_does_not_tell_since_when_age_from_their_commit() -> None:
    last_moment(offsets_at(T0 - DAY), replace(EMPTY, state_since_ms=None), T0 - DAY + RETENTION)


def test_offsets_of_an_empty_group_of_any_type_age() -> None:
    last_moment(offsets_at(), replace(EMPTY, protocol_type="connect", subscribed_topics=None), T0 + RETENTION)


def test_a_stable_consumer_group_keeps_what_it_subscribes_to() -> None:
    assert expired(offsets_at(topics="ab"), STABLE, T0 + 100 * DAY) == ["b"]
    assert expired(offsets_at(topics="ab"), STABLE, T0 + RETENTION - 1) == []


def test_a_group_that_rebalances_keeps_all() -> None:
    rebalancing = replace(STABLE, is_stable=False, subscribed_topics=frozenset())
    assert expired(offsets_at(topics="ab"), rebalancing, T0 + 100 * DAY) == []


def test_a_group_whose_subscriptions_are_not_known_keeps_all() -> None:
    assert expired(offsets_at(topics="ab"), replace(STABLE, subscribed_topics=None), T0 + 100 * DAY) == []


def test_members_of_another_type_keep_all() -> None:
    assert expired(offsets_at(topics="ab"), replace(STABLE, protocol_type="connect"), T0 + 100 * DAY) == []


@pytest.mark.parametrize("use", [NO_GROUP, EMPTY, replace(STABLE, subscribed_topics=frozenset())])
def test_a_time_of_its_own_is_all_that_counts(use: GroupUse) -> None:
    last_moment(offsets_at(T0 - 100 * DAY, T0 + DAY), use, T0 + DAY)


def test_a_time_of_its_own_does_not_take_what_is_consumed() -> None:
    assert expired(offsets_at(T0, T0 + 1), STABLE, T0 + 100 * DAY) == []


def test_an_old_record_without_a_time_of_expiry_does_not_expire_at_once() -> None:
    old = decode_offset_value(bytes.fromhex("0001000000000000002a00046e6f746500000174876e8000ffffffffffffffff"))
    offsets = CommittedOffsets("g")
    offsets.replay("a", 0, old)
    last_moment(offsets, NO_GROUP, old.commit_timestamp_ms + RETENTION)


def test_what_a_transaction_may_yet_change_stays() -> None:
    offsets = offsets_at(topics="ab")
    offsets.replay_pending("b", 0, OffsetAndMetadata(6, -1, "", T0), 1)
    assert expired(offsets, EMPTY, T0 + RETENTION) == ["a"]
    offsets.replay_marker(1, commit=False)
    assert expired(offsets, EMPTY, T0 + RETENTION) == ["a", "b"]


def test_a_clock_behind_that_of_the_broker_before_expires_nothing() -> None:
    assert expired(offsets_at(T0 + 30 * DAY), NO_GROUP, T0) == []
    assert expired(offsets_at(), replace(EMPTY, state_since_ms=T0 + 30 * DAY), T0 + RETENTION) == []


def test_a_commit_makes_an_offset_young_again() -> None:
    offsets = offsets_at()
    offsets.replay("a", 0, decode_offset_value(encode_offset_value(OffsetAndMetadata(6, -1, "", T0 + DAY))))
    last_moment(offsets, NO_GROUP, T0 + DAY + RETENTION)


def test_tombstones_are_written_in_pieces_that_any_topic_takes() -> None:
    offsets = CommittedOffsets("g" * 200)
    for number in range(5000):
        offsets.replay("topic", number, OffsetAndMetadata(5, -1, "", T0))
    records = tombstones(offsets, expired_partitions(offsets, NO_GROUP, retention_ms=1, wall_ms=T0 + 1))
    cut = list(pieces(records))
    assert [record for piece in cut for record in piece] == records
    assert len(records) == 5000
    assert all(sum(len(record.key) for record in piece) <= PIECE_BYTES for piece in cut)
    assert len(cut) == -(-5000 // (PIECE_BYTES // len(records[0].key)))


def test_a_key_larger_than_a_piece_is_a_piece_of_its_own() -> None:
    large, small = CoordinatorRecord(bytes(PIECE_BYTES + 1), None), CoordinatorRecord(b"k", None)
    assert list(pieces([small, large, small])) == [[small], [large], [small]]
    assert list(pieces([])) == []
