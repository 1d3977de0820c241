"""Values that say where they belong, so that a record that went astray or was changed is known by looking at it.

The form is `topic|partition|producer|epoch|sequence|crc|padding`: the checksum is over all the rest, padding included,
and the padding is drawn from the head, so that bytes moved from another record do not pass.
"""

import zlib
from typing import NamedTuple

from barnabas.protocol.ids import TopicPartition


class Written(NamedTuple):
    """What a value says of itself. `sequence` counts a producer's records of one partition from 0 on."""

    topic_partition: TopicPartition
    producer: str
    epoch: int
    sequence: int


def value_of(written: Written, *, size_bytes: int = 0) -> bytes:
    """The value, at least `size_bytes` long. Topic and producer hold no `|`."""
    (topic, partition), producer, epoch, sequence = written
    assert "|" not in topic + producer, f"a name with a bar: {written}"
    head = f"{topic}|{partition}|{producer}|{epoch}|{sequence}|".encode()
    padding = _padding(head, size_bytes - len(head) - 9)
    return b"%s%08x|%s" % (head, zlib.crc32(padding, zlib.crc32(head)), padding)


def read_value(value: bytes) -> Written | None:
    """What the value says, or None when it is not one or was changed."""
    parts = value.split(b"|", 6)
    if len(parts) != 7:
        return None
    topic, partition, producer, epoch, sequence, checksum, padding = parts
    head = value[: len(value) - len(padding) - 9]
    if checksum != b"%08x" % zlib.crc32(padding, zlib.crc32(head)) or padding != _padding(head, len(padding)):
        return None
    try:
        return Written(TopicPartition(topic.decode(), int(partition)), producer.decode(), int(epoch), int(sequence))
    except ValueError:
        return None


def short_form(value: bytes) -> bytes:
    """The value without its padding where it is whole, else the value itself: what a large history keeps of it."""
    if read_value(value) is None:
        return value
    return value[: len(value) - len(value.split(b"|", 6)[6])]


def _padding(head: bytes, length: int) -> bytes:
    return (head * (length // len(head) + 1))[:length] if length > 0 else b""
