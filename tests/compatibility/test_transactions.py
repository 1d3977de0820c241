"""Transactions of real clients: what is committed is read, what is aborted is not, and a zombie changes nothing."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compatibility.brokers import RunningBroker
from tests.support.broker_process import BrokerProcess
from tests.support.java import compile_java, run_java
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.kafka_jars import CLIENT_JARS, NEWER_CLIENT_JARS, Jar, JarsNotAvailable, class_path
from tests.support.zookeeper import new_zookeeper

SECONDS: Final = 60.0
PARTITIONS: Final = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("transactions")
    settings = ONE_BROKER_SETTINGS | {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(directory, zookeeper.connect_string, settings) as barnabas,
    ):
        yield RunningBroker(barnabas.bootstrap, barnabas.log_directory)


def transactional(broker: RunningBroker, transactional_id: str, **settings: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 60_000,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    producer.init_transactions(SECONDS)
    return producer


def read(broker: RunningBroker, topic: str, *, isolation: str = "read_committed", partitions: int = 1) -> list[str]:
    """All values of a topic up to where its readers may read, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "not-joined",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    values: list[tuple[int, int, str]] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(SECONDS)
            assert message is not None
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            if message.error():
                ended.add(partition)
            else:
                assert value is not None
                values.append((partition, offset, value.decode()))
    finally:
        consumer.close()
    return [value for _, _, value in sorted(values)]


def test_confluent_kafka_reads_what_was_committed_and_nothing_of_what_was_aborted(broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=PARTITIONS)
    producer = transactional(broker, uuid.uuid4().hex)
    expected = []
    for number in range(20):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, f"{number}-{partition}".encode(), partition=partition)
        if number % 3:
            producer.commit_transaction(SECONDS)
            expected += [f"{number}-{partition}" for partition in range(PARTITIONS)]
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
    assert sorted(read(broker, topic, partitions=PARTITIONS)) == sorted(expected)
    assert len(read(broker, topic, isolation="read_uncommitted", partitions=PARTITIONS)) == 20 * PARTITIONS


def test_confluent_kafka_reads_nothing_of_an_open_transaction_and_nothing_behind_it(broker: RunningBroker) -> None:
    topic = broker.new_topic()
    open_one, other = (transactional(broker, uuid.uuid4().hex) for _ in range(2))
    for producer, value in ((open_one, b"open"), (other, b"behind")):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(SECONDS)
    other.commit_transaction(SECONDS)
    assert read(broker, topic) == []
    open_one.commit_transaction(SECONDS)
    assert read(broker, topic) == ["open", "behind"]


def test_a_zombie_of_confluent_kafka_is_fenced_and_its_transaction_aborted(broker: RunningBroker) -> None:
    topic, transactional_id = broker.new_topic(), uuid.uuid4().hex
    zombie = transactional(broker, transactional_id)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    zombie.flush(SECONDS)
    producer = transactional(broker, transactional_id)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(SECONDS)
    assert fenced.value.args[0].fatal()
    producer.begin_transaction()
    producer.produce(topic, b"living")
    producer.commit_transaction(SECONDS)
    assert read(broker, topic) == ["living"]


def test_offsets_of_confluent_kafka_count_when_their_transaction_commits(broker: RunningBroker) -> None:
    source, target, group = broker.new_topic(), broker.new_topic(), uuid.uuid4().hex
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(40):
        plain.produce(source, str(number).encode())
    plain.flush(SECONDS)
    producer = transactional(broker, uuid.uuid4().hex)
    attempts = 0
    while len(read(broker, target)) < 40:
        attempts += 1
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([source])
        messages = consumer.consume(10, SECONDS)
        producer.begin_transaction()
        for message in messages:
            assert not message.error()
            producer.produce(target, message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
        )
        if attempts % 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
        consumer.close()
    assert read(broker, target) == [str(number) for number in range(40)]
    assert attempts == 8


async def aio_producer(broker: RunningBroker, transactional_id: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)
    await producer.start()
    return producer


