"""What clients sent, what was acknowledged and what a full read gave, held against each other.

A value tells where it belongs: topic, partition, producer, sequence number and a checksum over all of it, with padding.
`find_anomalies` gives sentences, none when all is well. It knows nothing of brokers and is tested with planted faults.
"""

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.ids import TopicPartition

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Written:
    """What a value says of itself. `sequence` counts a producer's records of one partition from 0 on."""

    topic_partition: TopicPartition
    producer: str
    sequence: int


def value_of(written: Written, *, size_bytes: int) -> bytes:
    """The value, at least `size_bytes` long."""
    topic, partition = written.topic_partition
    head = f"{topic}|{partition}|{written.producer}|{written.sequence}|".encode()
    body = head + b"." * max(0, size_bytes - len(head) - 9)
    return body + b"|%08x" % zlib.crc32(body)


def read_value(value: bytes) -> Written | None:
    """What the value says, or None when it is not one or was changed."""
    body, _, checksum = value.rpartition(b"|")
    parts = body.split(b"|")
    if len(parts) < 4 or checksum != b"%08x" % zlib.crc32(body):
        return None
    topic, partition, producer, sequence = parts[:4]
    return Written(TopicPartition(topic.decode(), int(partition)), producer.decode(), int(sequence))


@dataclass(slots=True)
class History:
    """Records by partition. `sent` counts the sequence numbers that each producer has used."""

    sent: dict[tuple[TopicPartition, str], int] = field(default_factory=dict)
    acknowledged: dict[TopicPartition, dict[int, list[Written]]] = field(default_factory=lambda: defaultdict(dict))
    acknowledged_count: int = 0
    failed: list[tuple[Written, str]] = field(default_factory=list)

    def next_to_send(self, topic_partition: TopicPartition, producer: str) -> Written:
        """The next record of a producer in a partition; it counts as sent."""
        sequence = self.sent.get((topic_partition, producer), 0)
        self.sent[topic_partition, producer] = sequence + 1
        return Written(topic_partition, producer, sequence)

    def acknowledge(self, written: Written, offset: int) -> None:
        """The broker has said that the record stands at `offset`."""
        self.acknowledged[written.topic_partition].setdefault(offset, []).append(written)
        self.acknowledged_count += 1

    def fail(self, written: Written, error: str) -> None:
        """The client gave the record up; whether it was written is not known."""
        self.failed.append((written, error))

    def acknowledged_end(self, topic_partition: TopicPartition) -> int:
        """The offset after the last one that was acknowledged."""
        return max(list(self.acknowledged[topic_partition]), default=-1) + 1

    @property
    def sent_count(self) -> int:
        return sum(self.sent.values())


Read = Mapping[TopicPartition, Sequence[tuple[int, bytes]]]
"""Offset and value of each record of a full read, in the order in which they came."""


def find_anomalies(history: History, read: Read, *, start_offset: int = 0) -> list[str]:
    """What a log that is idempotent and loses nothing would not show."""
    partitions = {topic_partition for topic_partition, _ in history.sent} | set(read)
    found: list[str] = []
    for topic_partition in sorted(partitions):
        records = read.get(topic_partition, ())
        problems = [
            *_offset_anomalies([offset for offset, _ in records], start_offset),
            *_record_anomalies(history, topic_partition, records),
        ]
        found += [f"{topic_partition}: {problem}" for problem in problems]
    return found


def _offset_anomalies(offsets: Sequence[int], start_offset: int) -> list[str]:
    found: list[str] = []
    expected = start_offset
    for offset in offsets:
        if offset != expected:
            kind = "gap" if offset > expected else "repeat"
            found.append(f"{kind}: offset {offset} where {expected} was due")
        expected = offset + 1
    return _few(found)


def _record_anomalies(
    history: History, topic_partition: TopicPartition, records: Sequence[tuple[int, bytes]]
) -> list[str]:
    found: list[str] = []
    places: dict[Written, list[int]] = defaultdict(list)
    newest: dict[str, int] = {}
    for offset, value in records:
        written = read_value(value)
        if written is None:
            found.append(f"damage: offset {offset} holds {value[:40]!r}")
            continue
        sent = history.sent.get((topic_partition, written.producer), 0)
        if written.topic_partition != topic_partition or written.sequence >= sent:
            found.append(f"never sent here: {written} at offset {offset}")
        if written.sequence <= newest.get(written.producer, -1) and written not in places:
            found.append(
                f"order: {written.producer}'s record {written.sequence} at offset {offset} "
                f"comes after its record {newest[written.producer]}"
            )
        newest[written.producer] = max(written.sequence, newest.get(written.producer, -1))
        places[written].append(offset)
    found += [f"twice: {written} at offsets {offsets}" for written, offsets in places.items() if len(offsets) > 1]
    return _few(found) + _few(_acknowledgement_anomalies(history.acknowledged.get(topic_partition, {}), places))


def _acknowledgement_anomalies(
    acknowledged: Mapping[int, Sequence[Written]], places: Mapping[Written, Sequence[int]]
) -> list[str]:
    found: list[str] = []
    for offset, records in sorted(acknowledged.items()):
        if len(records) > 1:
            found.append(f"one offset for several: {offset} was given to {list(records)}")
        for written in records:
            there = places.get(written, ())
            if not there:
                found.append(f"lost: {written}, acknowledged at offset {offset}")
            elif offset not in there:
                found.append(f"elsewhere: {written}, acknowledged at offset {offset}, is at {list(there)}")
    return found


def _few(problems: list[str]) -> list[str]:
    rest = len(problems) - _SHOWN
    return problems if rest <= 0 else [*problems[:_SHOWN], f"and {rest} more of these"]
