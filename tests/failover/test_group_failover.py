"""Members of every client in one group commit under load, and the broker that coordinates them is killed.

Each is a process, as in the compatibility tests. All of them go on within the session timeout, no committed offset goes
back, and every record is read.
"""

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.launcher.cluster import LocalCluster
from tests.compatibility.group_member import SESSION_MS
from tests.compatibility.test_group_consumers import JAVA_MEMBER, Member
from tests.failover.test_coordinator_loss import coordinator, until
from tests.failover.world.view import ClusterView
from tests.support.cluster import new_cluster
from tests.support.java import compile_java
from tests.support.kafka_jars import CLIENT_JARS, JarsNotAvailable, class_path, java_command

pytestmark = [pytest.mark.processes, pytest.mark.timeout(400)]

TOPIC, GROUP = "shared", "mixed"
PARTITIONS = 8
KILLS = 2
SECONDS = 90.0
PYTHON_CLIENTS = ("confluent-kafka", "aiokafka", "barnabas")
INTERNAL = "__consumer_offsets"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    properties = {"offsets.topic.num.partitions": "3", "min.insync.replicas": "2"}
    made = new_cluster(tmp_path / "data", brokers=3, properties=properties)
    made.start()
    yield made
    made.stop()


class Watched(Member):
    """A member of which is known how long it was without records, at most; `longest_s` counts from `forget` on."""

    def __init__(self, name: str, command: list[str]) -> None:
        super().__init__(name, command)
        self._stopped = threading.Event()
        self.forget()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def forget(self) -> None:
        self._count, self._since_s, self.longest_s = len(self.read), time.monotonic(), 0.0

    def _watch(self) -> None:
        while not self._stopped.wait(0.02):
            now_s = time.monotonic()
            if len(self.read) != self._count:
                self._count, self._since_s = len(self.read), now_s
            self.longest_s = max(self.longest_s, now_s - self._since_s)

    def stop_watching(self) -> None:
        self._stopped.set()
        self._watcher.join()


class Sender(threading.Thread):
    """Some hundred records a second, in turn over the partitions; `sent` are those that were acknowledged."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._stopped = threading.Event()
        self.sent: set[tuple[int, int]] = set()
        self.failed: list[str] = []

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True})
        while not self._stopped.wait(0.02):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"x", partition=partition, on_delivery=self._delivered)
            producer.poll(0)
        producer.flush(SECONDS)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.sent.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def stop(self) -> None:
        self._stopped.set()
        self.join(SECONDS + 10)
        assert not self.is_alive()
        assert self.failed == []


class Auditor(threading.Thread):
    """Asks for the group's offsets all the time; `went_back` are those that were less than before."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._stopped = threading.Event()
        self.went_back: list[tuple[int, int, int]] = []
        self.greatest: dict[int, int] = {}
        self.answers = 0

    def run(self) -> None:
        consumer = Consumer({"bootstrap.servers": self._servers, "group.id": GROUP, "enable.auto.commit": False})
        places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        while not self._stopped.wait(0.1):
            try:
                found = consumer.committed(places, timeout=10)
            except KafkaException:
                continue
            self.answers += 1
            for each in found:
                before = self.greatest.get(each.partition, each.offset)
                if each.offset < before:
                    self.went_back.append((each.partition, before, each.offset))
                self.greatest[each.partition] = max(before, each.offset)
        consumer.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(SECONDS)
        assert not self.is_alive()


def commands(servers: str, output: Path) -> dict[str, list[str]]:
    """How a member of each client is started; Java's where there is Java."""
    place = [servers, GROUP, TOPIC, "range"]
    made = {
        client: [sys.executable, "-m", "tests.compatibility.group_member", client, *place] for client in PYTHON_CLIENTS
    }
    try:
        path = compile_java(JAVA_MEMBER, jars=class_path(CLIENT_JARS), output=output)
    except JarsNotAvailable as error:
        print(f"without Java: {error}")
    else:
        java = [java_command(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
        made["java-2.7"] = [*java, "-cp", path, "GroupMember", *place, str(SESSION_MS)]
    return made


@pytest.fixture
def members(cluster: LocalCluster, tmp_path: Path) -> Iterator[list[Watched]]:
    """All in the group, each with its share."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    started = commands(cluster.bootstrap_servers, tmp_path / "java").items()
    made = [Watched(client, command) for client, command in started]

    def is_shared_out() -> bool:
        try:
            group = admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        except KafkaException:
            return False
        return group.state is ConsumerGroupState.STABLE and len(group.members) == len(made)

    try:
        until(is_shared_out, SECONDS)
        yield made
    finally:
        for each in made:
            each.crash()
            each.stop_watching()


def kill_coordinator(cluster: LocalCluster, members: list[Watched], view: ClusterView) -> None:
    """Kill it, see all members go on with another within their session, start it again."""
    killed = coordinator(cluster, GROUP, ask=1)
    for each in members:
        each.forget()
    read = [len(each.read) for each in members]
    cluster.kill(killed)
    other = next(broker for broker in cluster.broker_ids if broker != killed)
    until(lambda: coordinator(cluster, GROUP, ask=other) != killed, SECONDS)
    until(lambda: all(len(each.read) > count + 200 for each, count in zip(members, read, strict=True)), SECONDS)
    gaps = {each.name: round(each.longest_s, 2) for each in members}
    print(f"SIGKILL of broker {killed}, without records for at most {gaps} s")
    assert max(gaps.values()) < SESSION_MS / 1000
    cluster.start_broker(killed)
    view.await_full_isr((TOPIC, INTERNAL), 3, seconds=SECONDS)


def test_members_of_all_clients_go_on_and_no_offset_goes_back(cluster: LocalCluster, members: list[Watched]) -> None:
    sender, auditor = Sender(cluster.bootstrap_servers), Auditor(cluster.bootstrap_servers)
    view = ClusterView(cluster.connect_string)
    sender.start()
    auditor.start()
    try:
        until(lambda: all(len(each.read) > 100 for each in members) and auditor.answers > 5, SECONDS)
        for _ in range(KILLS):
            answers = auditor.answers
            kill_coordinator(cluster, members, view)
            until(lambda least=answers + 5: auditor.answers > least, SECONDS)  # type: ignore[misc]
    finally:
        sender.stop()
        view.close()
    until(lambda: sender.sent <= {place for each in members for place in each.read}, SECONDS)
    ends = {number: max(offset for where, offset in sender.sent if where == number) + 1 for number in range(PARTITIONS)}
    until(lambda: auditor.greatest == ends, SECONDS)
    auditor.stop()
    assert auditor.went_back == []
