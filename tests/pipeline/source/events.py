"""Records that are produced with librdkafka, and rows that a query gives, in one shape."""

import asyncio
import datetime as dt
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from pyspark.sql import Row

from barnabas.client import TopicPartition, open_cluster
from barnabas.client.record_admin import RecordAdmin
from tests.compatibility.brokers import RunningBroker

SECONDS = 60.0


@dataclass(frozen=True, order=True)
class Event:
    """A record with its place; the time in milliseconds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def produce(bootstrap: str, topic: str, events: Iterable[Event], **settings: Any) -> list[Event]:
    """Write events, of which the offset is not looked at, and return them with their offsets."""
    written: list[Event] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for each in events:
        send(producer, topic, each, written)
    assert producer.flush(SECONDS) == 0
    return written


def send(producer: confluent_kafka.Producer, topic: str, event: Event, written: list[Event]) -> None:
    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        written.append(
            Event(event.partition, message.offset(), event.key, event.value, event.timestamp_ms, event.headers)
        )

    producer.produce(
        topic,
        value=event.value,
        key=event.key,
        partition=event.partition,
        timestamp=event.timestamp_ms,
        headers=list(event.headers),
        on_delivery=delivered,
    )
    producer.poll(0)


def counted(count: int, *, partitions: int = 1, mark: str = "") -> list[Event]:
    """Events 0 to `count`, dealt to the partitions in turn, a second after each other."""
    return [
        Event(at % partitions, -1, b"%d" % at, f"{mark}{at}".encode(), 1_700_000_000_000 + 1000 * at)
        for at in range(count)
    ]


def events_of(rows: Iterable[Row]) -> list[Event]:
    """Rows with all columns, headers included, as events; in order."""
    return sorted(
        Event(
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            round(row.timestamp.replace(tzinfo=row.timestamp.tzinfo or dt.UTC).timestamp() * 1000),
            tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()),
        )
        for row in rows
    )


def new_topic(broker: RunningBroker, *, partitions: int = 1, name: str | None = None) -> str:
    """A topic that keeps records of any age."""
    return broker.new_topic(partitions=partitions, settings={"retention.ms": "-1"}, name=name)


def make_anew(broker: RunningBroker, topic: str) -> None:
    """Delete a topic and create it again, which is refused until the deletion has ended."""
    broker.delete_topic(topic)
    deadline_s = time.monotonic() + SECONDS
    while True:
        try:
            new_topic(broker, name=topic)
        except confluent_kafka.KafkaException as error:
            is_going = error.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
            if not is_going or time.monotonic() >= deadline_s:
                raise
            time.sleep(0.05)
        else:
            return


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Let a partition start at an offset."""

    async def delete() -> None:
        async with open_cluster(bootstrap) as cluster:
            await RecordAdmin(cluster).delete_records({TopicPartition(topic, partition): before})

    asyncio.run(delete())
