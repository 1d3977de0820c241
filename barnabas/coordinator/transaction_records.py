"""Records of `__transaction_state`: what becomes of a transactional id's transaction, in version 0, the only one.

The key is the transactional id; a null value is a tombstone. Partitions stand grouped by topic. A transaction that is
Empty has none and is written with null in their place, as Kafka does.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from barnabas.coordinator import record_fields
from barnabas.coordinator.record_fields import FieldReader, NotDecodable

_VERSION: Final = 0
_HEAD: Final = Struct(">hqhib")
_TIMES: Final = Struct(">qq")
_NO_PARTITIONS: Final = b"\xff\xff\xff\xff"


class TransactionState(IntEnum):
    """The state of a transaction by its byte in the log. PREPARE_EPOCH_FENCE is never stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class TransactionMetadata(NamedTuple):
    """What the log holds of one transactional id. Times are wall-clock milliseconds, -1 for none."""

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    state: TransactionState
    partitions: tuple[tuple[str, int], ...]
    last_update_timestamp_ms: int
    start_timestamp_ms: int


def encode_transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return b"\0\0" + record_fields.text(transactional_id)


def decode_transaction_key(key: bytes | None) -> str:
    """The transactional id that a record is about. Raises NotDecodable."""
    if key is None:
        raise NotDecodable("a record without a key")
    fields = FieldReader(key)
    fields.version(_VERSION, "a key")
    return fields.text()


def encode_transaction_value(value: TransactionMetadata) -> bytes:
    """The value of a transactional id; an Empty transaction has no partitions."""
    assert value.state is not TransactionState.EMPTY or not value.partitions, value
    head = _HEAD.pack(
        _VERSION, value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.state.value
    )
    times = _TIMES.pack(value.last_update_timestamp_ms, value.start_timestamp_ms)
    if value.state is TransactionState.EMPTY:
        return head + _NO_PARTITIONS + times
    by_topic: dict[str, list[int]] = {}
    for topic, partition in value.partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [head, record_fields.i32(len(by_topic))]
    for topic, partitions in by_topic.items():
        parts += (record_fields.text(topic), record_fields.i32(len(partitions)), *map(record_fields.i32, partitions))
    return b"".join((*parts, times))


def decode_transaction_value(value: bytes) -> TransactionMetadata:
    """What a record's value says. Raises NotDecodable."""
    fields = FieldReader(value)
    fields.version(_VERSION, "a transaction")
    producer_id, epoch, timeout_ms, number = fields.i64(), fields.i16(), fields.i32(), fields.i8()
    try:
        state = TransactionState(number)
    except ValueError:
        raise NotDecodable(f"a transaction in state {number}") from None
    partitions: list[tuple[str, int]] = []
    for _ in range(fields.nullable_count()):
        topic = fields.text()
        partitions += [(topic, fields.i32()) for _ in range(fields.count())]
    return TransactionMetadata(producer_id, epoch, timeout_ms, state, tuple(partitions), fields.i64(), fields.i64())
