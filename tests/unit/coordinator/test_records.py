"""Records of the coordinators' topics are Kafka's: bytes that Kafka 2.7.2's classes wrote, in kafka_records.json.

`python -m tests.compatibility.capture_coordinator_records` writes that file.
"""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator import group_records, transaction_records
from barnabas.coordinator.group_records import (
    GroupKey,
    GroupMetadata,
    MemberMetadata,
    OffsetAndMetadata,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from barnabas.coordinator.record_fields import NotDecodable
from barnabas.coordinator.transaction_records import (
    TransactionMetadata,
    TransactionState,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from barnabas.protocol.primitives import UnrepresentableField

WRITTEN: dict[str, bytes] = {
    name: bytes.fromhex(digits)
    for name, digits in json.loads((Path(__file__).parent / "kafka_records.json").read_text()).items()
}
WORD = "caf\u00e9 \U0001f680"
AT = 1_600_000_000_000
SUBSCRIPTION = bytes.fromhex("0000000000010001") + b"t" + b"\xff" * 4

KEYS = {
    "offset_key_v1": OffsetKey("readers", "orders", 7),
    "offset_key_v1_words": OffsetKey(WORD, "t", (1 << 31) - 1),
    "offset_key_v1_nameless": OffsetKey("", "orders", 7),
    "group_key_v2": GroupKey("readers"),
    "group_key_v2_words": GroupKey(WORD),
}
OFFSETS = {
    "offset_value_v3": OffsetAndMetadata(42, 5, "note", AT),
    "offset_value_v3_bare": OffsetAndMetadata((1 << 63) - 1, -1, "", -1),
    "offset_value_v1_expiring": OffsetAndMetadata(42, -1, WORD, AT, AT + 60_000),
}
OLD_OFFSETS = {name: OffsetAndMetadata(42, -1, "note", AT) for name in WRITTEN if name in {
    "offset_value_v0", "offset_value_v1_unset", "offset_value_v2",
}}  # fmt: skip
CONSUMER = MemberMetadata("c-1", None, "client", "/10.0.0.1", 300_000, 10_000, SUBSCRIPTION, bytes(10))
CONNECT = MemberMetadata("i-1", "i", "client", "/10.0.0.1", 300_000, 10_000, SUBSCRIPTION, b"")
GROUPS = {
    "empty": GroupMetadata("consumer", 3, None, None, AT, ()),
    "untyped": GroupMetadata("", 0, None, None, -1, ()),
    "member": GroupMetadata("consumer", 4, "range", "c-1", AT, (CONSUMER,)),
    "static": GroupMetadata("connect", 5, "sessioned", "i-1", AT, (CONNECT,)),
}
TRANSACTIONS = {
    "empty": TransactionMetadata(9_000_000_001, 3, 60_000, TransactionState.EMPTY, (), AT + 5000, -1),
    "ongoing": TransactionMetadata(
        9_000_000_001, 3, 60_000, TransactionState.ONGOING, (("orders", 7), ("orders", 8)), AT + 5000, AT
    ),
    "topics": TransactionMetadata(
        9_000_000_001, 3, 60_000, TransactionState.PREPARE_COMMIT, (("a", 1), ("b", 0)), AT + 5000, AT
    ),
    "complete": TransactionMetadata(9_000_000_001, 3, 60_000, TransactionState.COMPLETE_ABORT, (), AT + 5000, AT),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_written_and_read_as_kafka_writes_them(name: str) -> None:
    key = KEYS[name]
    written = encode_group_key(key.group_id) if isinstance(key, GroupKey) else encode_offset_key(*key)
    assert written == WRITTEN[name]
    assert decode_key(written) == key


def test_a_key_of_version_0_names_an_offset_too() -> None:
    assert decode_key(WRITTEN["offset_key_v0"]) == KEYS["offset_key_v1"]


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_are_written_and_read_as_kafka_writes_them(name: str) -> None:
    assert encode_offset_value(OFFSETS[name]) == WRITTEN[name]
    assert decode_offset_value(WRITTEN[name]) == OFFSETS[name]


@pytest.mark.parametrize("name", OLD_OFFSETS)
def test_offsets_of_older_versions_are_read(name: str) -> None:
    assert len(OLD_OFFSETS) == 3
    assert decode_offset_value(WRITTEN[name]) == OLD_OFFSETS[name]


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_written_and_read_as_kafka_writes_them(name: str) -> None:
    assert encode_group_value(GROUPS[name]) == WRITTEN[f"group_value_v3_{name}"]
    assert decode_group_value(WRITTEN[f"group_value_v3_{name}"]) == GROUPS[name]


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_groups_of_older_versions_are_read_without_what_they_cannot_say(version: int, name: str) -> None:
    group = GROUPS[name]
    if version < 2:
        group = group._replace(current_state_timestamp_ms=-1)
    members = tuple(member._replace(group_instance_id=None) for member in group.members)
    if version == 0:
        members = tuple(member._replace(rebalance_timeout_ms=member.session_timeout_ms) for member in members)
    assert decode_group_value(WRITTEN[f"group_value_v{version}_{name}"]) == group._replace(members=members)


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_transactions_are_written_and_read_as_kafka_writes_them(name: str) -> None:
    assert encode_transaction_value(TRANSACTIONS[name]) == WRITTEN[f"transaction_value_v0_{name}"]
    assert decode_transaction_value(WRITTEN[f"transaction_value_v0_{name}"]) == TRANSACTIONS[name]


def test_transactional_ids_are_written_and_read_as_kafka_writes_them() -> None:
    for name, transactional_id in (("transaction_key_v0", "payments"), ("transaction_key_v0_words", WORD)):
        assert encode_transaction_key(transactional_id) == WRITTEN[name]
        assert decode_transaction_key(WRITTEN[name]) == transactional_id


def test_every_record_of_kafka_is_named_here() -> None:
    named = {*KEYS, "offset_key_v0", *OFFSETS, *OLD_OFFSETS, "transaction_key_v0", "transaction_key_v0_words"}
    named |= {f"group_value_v{version}_{name}" for version in range(4) for name in GROUPS}
    assert named | {f"transaction_value_v0_{name}" for name in TRANSACTIONS} == set(WRITTEN)


def _reader(name: str):  # type: ignore[no-untyped-def]
    kind = "_".join(name.split("_")[:2])
    return {
        "offset_key": decode_key,
        "group_key": decode_key,
        "offset_value": decode_offset_value,
        "group_value": decode_group_value,
        "transaction_key": decode_transaction_key,
        "transaction_value": decode_transaction_value,
    }[kind]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_record_that_is_cut_off_anywhere_is_refused(name: str) -> None:
    for size in range(len(WRITTEN[name])):
        with pytest.raises(NotDecodable):
            _reader(name)(WRITTEN[name][:size])


@pytest.mark.parametrize("name", WRITTEN)
def test_versions_that_are_not_known_are_refused(name: str) -> None:
    for version in (b"\xff\xff", b"\0\x0b", b"\x7f\xff"):
        with pytest.raises(NotDecodable, match="version"):
            _reader(name)(version + WRITTEN[name][2:])


def test_a_record_without_a_key_is_refused() -> None:
    for decode in (decode_key, decode_transaction_key):
        with pytest.raises(NotDecodable):
            decode(None)


@given(st.sampled_from(sorted(WRITTEN)), st.data())
def test_damaged_records_are_read_or_refused(name: str, data: st.DataObject) -> None:
    damaged = bytearray(WRITTEN[name])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(NotDecodable):
        _reader(name)(bytes(damaged))


def test_texts_without_a_length_are_refused() -> None:
    null = b"\xff\xff"
    for key in (b"\0\1" + null + b"\0\1t" + bytes(4), b"\0\1\0\1g" + null + bytes(4), b"\0\2" + null + bytes(4)):
        with pytest.raises(NotDecodable):
            decode_key(key)
    with pytest.raises(NotDecodable):
        decode_offset_value(b"\0\3" + bytes(12) + null + bytes(20))


def test_a_count_of_members_that_cannot_be_there_costs_nothing() -> None:
    untyped = WRITTEN["group_value_v3_untyped"]
    with pytest.raises(NotDecodable, match="2147483647 elements"):
        decode_group_value(untyped[:-4] + b"\x7f\xff\xff\xff")
    with pytest.raises(NotDecodable):
        decode_transaction_value(WRITTEN["transaction_value_v0_empty"].replace(b"\xff" * 4, b"\xff\xff\xff\xfe", 1))


def test_a_state_that_there_is_not_is_refused() -> None:
    with pytest.raises(NotDecodable, match="state 8"):
        decode_transaction_value(
            WRITTEN["transaction_value_v0_ongoing"].replace(b"\0\0\xea\x60\1", b"\0\0\xea\x60\x08")
        )


def test_a_negative_leader_epoch_is_none() -> None:
    value = encode_offset_value(OffsetAndMetadata(1, -7, "", 2))
    assert decode_offset_value(value).leader_epoch == group_records.NO_LEADER_EPOCH


def test_what_a_record_cannot_hold_is_not_written() -> None:
    with pytest.raises(UnrepresentableField):
        encode_offset_key("g" * 32768, "t", 0)
    with pytest.raises(UnrepresentableField):
        encode_offset_value(OffsetAndMetadata(1, -1, "m" * 32768, 2))


def test_the_partitions_of_a_transaction_stand_grouped_by_topic() -> None:
    mixed = TRANSACTIONS["ongoing"]._replace(partitions=(("a", 1), ("b", 0), ("a", 0)))
    read = transaction_records.decode_transaction_value(encode_transaction_value(mixed))
    assert read.partitions == (("a", 1), ("a", 0), ("b", 0))
