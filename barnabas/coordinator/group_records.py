"""Records of `__consumer_offsets`: committed offsets and groups, in every version that Kafka up to 2.7 wrote.

A key's version tells what it names: 0 and 1 an offset (group, topic, partition), 2 a group. Written are keys of version
1 and 2, and values of version 3; an offset that expires at a time of its own is written in version 1, the only one that
can say so (KIP-211). A null value is a tombstone. Readers raise NotDecodable; offsets are read a million at a time when
a coordinator loads, so their readers are short.
"""

import struct
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from barnabas.coordinator import record_fields
from barnabas.coordinator.record_fields import FieldReader, NotDecodable
from barnabas.protocol.primitives import UnrepresentableField

NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_GROUP_VALUE_VERSION: Final = 3
_LATEST_OFFSET_VALUE: Final = 3
_OFFSET_VALUE_V3: Final = b"\0\3"
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_KEY_HEAD: Final = Struct(">hh")
_HEAD_V0: Final = Struct(">hqh")
_HEAD_V3: Final = Struct(">hqih")
_TWO_TIMES: Final = Struct(">qq")
_GROUP_HEAD: Final = Struct(">h")


class OffsetKey(NamedTuple):
    """Names the committed offset of one partition."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Names a group."""

    group_id: str


Key: TypeAlias = OffsetKey | GroupKey


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next one to consume, with the client's note.

    Times are wall-clock milliseconds. `expire_timestamp_ms` is NO_TIMESTAMP where the broker's retention counts;
    `leader_epoch` is NO_LEADER_EPOCH where the client did not tell it (KIP-320).
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP


class MemberMetadata(NamedTuple):
    """A member as the log holds it; `subscription` is its metadata for the protocol that was chosen."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A generation of a group as the log holds it; without members the group is Empty.

    `current_state_timestamp_ms` says since when, NO_TIMESTAMP where the version of the record has no such field.
    """

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...]


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset, version 1."""
    return b"\0\1" + record_fields.text(group_id) + record_fields.text(topic) + _I32.pack(partition)


def encode_group_key(group_id: str) -> bytes:
    """The key of a group, version 2."""
    return b"\0\2" + record_fields.text(group_id)


def decode_key(key: bytes | None) -> Key:
    """What a record of the topic is about."""
    if key is None:
        raise NotDecodable("a record without a key")
    try:
        version, size = _KEY_HEAD.unpack_from(key)
        end = 4 + size
        if version in (_OFFSET_KEY_VERSION, 0):
            (topic_size,) = _I16.unpack_from(key, end)
            topic_end = end + 2 + topic_size
            (partition,) = _I32.unpack_from(key, topic_end)
            if size >= 0 <= topic_size:
                return OffsetKey(_text(key, 4, end), _text(key, end + 2, topic_end), partition)
        elif version == _GROUP_KEY_VERSION and 4 <= end <= len(key):
            return GroupKey(_text(key, 4, end))
    except struct.error:
        version = _GROUP_KEY_VERSION
    if not 0 <= version <= _GROUP_KEY_VERSION:
        raise NotDecodable(f"a key of version {version}, known are 0 to {_GROUP_KEY_VERSION}")
    raise NotDecodable(f"{len(key)} bytes are no key: a text without a length, or cut off")


def encode_offset_value(value: OffsetAndMetadata) -> bytes:
    """The value of a committed offset: version 3, or 1 where it expires at a time of its own."""
    metadata = value.metadata.encode()
    try:
        if value.expire_timestamp_ms != NO_TIMESTAMP:
            head = _HEAD_V0.pack(1, value.offset, len(metadata))
            return head + metadata + _TWO_TIMES.pack(value.commit_timestamp_ms, value.expire_timestamp_ms)
        head = _HEAD_V3.pack(3, value.offset, value.leader_epoch, len(metadata))
        return head + metadata + _I64.pack(value.commit_timestamp_ms)
    except struct.error as error:
        raise UnrepresentableField(f"{value}: {error}") from None


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """A committed offset of version 0 to 3."""
    leader_epoch, expires_ms = NO_LEADER_EPOCH, NO_TIMESTAMP
    try:
        if value[:2] == _OFFSET_VALUE_V3:
            version, offset, leader_epoch, size = _HEAD_V3.unpack_from(value)
            start = 16
        else:
            version, offset, size = _HEAD_V0.unpack_from(value)
            start = 12
        (committed_ms,) = _I64.unpack_from(value, start + size)
        if version == 1:
            (expires_ms,) = _I64.unpack_from(value, start + size + 8)
    except struct.error:
        raise NotDecodable(f"{len(value)} bytes end within a committed offset") from None
    if not 0 <= version <= _LATEST_OFFSET_VALUE or size < 0:
        raise NotDecodable(f"a committed offset of version {version}, known are 0 to 3, with a note of length {size}")
    metadata = _text(value, start, start + size) if size else ""
    return OffsetAndMetadata(offset, max(leader_epoch, NO_LEADER_EPOCH), metadata, committed_ms, expires_ms)


def _text(data: bytes, start: int, end: int) -> str:
    return str(data[start:end], "utf-8", "replace")


def encode_group_value(value: GroupMetadata) -> bytes:
    """The value of a group, version 3."""
    parts = [
        _GROUP_HEAD.pack(_GROUP_VALUE_VERSION),
        record_fields.text(value.protocol_type),
        _I32.pack(value.generation_id),
        record_fields.nullable_text(value.protocol_name),
        record_fields.nullable_text(value.leader_id),
        _I64.pack(value.current_state_timestamp_ms),
        _I32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            record_fields.text(member.member_id),
            record_fields.nullable_text(member.group_instance_id),
            record_fields.text(member.client_id),
            record_fields.text(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            record_fields.block(member.subscription),
            record_fields.block(member.assignment),
        )
    return b"".join(parts)


def decode_group_value(value: bytes) -> GroupMetadata:
    """A group of version 0 to 3."""
    fields = FieldReader(value)
    version = fields.version(_GROUP_VALUE_VERSION, "a group")
    protocol_type, generation_id = fields.text(), fields.i32()
    protocol_name, leader_id = fields.nullable_text(), fields.nullable_text()
    since_ms = fields.i64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_member(fields, version) for _ in range(fields.count()))
    return GroupMetadata(protocol_type, generation_id, protocol_name, leader_id, since_ms, members)


def _member(fields: FieldReader, version: int) -> MemberMetadata:
    member_id = fields.text()
    group_instance_id = fields.nullable_text() if version >= 3 else None
    client_id, client_host = fields.text(), fields.text()
    rebalance_timeout_ms = fields.i32() if version >= 1 else None
    session_timeout_ms = fields.i32()
    return MemberMetadata(
        member_id,
        group_instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        fields.block(),
        fields.block(),
    )
