"""What the final reads of a history have shown: all that stands in each partition, and what of it is committed."""

from collections.abc import Iterator

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.history import History, Outcome

Records = dict[int, bytes]
"""Offset -> value."""


class FinalReads:
    """`committed` is what readers of committed transactions were given, `written` what the others were."""

    def __init__(self, history: History) -> None:
        self.committed: dict[TopicPartition, Records] = {}
        self.written: dict[TopicPartition, Records] = {}
        self.began_at: int | None = None
        """When the first of them began; None where there are none."""
        for topic_partition, polls in history.polls.items():
            for poll in polls:
                if not poll.final or poll.outcome is not Outcome.OK:
                    continue
                place = self.committed if poll.read_committed else self.written
                place.setdefault(topic_partition, {}).update(poll.records)
                self.began_at = poll.invoked_at if self.began_at is None else min(self.began_at, poll.invoked_at)

    def committed_values(self) -> Iterator[tuple[TopicPartition, int, bytes]]:
        """Partition, offset and value of all that is committed."""
        for topic_partition, records in self.committed.items():
            for offset, value in records.items():
                yield topic_partition, offset, value
