"""What consumers tell each other through the group, as far as it is read here: the protocol type "consumer". Pure.

Of a subscription these are a version of two bytes, the topics, and from version 1 on, behind the user data, the
partitions that the consumer owns (KIP-429); of an assignment its partitions. Newer versions only append. Numbers are
big endian. Other protocol types keep what they like in their metadata, and nobody here looks into it.
"""

import struct
from typing import Final

from barnabas.coordinator.record_fields import FieldReader, NotDecodable
from barnabas.protocol.ids import TopicPartition

CONSUMER: Final = "consumer"
_HEAD: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")
_OWNED_SINCE: Final = 1


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics, or None where this is no subscription."""
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics: list[str] = []
        at = _HEAD.size
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if not 0 <= size <= len(metadata) - at:
                return None
            topics.append(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def loses_partitions(metadata: bytes, assignment: bytes) -> bool:
    """Whether a consumer that joined with `metadata` owned what `assignment` does not leave to it.

    False where either cannot be read. Who gives everything up before it joins owns nothing.
    """
    try:
        return not _owned(metadata) <= _assigned(assignment)
    except NotDecodable:
        return False


def _owned(metadata: bytes) -> set[TopicPartition]:
    reader = FieldReader(metadata)
    if reader.i16() < _OWNED_SINCE:
        return set()
    for _ in range(reader.count()):
        reader.text()
    user_data_size = reader.i32()
    reader.take(max(user_data_size, 0))
    return _partitions(reader)


def _assigned(assignment: bytes) -> set[TopicPartition]:
    """A leader may have had nothing to say to this member."""
    if not assignment:
        return set()
    reader = FieldReader(assignment)
    reader.i16()
    return _partitions(reader)


def _partitions(reader: FieldReader) -> set[TopicPartition]:
    found: set[TopicPartition] = set()
    for _ in range(reader.count()):
        topic = reader.text()
        found.update(TopicPartition(topic, reader.i32()) for _ in range(reader.count()))
    return found
