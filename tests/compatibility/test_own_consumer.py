"""Our consumer on a broker that others write to and whose groups others share: transactions, and mixed groups."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import confluent_kafka
import pytest

from barnabas.client.assignors.assignor import Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Address
from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import ConsumerOptions, IsolationLevel, OffsetReset
from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker

PARTITIONS = 6
ASSIGNORS = [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]
IN_LIBRDKAFKA = [RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor()]


@asynccontextmanager
async def cluster_of(broker: RunningBroker) -> AsyncIterator[Cluster]:
    host, port = broker.bootstrap.rsplit(":", 1)
    async with Cluster([Address(host, int(port))], random=random.Random(0)) as cluster:
        yield cluster


def produce(broker: RunningBroker, topic: str, numbers: Sequence[int]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def options(assignor: Assignor) -> ConsumerOptions:
    return ConsumerOptions(
        group_id=f"group-{uuid.uuid4().hex[:12]}",
        assignors=[assignor],
        offset_reset=OffsetReset.EARLIEST,
        heartbeat_interval_ms=200,
        session_timeout_ms=6_000,
        auto_commit_interval_ms=500,
    )


@dataclass
class Member:
    """A member that reads until it is told to go."""

    consumer: Consumer
    seen: list[int] = field(default_factory=list)

    async def read(self) -> None:
        async with aclosing(self.consumer.batches()) as batches:
            async for batch in batches:
                self.seen += [int(record.value or b"") for record in batch.records]


@asynccontextmanager
async def member_of(cluster: Cluster, topic: str, settings: ConsumerOptions) -> AsyncIterator[Member]:
    async with Consumer(cluster, settings) as consumer:
        await consumer.subscribe([topic])
        member = Member(consumer)
        reading = asyncio.ensure_future(member.read())
        try:
            yield member
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda each: str(each.name))
async def test_members_share_what_is_written_and_commit_it(broker: RunningBroker, assignor: Assignor) -> None:
    topic, settings = broker.new_topic(partitions=PARTITIONS), options(assignor)
    produce(broker, topic, range(600))
    async with cluster_of(broker) as cluster:
        async with member_of(cluster, topic, settings) as first:
            await eventually(lambda: len(first.seen) == 600)
            async with member_of(cluster, topic, settings) as second:
                await eventually(lambda: len(first.consumer.assignment) == len(second.consumer.assignment) == 3)
                produce(broker, topic, range(600, 1200))
                await eventually(lambda: len(first.seen) + len(second.seen) == 1200)
            await eventually(lambda: len(first.consumer.assignment) == PARTITIONS)
            assert sorted(first.seen + second.seen) == list(range(1200))
        async with Consumer(cluster, settings) as consumer:
            found = await consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)])
            assert [each.offset for each in found.values()] == [200] * PARTITIONS


@pytest.mark.parametrize("assignor", IN_LIBRDKAFKA, ids=lambda each: str(each.name))
async def test_a_group_is_shared_with_librdkafka(broker: RunningBroker, assignor: Assignor) -> None:
    topic, settings = broker.new_topic(partitions=PARTITIONS), options(assignor)
    produce(broker, topic, range(600))
    other = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": settings.group_id,
            "partition.assignment.strategy": assignor.name,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 200,
        }
    )
    theirs: list[int] = []

    async def poll() -> None:
        while True:
            message = await asyncio.to_thread(other.poll, 0.1)
            if message is not None and message.error() is None:
                theirs.append(int(message.value() or b""))

    async with cluster_of(broker) as cluster, member_of(cluster, topic, settings) as ours:
        await eventually(lambda: len(ours.seen) == 600)
        other.subscribe([topic])
        polling = asyncio.ensure_future(poll())
        try:
            await eventually(lambda: len(ours.consumer.assignment) == len(other.assignment()) == 3)
            produce(broker, topic, range(600, 1200))
            await eventually(lambda: set(ours.seen) | set(theirs) == set(range(1200)))
            assert theirs
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
        await asyncio.to_thread(other.close)
        await eventually(lambda: len(ours.consumer.assignment) == PARTITIONS)


async def test_aborted_transactions_are_not_read(broker: RunningBroker) -> None:
    topic = broker.new_topic()
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"id-{uuid.uuid4().hex[:12]}"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(60)
    for round_number in range(6):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d" % (round_number * 10 + number), partition=0)
        producer.flush(30)
        if round_number % 2:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    committed = [number for number in range(60) if number // 10 % 2 == 0]
    base = ConsumerOptions(offset_reset=OffsetReset.EARLIEST)
    async with cluster_of(broker) as cluster:
        for level, wanted in ((IsolationLevel.READ_COMMITTED, committed), (IsolationLevel.READ_UNCOMMITTED, range(60))):
            async with Consumer(cluster, replace(base, isolation_level=level)) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                seen: list[int] = []
                async with asyncio.timeout(60), aclosing(consumer.records()) as records:
                    async for each in records:
                        seen.append(int(each.record.value or b""))
                        if seen[-1] == wanted[-1]:
                            break
                assert seen == list(wanted)
