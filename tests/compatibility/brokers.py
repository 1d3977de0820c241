"""The broker that the clients of these tests talk to, and the topics they use on it."""

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.protocol.ids import TopicPartition

_READY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """Where a broker listens, and its log directory where that is known."""

    bootstrap: str
    log_directory: Path | None = None

    def new_topic(self, *, partitions: int = 1, settings: dict[str, str] | None = None, name: str | None = None) -> str:
        """Create a topic, of a fresh name if none is given, and return when all its partitions have a leader."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        # librdkafka that meets a broker before there is a controller does not look for one again.
        _wait_until(lambda: admin.list_topics(timeout=_READY_SECONDS).controller_id >= 0, "there is no controller")
        name = name or f"compatibility-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, partitions, 1, config=settings or {})])[name].result(_READY_SECONDS)
        await_leaders(admin, name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all that is in it."""
        # Its request ends with a client that nobody holds.
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_topics([name])[name].result(_READY_SECONDS)

    def end_offsets(self, topics: Iterable[str], partitions: int) -> dict[TopicPartition, int]:
        """The next offset of every partition of some topics that have the same number of them."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "not-joined"})
        try:
            return {
                TopicPartition(topic, number): consumer.get_watermark_offsets(
                    confluent_kafka.TopicPartition(topic, number), timeout=_READY_SECONDS
                )[1]
                for topic in topics
                for number in range(partitions)
            }
        finally:
            consumer.close()


def await_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    """Return when a topic has that many partitions, each with a leader."""
    _wait_until(lambda: _has_leaders(admin, topic, partitions), f"{topic} has no leaders")


def _wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{otherwise} after {_READY_SECONDS} s"
        time.sleep(0.02)


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=_READY_SECONDS).topics[topic].partitions.values()
    return len(found) == partitions and all(partition.leader >= 0 for partition in found)
