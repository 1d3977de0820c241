"""A replicated topic outlives its leader: what was acknowledged is read from the next one; the old one comes back."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launcher.cluster import LocalCluster
from tests.failover.load.watermarks import watermarks
from tests.support.cluster import new_cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

TOPIC = "replicated"
RECORDS = 20_000
PARTITIONS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = new_cluster(tmp_path / "data", brokers=3)
    made.start()
    yield made
    made.stop()


def until(holds: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def bootstrap(cluster: LocalCluster) -> str:
    return ",".join(f"{cluster.host}:{cluster.port(broker)}" for broker in (1, 2, 3))


def create(admin: AdminClient) -> None:
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(20)


def in_sync(admin: AdminClient) -> list[set[int]]:
    partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
    return [set(partitions[number].isrs) for number in sorted(partitions)]


def read_all(servers: str) -> dict[int, list[bytes]]:
    """Everything up to the high watermarks, by partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    found: dict[int, list[bytes]] = {}
    for partition in range(PARTITIONS):
        _, end = watermarks(consumer, TOPIC, partition, seconds=20)
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        values = found[partition] = []
        while len(values) < end:
            message = consumer.poll(20)
            assert message is not None, f"nothing comes after {len(values)} of {end}"
            assert message.error() is None, message.error()
            value = message.value()
            assert isinstance(value, bytes)
            values.append(value)
    consumer.close()
    return found


def test_what_was_acknowledged_outlives_the_leader(cluster: LocalCluster) -> None:
    servers = bootstrap(cluster)
    admin = AdminClient({"bootstrap.servers": servers})
    create(admin)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "acks": "all", "linger.ms": 2})
    acknowledged: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}

    def on_delivery(error: object, message: object) -> None:
        assert error is None, error
        acknowledged[message.partition()].append(message.value())  # type: ignore[attr-defined]

    killed_at = None
    for number in range(RECORDS):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=on_delivery)
        producer.poll(0)
        if number == RECORDS // 2:
            until(lambda: producer.poll(0.05) >= 0 and acknowledged[0] != [], seconds=20)
            leader = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader
            pid = cluster.pid(leader)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed_at = number
    assert killed_at is not None
    assert producer.flush(60) == 0
    sent = {p: [b"%d" % n for n in range(RECORDS) if n % PARTITIONS == p] for p in range(PARTITIONS)}
    assert acknowledged == sent
    assert read_all(servers) == sent

    # The killed broker cuts what it had alone, fetches what it lacks and is in sync again; then it can lead.
    cluster.start()
    until(lambda: in_sync(admin) == [{1, 2, 3}] * PARTITIONS, seconds=60)
    for other in {1, 2, 3} - {leader}:
        pid = cluster.pid(other)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        until(lambda other=other: cluster.pid(other) is None, seconds=30)  # type: ignore[misc]
    until(
        lambda: all(
            each.leader == leader for each in admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions.values()
        ),
        seconds=30,
    )
    assert read_all(servers) == sent
