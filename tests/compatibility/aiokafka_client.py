"""The client aiokafka, driven by an event loop of its own."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from barnabas.protocol.ids import TopicPartition
from tests.compatibility.messages import MAX_REQUEST_BYTES, Delivery, Message, Received
from tests.compatibility.progress import Progress


class AioKafkaClient:
    name = "aiokafka"
    sends_records_of_nothing = False

    def produce(
        self, bootstrap: str, messages: Sequence[Message], *, codec: str = "none", one_by_one: bool = False
    ) -> Sequence[Delivery]:
        return asyncio.run(_produce(bootstrap, messages, codec=codec, one_by_one=one_by_one))

    def consume(
        self, bootstrap: str, counts: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[Received]]:
        return asyncio.run(_consume(bootstrap, counts))


async def _produce(bootstrap: str, messages: Sequence[Message], *, codec: str, one_by_one: bool) -> Sequence[Delivery]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        max_request_size=MAX_REQUEST_BYTES,
        acks="all",
        enable_idempotence=not one_by_one,
    )
    await producer.start()
    try:
        if one_by_one:
            return [await _delivery(await _send(producer, message)) for message in messages]
        return [await _delivery(future) for future in [await _send(producer, message) for message in messages]]
    finally:
        await producer.stop()


async def _send(producer: Any, message: Message) -> Any:
    return await producer.send(
        message.topic,
        value=message.value,
        key=message.key,
        partition=message.partition,
        timestamp_ms=message.timestamp_ms,
        headers=list(message.headers),
    )


async def _delivery(future: Awaitable[Any]) -> Delivery:
    try:
        metadata = await future
    except KafkaError as error:
        return Delivery(error=type(error).__name__)
    return Delivery(metadata.partition, metadata.offset)


async def _consume(bootstrap: str, counts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Sequence[Received]]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False)
    progress = Progress(counts)
    await consumer.start()
    try:
        partitions = [aiokafka.TopicPartition(topic, number) for topic, number in counts]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while progress.is_wanted():
            for records in (await consumer.getmany(timeout_ms=500, max_records=5000)).values():
                for record in records:
                    progress.add(_received(record))
    finally:
        await consumer.stop()
    return progress.received


def _received(record: Any) -> Received:
    headers = tuple((name, value) for name, value in record.headers)
    message = Message(record.topic, record.partition, record.key, record.value, headers, record.timestamp)
    return Received(record.offset, message)
