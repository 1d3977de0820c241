"""The client kafka-python."""

from collections.abc import Mapping, Sequence
from typing import Any

import kafka
from kafka.errors import KafkaError

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import MAX_REQUEST_BYTES, Delivery, Message, Received
from tests.compatibility.progress import Progress


class KafkaPythonClient:
    """With an `api_version` it talks as clients of that Kafka did, and asks for no versions."""

    sends_records_of_nothing = False

    def __init__(self, api_version: tuple[int, ...] | None = None) -> None:
        self.name = "kafka-python" if api_version is None else f"kafka-python as {'.'.join(map(str, api_version))}"
        self._options: dict[str, Any] = {} if api_version is None else {"api_version": api_version}

    def produce(
        self, bootstrap: str, messages: Sequence[Message], *, codec: str = "none", one_by_one: bool = False
    ) -> Sequence[Delivery]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            max_request_size=MAX_REQUEST_BYTES,
            acks="all",
            enable_idempotence=not (one_by_one or self._options),
            **self._options,
        )
        try:
            futures = []
            for message in messages:
                futures.append(_send(producer, message))
                if one_by_one:
                    producer.flush(60)
            producer.flush(60)
            return [_delivery(future) for future in futures]
        finally:
            producer.close()

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, **self._options
        )
        progress = Progress(counts)
        try:
            partitions = [kafka.TopicPartition(topic, number) for topic, number in counts]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            while progress.is_wanted():
                for records in consumer.poll(timeout_ms=500, max_records=5000).values():
                    for record in records:
                        progress.add(_received(record))
        finally:
            consumer.close()
        return progress.received


def _send(producer: Any, message: Message) -> Any:
    return producer.send(
        message.topic,
        value=message.value,
        key=message.key,
        headers=list(message.headers),
        partition=message.partition,
        timestamp_ms=message.timestamp_ms,
    )


def _delivery(future: Any) -> Delivery:
    try:
        metadata = future.get(timeout=60)
    except KafkaError as error:
        return Delivery(error=type(error).__name__)
    return Delivery(metadata.partition, metadata.offset)


def _received(record: Any) -> Received:
    headers = tuple((name, value) for name, value in record.headers or ())
    message = Message(record.topic, record.partition, record.key, record.value, headers, record.timestamp)
    return Received(record.offset, message)
