"""The broker that coordinates a group is killed under load: members go on, and no committed offset goes back."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.api_client import ApiConnection
from tests.support.cluster import new_cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

TOPIC = "consumed"
PARTITIONS = 4
SESSION_MS = 10_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "min.insync.replicas": "2",
    }
    made = new_cluster(tmp_path / "data", brokers=3, properties=properties)
    made.start()
    yield made
    made.stop()


def bootstrap(cluster: LocalCluster) -> str:
    return ",".join(f"{cluster.host}:{cluster.port(broker)}" for broker in (1, 2, 3))


def coordinator(cluster: LocalCluster, group: str, *, ask: int) -> int:
    """Who coordinates the group, as one broker says it."""
    deadline = time.monotonic() + 30
    with ApiConnection(cluster.host, cluster.port(ask)) as connection:
        while True:
            found = connection.call(ApiKey.FIND_COORDINATOR, 1, FindCoordinatorRequest(group, 0))
            if found.error_code == ErrorCode.NONE:
                return int(found.node_id)
            assert time.monotonic() < deadline, f"nobody coordinates {group}"
            time.sleep(0.05)


class Load(threading.Thread):
    """Something that goes on until it is stopped."""

    def __init__(self, servers: str) -> None:
        super().__init__()
        self.servers = servers
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()
        self.join(60)
        assert not self.is_alive()


class Sender(Load):
    """Sends numbered records, some hundred a second; `sent` are those that were acknowledged."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers)
        self.sent: set[tuple[int, int]] = set()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        while not self.stopped.is_set():
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"x", partition=partition, on_delivery=self._delivered)
            producer.poll(0.01)
        assert producer.flush(60) == 0

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.sent.add((message.partition(), message.offset()))  # type: ignore[attr-defined]


class Member(Load):
    """Reads in the group and commits after each poll; `read` is what it got, `last_s` when."""

    def __init__(self, servers: str, group: str) -> None:
        super().__init__(servers)
        self.group = group
        self.read: list[tuple[int, int]] = []
        self.lost = 0
        self.last_s = 0.0
        self.longest_s = 0.0

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
            }
        )
        consumer.subscribe([TOPIC], on_lost=self._on_lost)
        while not self.stopped.is_set():
            messages = [each for each in consumer.consume(100, 0.1) if each.error() is None]
            if not messages:
                continue
            now_s = time.monotonic()
            self.longest_s = max(self.longest_s, now_s - (self.last_s or now_s))
            self.last_s = now_s
            self.read += [(each.partition(), each.offset()) for each in messages]  # type: ignore[misc]
            consumer.commit(asynchronous=True)
        consumer.close()

    def _on_lost(self, *_: object) -> None:
        self.lost += 1


class Committer(Load):
    """Counts an offset up in a group without members; `acknowledged` is the greatest that was answered well."""

    def __init__(self, servers: str, group: str) -> None:
        super().__init__(servers)
        self.group = group
        self.acknowledged = 0
        self.went_back: list[tuple[int, int]] = []

    def run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": self.group, "enable.auto.commit": False})
        offset = 0
        while not self.stopped.is_set():
            offset += 1
            try:
                consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
            except KafkaException:
                continue
            self.acknowledged = offset
            if offset % 20 == 0:
                self.look(consumer)
        self.look(consumer)
        consumer.close()

    def look(self, consumer: Consumer) -> None:
        try:
            found = consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset
        except KafkaException:
            return
        if found < self.acknowledged:
            self.went_back.append((self.acknowledged, found))


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


def kill_coordinator(cluster: LocalCluster, members: list[Member], committer: Committer) -> None:
    """Kill who coordinates the members, see all go on with another, and start it again."""
    group = members[0].group
    killed = coordinator(cluster, group, ask=1)
    committed = committer.acknowledged
    wanted = [len(member.read) + 100 for member in members]
    cluster.kill(killed)
    other = next(broker for broker in (1, 2, 3) if broker != killed)
    until(lambda: coordinator(cluster, group, ask=other) != killed)
    until(lambda: committer.acknowledged > committed + 20)
    until(lambda: all(len(member.read) > count for member, count in zip(members, wanted, strict=True)))
    cluster.start_broker(killed)


def test_members_go_on_and_no_offset_goes_back(cluster: LocalCluster) -> None:
    servers = bootstrap(cluster)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    group = "g"
    sender, committer = Sender(servers), Committer(servers, group + "-simple")
    members = [Member(servers, group) for _ in range(2)]
    loads = [sender, committer, *members]
    for each in loads:
        each.start()
    try:
        until(lambda: all(len(member.read) > 100 for member in members) and committer.acknowledged > 20)
        for _ in range(2):
            kill_coordinator(cluster, members, committer)
    finally:
        for each in loads[:2]:
            each.stop()
    until(lambda: sender.sent <= {place for member in members for place in member.read})
    for member in members:
        member.stop()
    assert committer.went_back == []
    assert [member.lost for member in members] == [0, 0], "a member's session ended"
    assert max(member.longest_s for member in members) < SESSION_MS / 1000
