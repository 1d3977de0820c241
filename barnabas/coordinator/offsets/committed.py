"""The committed offsets of groups, as their log tells them, and those that wait for the end of a transaction.

Changed by `replay` and `replay_marker` alone, in the order of the log. An offset counts by where its record stands, not
by where its transaction ended: when a transaction commits, an offset of it that was followed by another commit of the
same partition, or by a tombstone, changes nothing any more (Kafka compares the positions of the records for that; an
ended transaction must not bring back an offset that was deleted meanwhile, KAFKA-5600).
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from barnabas.coordinator.group_records import OffsetAndMetadata, OffsetKey, decode_offset_value
from barnabas.coordinator.outcome import ProducerStamp

TopicPartition: TypeAlias = tuple[str, int]


class _Pending(NamedTuple):
    """An offset of an open transaction; `position` counts the group's transactional records."""

    position: int
    value: OffsetAndMetadata | None
    """None where a later commit has overtaken it: it still makes its partition unstable."""


class CommittedOffsets:
    """The offsets of one group."""

    __slots__ = ("_count", "_pending", "_position", "_topics", "group_id")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._topics: dict[str, dict[int, OffsetAndMetadata]] = {}
        self._count = 0
        self._pending: dict[int, dict[TopicPartition, _Pending]] = {}
        self._position = 0

    def __len__(self) -> int:
        """How many partitions have a committed offset."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether nothing is committed and nothing waits for a transaction."""
        return not self._count and not self._pending

    @property
    def has_pending(self) -> bool:
        """Whether a transaction is open that offsets were sent to."""
        return bool(self._pending)

    def get(self, topic: str, partition: int) -> OffsetAndMetadata | None:
        """What is committed for a partition."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may yet change the partition's offset."""
        return any((topic, partition) in offsets for offsets in self._pending.values())

    def topics(self) -> Iterator[tuple[str, dict[int, OffsetAndMetadata]]]:
        """All that is committed, by topic and partition. Not to be changed."""
        yield from self._topics.items()

    def partitions(self) -> list[TopicPartition]:
        """All partitions that have a committed offset."""
        return [(topic, partition) for topic, offsets in self._topics.items() for partition in offsets]

    def pending_partitions(self) -> set[TopicPartition]:
        """All partitions that an open transaction has sent an offset for."""
        return {partition for offsets in self._pending.values() for partition in offsets}

    # What the log says.

    def replay(self, topic: str, partition: int, value: OffsetAndMetadata | None) -> None:
        """An offset was committed outside of a transaction, or deleted."""
        if value is None:
            self._remove(topic, partition)
            if self._pending:
                self._forget_pending((topic, partition))
            return
        self._put(topic, partition, value)
        if self._pending:
            self._position += 1
            self._overtake((topic, partition), self._position)

    def replay_pending(self, topic: str, partition: int, value: OffsetAndMetadata | None, producer_id: int) -> None:
        """An offset was sent to a producer's transaction; without a value it is taken back."""
        self._position += 1
        if value is not None:
            self._pending.setdefault(producer_id, {})[topic, partition] = _Pending(self._position, value)
        elif producer_id in self._pending:
            self._pending[producer_id].pop((topic, partition), None)
            self._drop_if_done(producer_id)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction has ended."""
        ended = self._pending.pop(producer_id, None)
        if ended is None or not commit:
            return
        for (topic, partition), (position, value) in ended.items():
            if value is not None:
                self._put(topic, partition, value)
                self._overtake((topic, partition), position)

    def _put(self, topic: str, partition: int, value: OffsetAndMetadata) -> None:
        partitions = self._topics.get(topic)
        if partitions is None:
            partitions = self._topics[topic] = {}
        if partition not in partitions:
            self._count += 1
        partitions[partition] = value

    def _remove(self, topic: str, partition: int) -> None:
        partitions = self._topics.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None:
            self._count -= 1
            if not partitions:
                del self._topics[topic]

    def _overtake(self, key: TopicPartition, position: int) -> None:
        """What was sent to transactions before `position` counts no more."""
        for offsets in self._pending.values():
            pending = offsets.get(key)
            if pending is not None and pending.position < position:
                offsets[key] = pending._replace(value=None)

    def _forget_pending(self, key: TopicPartition) -> None:
        for producer_id in [each for each, offsets in self._pending.items() if key in offsets]:
            del self._pending[producer_id][key]
            self._drop_if_done(producer_id)

    def _drop_if_done(self, producer_id: int) -> None:
        if not self._pending[producer_id]:
            del self._pending[producer_id]


class AllOffsets:
    """The offsets of all groups of one partition of `__consumer_offsets`. A group without any is not in it."""

    def __init__(self) -> None:
        self._groups: dict[str, CommittedOffsets] = {}
        self._groups_of_producer: dict[int, set[str]] = {}

    def __len__(self) -> int:
        """How many offsets are committed."""
        return sum(map(len, self._groups.values()))

    def of(self, group_id: str) -> CommittedOffsets | None:
        """The offsets of a group, None where it has none and none are pending."""
        return self._groups.get(group_id)

    def group_ids(self) -> list[str]:
        """All groups that have offsets, or offsets that wait for a transaction."""
        return list(self._groups)

    def replay(self, key: OffsetKey, value: bytes | None, producer: ProducerStamp | None) -> None:
        """A record about an offset stands in the log. Raises NotDecodable, and then nothing has changed."""
        decoded = None if value is None else decode_offset_value(value)
        group_id, topic, partition = key
        group = self._groups.get(group_id)
        if group is None:
            if decoded is None:
                return
            group = self._groups[group_id] = CommittedOffsets(group_id)
        if producer is not None:
            group.replay_pending(topic, partition, decoded, producer.producer_id)
            self._groups_of_producer.setdefault(producer.producer_id, set()).add(group_id)
        else:
            group.replay(topic, partition, decoded)
        if decoded is None and group.is_empty:
            del self._groups[group_id]

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """A producer's transaction has ended in this partition."""
        for group_id in self._groups_of_producer.pop(producer_id, ()):
            group = self._groups.get(group_id)
            if group is not None:
                group.replay_marker(producer_id, commit=commit)
                if group.is_empty:
                    del self._groups[group_id]
