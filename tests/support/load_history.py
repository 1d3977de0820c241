"""The history of a load client's records, for `barnabas.simulation.history_check`, with the counts that tests wait for.

Written by the client's thread and read by the test's. Besides what the checker judges, a full read of a partition must
give each offset from 0 on: the records here are in no transaction, and no topic is compacted.
"""

import time
from collections.abc import Mapping, Sequence

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome, Produce
from barnabas.simulation.history_check import check
from barnabas.simulation.history_values import Written, value_of

Read = Mapping[TopicPartition, Sequence[tuple[int, bytes]]]
"""Offset and value of each record of a full read, in the order in which they came."""


class LoadHistory:
    """What one or more producers sent and were told."""

    def __init__(self) -> None:
        self.history = History()
        self.acknowledged_count = 0
        self.sent_count = 0
        self.given_up: list[Produce] = []
        self._sequences: dict[tuple[TopicPartition, str], int] = {}
        self._ends: dict[TopicPartition, int] = {}

    def send(
        self, topic_partition: TopicPartition, producer: str, *, size_bytes: int, idempotent: bool = True
    ) -> Produce:
        """The producer's next record in a partition; it counts as sent."""
        sequence = self._sequences.get((topic_partition, producer), 0)
        self._sequences[topic_partition, producer] = sequence + 1
        self.sent_count += 1
        value = value_of(Written(topic_partition, producer, 0, sequence), size_bytes=size_bytes)
        return self.history.produce(producer, topic_partition, value, time.monotonic_ns(), idempotent=idempotent)

    def acknowledge(self, sent: Produce, offset: int) -> None:
        """The broker has said that the record stands at `offset`."""
        sent.ok(offset, time.monotonic_ns())
        self._ends[sent.topic_partition] = max(self.acknowledged_end(sent.topic_partition), offset + 1)
        self.acknowledged_count += 1

    def give_up(self, sent: Produce, error: str) -> None:
        """The client gave the record up; whether it was written is not known."""
        sent.unknown(error, time.monotonic_ns())
        self.given_up.append(sent)

    def acknowledged_end(self, topic_partition: TopicPartition) -> int:
        """The offset after the last one that was acknowledged."""
        return self._ends.get(topic_partition, 0)

    def anomalies(self, read: Read) -> list[str]:
        """What a log that is idempotent and loses nothing would not show in this read of everything."""
        found: list[str] = []
        for topic_partition, records in read.items():
            poll = self.history.poll("reader", topic_partition, time.monotonic_ns(), position=0, final=True)
            poll.ok(list(records), time.monotonic_ns())
            holes = [place for place, (offset, _) in enumerate(records) if offset != place][:1]
            found += [f"{topic_partition}: offset {records[place][0]} where {place} was due" for place in holes]
        unread = sorted(self.history.produces.keys() - read.keys())
        found += [
            f"{topic_partition}: not read"
            for topic_partition in unread
            if any(one.outcome is Outcome.OK for one in self.history.produces[topic_partition])
        ]
        return found + [str(anomaly) for anomaly in check(self.history)]
