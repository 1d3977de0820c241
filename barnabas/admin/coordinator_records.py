"""Records of `__consumer_offsets` and `__transaction_state` as the text that kafka-dump-log makes of them.

Keys and values are structures with a version of two bytes in front; null values are tombstones. `offset_record` and
`transaction_record` give the two texts. Sets and maps stand in the order in which Scala's hash tables hold them, which
Kafka's tool prints.
"""

import json
import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

DELETED: Final = "<DELETE>"
_CONSUMER: Final = "consumer"
_STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
_MASK: Final = 0xFFFFFFFF
_LEAST_TABLE: Final = 16
_LOAD_FACTOR: Final = 0.75
_Item = TypeVar("_Item")


class NotDecodable(Exception):
    """The record is none of that topic."""


class _Fields:
    """Takes the fields of a structure one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        try:
            (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        except struct.error:
            raise NotDecodable(f"{len(self._data)} bytes end within a field at byte {self._at}") from None
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise NotDecodable(f"{size} bytes cannot stand at byte {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.take(self.number("h")).decode("utf-8", "replace")

    def nullable_text(self) -> str | None:
        size = self.number("h")
        return None if size < 0 else self.take(size).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.take(max(self.number("i"), 0))

    def version(self, highest: int, what: str) -> int:
        version = self.number("h")
        if not 0 <= version <= highest:
            raise NotDecodable(f"{what} of version {version}, known are 0 to {highest}")
        return version


def offset_record(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Key and value of a record of `__consumer_offsets`. Raises NotDecodable."""
    if key is None:
        raise NotDecodable("a record without a key")
    fields = _Fields(key)
    version = fields.version(2, "a key")
    group = fields.text()
    if version == 2:
        return f"group_metadata::group={group}", DELETED if value is None else _group(_Fields(value))
    name = f"offset_commit::group={group},partition={fields.text()}-{fields.number('i')}"
    return name, DELETED if value is None else _committed(_Fields(value))


def _committed(fields: _Fields) -> str:
    version = fields.version(3, "a committed offset")
    offset = fields.number("q")
    if version == 3:
        fields.number("i")
    metadata = fields.text()
    return f"offset={offset},metadata={metadata}" if metadata else f"offset={offset}"


def _group(fields: _Fields) -> str:
    version = fields.version(3, "a group")
    protocol_type, generation = fields.text(), fields.number("i")
    protocol, _leader = fields.nullable_text(), fields.nullable_text()
    if version >= 2:
        fields.number("q")
    members = [_member(fields, version, protocol_type) for _ in range(max(fields.number("i"), 0))]
    assignment = ",".join(f"{name}={text}" for name, text in in_hash_order(members, lambda each: java_hash(each[0])))
    shown = {
        "protocolType": protocol_type,
        "protocol": protocol,
        "generationId": generation,
        "assignment": f"{{{assignment}}}",
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _member(fields: _Fields, version: int, protocol_type: str) -> tuple[str, str]:
    name = fields.text()
    if version >= 3:
        fields.nullable_text()
    fields.text()
    fields.text()
    fields.take(8 if version else 4)
    fields.block()
    assignment = fields.block()
    return name, _assignment(_Fields(assignment)) if protocol_type == _CONSUMER else _hex(assignment)


def _assignment(fields: _Fields) -> str:
    fields.number("h")
    partitions: list[str] = []
    for _ in range(fields.number("i")):
        topic = fields.text()
        partitions += [f"{topic}-{fields.number('i')}" for _ in range(fields.number("i"))]
    size = fields.number("i")
    user_data = _hex(fields.take(size)) if size > 0 else ""
    return f"[{', '.join(partitions)}]" + (f":{user_data}" if user_data else "")


def _hex(data: bytes) -> str:
    return f"{int.from_bytes(data):X}" if data else ""


def transaction_record(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """Key and value of a record of `__transaction_state`. Raises NotDecodable."""
    if key is None:
        raise NotDecodable("a record without a key")
    fields = _Fields(key)
    fields.version(0, "a key")
    name = f"transaction_metadata::transactionalId={fields.text()}"
    return name, DELETED if value is None else _transaction(_Fields(value))


def _transaction(fields: _Fields) -> str:
    fields.version(0, "a transaction")
    producer_id, epoch, timeout_ms, state = (fields.number(form) for form in "qhib")
    if not 0 <= state < len(_STATES):
        raise NotDecodable(f"a transaction in state {state}")
    partitions: list[tuple[str, int]] = []
    for _ in range(max(fields.number("i"), 0)):
        topic = fields.text()
        partitions += [(topic, fields.number("i")) for _ in range(fields.number("i"))]
    updated_ms = fields.number("q")
    names = [f"{topic}-{number}" for topic, number in in_hash_order(partitions, _hash_of_partition)]
    return (
        f"producerId:{producer_id},producerEpoch:{epoch},state={_STATES[state]},partitions=[{','.join(names)}],"
        f"txnLastUpdateTimestamp={updated_ms},txnTimeoutMs={timeout_ms}"
    )


def java_hash(text: str) -> int:
    """`String.hashCode`, without its sign: it goes over UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value


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
        value = hash_of(item)
        mixed = value ^ value >> 16
        return mixed & slots - 1, mixed - (1 << 32) if mixed >> 31 else mixed

    return sorted(known, key=place)