async def test_aiokafka_reads_what_was_committed_and_nothing_of_what_was_aborted(broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=PARTITIONS)
    producer = await aio_producer(broker, uuid.uuid4().hex)
    expected = []
    for number in range(20):
        await producer.begin_transaction()
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, f"{number}-{partition}".encode(), partition=partition)
        if number % 3:
            await producer.commit_transaction()
            expected += [f"{number}-{partition}" for partition in range(PARTITIONS)]
        else:
            await producer.abort_transaction()
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    await consumer.start()
    consumer.assign([AioTopicPartition(topic, number) for number in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    values = []
    while len(values) < len(expected):
        found = await consumer.getmany(timeout_ms=1000)
        values += [message.value.decode() for messages in found.values() for message in messages]
    await consumer.stop()
    assert sorted(values) == sorted(expected)
    assert sorted(await asyncio.to_thread(read, broker, topic, partitions=PARTITIONS)) == sorted(expected)


async def test_a_zombie_of_aiokafka_is_fenced(broker: RunningBroker) -> None:
    topic, transactional_id = broker.new_topic(), uuid.uuid4().hex
    zombie = await aio_producer(broker, transactional_id)
    await zombie.begin_transaction()
    await zombie.send_and_wait(topic, b"zombie")
    producer = await aio_producer(broker, transactional_id)
    with pytest.raises(ProducerFenced):
        await zombie.commit_transaction()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"living")
    await producer.commit_transaction()
    await producer.stop()
    await zombie.stop()
    assert await asyncio.to_thread(read, broker, topic) == ["living"]


async def test_offsets_of_aiokafka_count_when_their_transaction_commits(broker: RunningBroker) -> None:
    topic, group = broker.new_topic(), uuid.uuid4().hex
    partition = AioTopicPartition(topic, 0)
    producer = await aio_producer(broker, uuid.uuid4().hex)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    consumer.assign([partition])
    for commit, offset, expected in ((False, 5, None), (True, 7, 7), (False, 9, 7)):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"x")
        await producer.send_offsets_to_transaction({partition: offset}, group)
        await (producer.commit_transaction() if commit else producer.abort_transaction())
        async with asyncio.timeout(SECONDS):
            while await consumer.committed(partition) != expected:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.05)
    await consumer.stop()
    await producer.stop()


JAVA_CLIENTS = {"2.7": CLIENT_JARS, "3.9": NEWER_CLIENT_JARS}
JAVA_SOURCE = Path(__file__).parent / "java" / "TransactionRun.java"


@pytest.fixture(scope="module", params=JAVA_CLIENTS)
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the program and one version of the Java client."""
    jars: tuple[Jar, ...] = JAVA_CLIENTS[request.param]
    try:
        path = class_path(jars)
    except JarsNotAvailable as error:
        pytest.skip(str(error))
    return compile_java(JAVA_SOURCE, jars=path, output=tmp_path_factory.mktemp("classes"))


@pytest.mark.java
def test_the_java_client_writes_what_was_committed_and_nothing_of_what_was_aborted(
    broker: RunningBroker, java: str
) -> None:
    topic = broker.new_topic(partitions=PARTITIONS)
    run_java(java, "TransactionRun", ["mixed", broker.bootstrap, topic, uuid.uuid4().hex])
    expected = [f"{number}-{partition}" for number in range(20) if number % 3 for partition in range(PARTITIONS)]
    assert sorted(read(broker, topic, partitions=PARTITIONS)) == sorted(expected)


@pytest.mark.java
def test_a_zombie_of_the_java_client_is_fenced_and_its_transaction_aborted(broker: RunningBroker, java: str) -> None:
    topic = broker.new_topic()
    run_java(java, "TransactionRun", ["zombie", broker.bootstrap, topic, uuid.uuid4().hex])
    assert read(broker, topic) == ["living"]


@pytest.mark.java
def test_the_java_client_copies_a_topic_once_whatever_it_aborts(broker: RunningBroker, java: str) -> None:
    source, target = broker.new_topic(), broker.new_topic()
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(40):
        plain.produce(source, str(number).encode())
    plain.flush(SECONDS)
    run_java(java, "TransactionRun", ["copy", broker.bootstrap, source, target, uuid.uuid4().hex, "40"])
    assert read(broker, target) == [str(number) for number in range(40)]
