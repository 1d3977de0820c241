"""Records of `__consumer_offsets` and `__transaction_state` as the text that kafka-dump-log makes of them.

`offset_record` and `transaction_record` give the two texts; a null value is a tombstone. Sets and maps stand in
the order in which Scala's hash tables hold them, which Kafka's tool prints.
"""

import json
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from barnabas.coordinator.group_records import (
    GroupKey,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from barnabas.coordinator.partitioning import java_hash
from barnabas.coordinator.record_fields import FieldReader
from barnabas.coordinator.transaction_records import (
    TransactionMetadata,
    decode_transaction_key,
    decode_transaction_value,
)

DELETED: Final = "<DELETE>"
_CONSUMER: Final = "consumer"
_STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
_MASK: Final = 0xFFFFFFFF
_LEAST_TABLE: Final = 16
_LOAD_FACTOR: Final = 0.75
_Item = TypeVar("_Item")


def offset_record(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Key and value of a record of `__consumer_offsets`. Raises NotDecodable."""
    match decode_key(key):
        case OffsetKey(group_id, topic, partition):
            name = f"offset_commit::group={group_id},partition={topic}-{partition}"
            return name, DELETED if value is None else _committed(decode_offset_value(value))
        case GroupKey(group_id):
            name = f"group_metadata::group={group_id}"
            return name, DELETED if value is None else _group(decode_group_value(value))


def _committed(value: OffsetAndMetadata) -> str:
    return f"offset={value.offset},metadata={value.metadata}" if value.metadata else f"offset={value.offset}"


def _group(value: GroupMetadata) -> str:
    members = in_hash_order(value.members, lambda each: java_hash(each.member_id))
    assignment = ",".join(f"{each.member_id}={_assigned(value.protocol_type, each.assignment)}" for each in members)
    shown = {
        "protocolType": value.protocol_type,
        "protocol": value.protocol_name,
        "generationId": value.generation_id,
        "assignment": f"{{{assignment}}}",
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _assigned(protocol_type: str, assignment: bytes) -> str:
    return _assignment(FieldReader(assignment)) if protocol_type == _CONSUMER else _hex(assignment)


def _assignment(fields: FieldReader) -> str:
    fields.i16()
    partitions: list[str] = []
    for _ in range(fields.i32()):
        topic = fields.text()
        partitions += [f"{topic}-{fields.i32()}" for _ in range(fields.i32())]
    size = fields.i32()
    user_data = _hex(fields.take(size)) if size > 0 else ""
    return f"[{', '.join(partitions)}]" + (f":{user_data}" if user_data else "")


def _hex(data: bytes) -> str:
    return f"{int.from_bytes(data):X}" if data else ""


def transaction_record(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Key and value of a record of `__transaction_state`. Raises NotDecodable."""
    name = f"transaction_metadata::transactionalId={decode_transaction_key(key)}"
    return name, DELETED if value is None else _transaction(decode_transaction_value(value))


def _transaction(value: TransactionMetadata) -> str:
    names = [f"{topic}-{number}" for topic, number in in_hash_order(value.partitions, _hash_of_partition)]
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={_STATES[value.state]},"
        f"partitions=[{','.join(names)}],txnLastUpdateTimestamp={value.last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _hash_of_partition(partition: tuple[str, int]) -> int:
    topic, number = partition
    return (31 * (31 + number) + java_hash(topic)) & _MASK


def in_hash_order(items: Iterable[_Item], hash_of: Callable[[_Item], int]) -> list[_Item]:
    """The order in which a hash table of Scala 2.13 gives its items: by slot, within one by the mixed hash."""
    known = list(items)
    slots = _LEAST_TABLE
    while len(known) >= slots * _LOAD_FACTOR:
        slots *= 2

    def place(item: _Item) -> tuple[int, int]:
        value = hash_of(item) & _MASK
        mixed = value ^ value >> 16
        return mixed & slots - 1, mixed - (1 << 32) if mixed >> 31 else mixed

    return sorted(known, key=place)
