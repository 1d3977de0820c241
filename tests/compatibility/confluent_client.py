"""The client confluent-kafka, which is librdkafka."""

from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import MAX_REQUEST_BYTES, Delivery, Message, Received
from tests.compatibility.progress import Progress


class ConfluentClient:
    name = "confluent-kafka"
    sends_records_of_nothing = True

    def __init__(self, **producer_settings: object) -> None:
        """Settings of librdkafka's producer, with underscores in place of the dots."""
        self._settings = {key.replace("_", "."): value for key, value in producer_settings.items()}

    def produce(
        self, bootstrap: str, messages: Sequence[Message], *, codec: str = "none", one_by_one: bool = False
    ) -> Sequence[Delivery]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "message.max.bytes": MAX_REQUEST_BYTES,
                "message.timeout.ms": 60_000,
                "acks": "all",
                "enable.idempotence": not one_by_one,
                **self._settings,
            }
        )
        deliveries = [Delivery(error="not delivered")] * len(messages)
        for index, message in enumerate(messages):

            def delivered(error: Any, sent: Any, index: int = index) -> None:
                deliveries[index] = Delivery(error=error.name()) if error else Delivery(sent.partition(), sent.offset())

            producer.produce(
                message.topic,
                message.value,
                message.key,
                partition=-1 if message.partition is None else message.partition,
                on_delivery=delivered,
                timestamp=message.timestamp_ms or 0,
                headers=list(message.headers),
            )
            if one_by_one:
                producer.flush(60)
        producer.flush(60)
        return deliveries

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        progress = Progress(counts)
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
                for topic, number in counts
            ]
        )
        try:
            while progress.is_wanted():
                for record in consumer.consume(1000, timeout=0.5):
                    assert record.error() is None, record.error()
                    progress.add(_received(record))
        finally:
            consumer.close()
        return progress.received


def _received(record: Any) -> Received:
    kind, timestamp_ms = record.timestamp()
    # Message format 0 has no times.
    assert kind in (confluent_kafka.TIMESTAMP_CREATE_TIME, confluent_kafka.TIMESTAMP_NOT_AVAILABLE)
    headers = tuple((name, value) for name, value in record.headers() or ())
    message = Message(record.topic(), record.partition(), record.key(), record.value(), headers, timestamp_ms)
    return Received(record.offset(), message)
