"""Topics made through a broker, ready for use."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.protocol.ids import TopicPartition

_READY_SECONDS = 60.0


def create_topic(
    bootstrap: str, name: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
) -> list[TopicPartition]:
    """Make the topic and return its partitions when all have a leader."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings or {}))])[name].result(_READY_SECONDS)
    made = [TopicPartition(name, number) for number in range(partitions)]
    wait_for_leaders(bootstrap, made)
    return made


def wait_for_controller(bootstrap: str) -> None:
    """Return when a client is told of a controller.

    librdkafka asks once what it is not told when a broker has just started, and then waits for minutes.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _READY_SECONDS
    while admin.list_topics(timeout=_READY_SECONDS).controller_id < 0:
        assert time.monotonic() < deadline, f"no controller after {_READY_SECONDS} s"
        time.sleep(0.02)


def wait_for_leaders(bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
    """Return when all these partitions have a leader, as a client is told."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + _READY_SECONDS
    while missing := set(partitions) - _led(admin):
        assert time.monotonic() < deadline, f"no leaders after {_READY_SECONDS} s: {sorted(missing)}"
        time.sleep(0.02)


def _led(admin: AdminClient) -> set[TopicPartition]:
    topics = admin.list_topics(timeout=_READY_SECONDS).topics
    return {
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader >= 0
    }
