"""What stands in topics, read with librdkafka."""

from collections.abc import Iterable

import confluent_kafka

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.source.events import SECONDS, Event


def read_topic(broker: RunningBroker, topic: str, *, is_committed: bool = True) -> list[Event]:
    """All records up to the last stable offset, or to the end, in order."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "not-joined",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if is_committed else "read_uncommitted",
    }
    consumer = confluent_kafka.Consumer(settings)
    try:
        partitions = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        found: list[Event] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(SECONDS)
            assert message is not None, "the broker gives nothing"
            error = message.error()
            if error is None:
                found.append(_event(message))
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        return sorted(found)
    finally:
        consumer.close()


def values(events: Iterable[Event]) -> list[bytes]:
    return sorted(each.value or b"" for each in events)


def _event(message: confluent_kafka.Message) -> Event:
    headers = tuple((name, value) for name, value in message.headers() or ())
    place = message.partition(), message.offset()
    return Event(*place, message.key(), message.value(), message.timestamp()[1], headers)  # type: ignore[arg-type]
