"""Groups of real consumers: members come, leave and crash; each record is read, each partition has one owner."""

import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.client.group_protocol import decode_assignment
from barnabas.coordinator.group_records import GroupKey, decode_group_value, decode_key
from tests.compatibility.brokers import RunningBroker
from tests.compatibility.group_member import ASSIGNORS, SESSION_MS
from tests.support.broker_process import BrokerProcess
from tests.support.java import compile_java
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.kafka_jars import CLIENT_JARS, NEWER_CLIENT_JARS, JarsNotAvailable, class_path, java_command
from tests.support.zookeeper import new_zookeeper

JAVA_MEMBER = Path(__file__).parent / "java" / "GroupMember.java"
JAVA_CLIENTS = {"java-2.7": CLIENT_JARS, "java-3.9": NEWER_CLIENT_JARS}
PARTITIONS = 6
SECONDS = 40.0
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 5

Place = tuple[int, int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory = tmp_path_factory.mktemp("groups")
    settings = ONE_BROKER_SETTINGS | {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
    with (
        new_zookeeper(directory / "zookeeper") as zookeeper,
        BrokerProcess(directory, zookeeper.connect_string, settings) as barnabas,
    ):
        yield RunningBroker(barnabas.bootstrap, barnabas.log_directory)


@pytest.fixture(scope="module")
def java_class_paths(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What runs `GroupMember`, by client."""
    try:
        return {
            client: compile_java(JAVA_MEMBER, jars=class_path(jars), output=tmp_path_factory.mktemp(client))
            for client, jars in JAVA_CLIENTS.items()
        }
    except JarsNotAvailable as error:
        pytest.skip(str(error))


class Member:
    """A consumer in a process of its own, and what it has read."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.read: list[Place] = []
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Who is killed may be in the midst of a line.
            if line.startswith("record ") and line.endswith("\n"):
                _, partition, offset = line.split()
                self.read.append((int(partition), int(offset)))

    def leave(self) -> None:
        self._process.terminate()
        assert self._end() in {0, 128 + signal.SIGTERM}, f"{self.name} did not leave in order"

    def crash(self) -> None:
        self._process.kill()
        self._end()

    def _end(self) -> int:
        """The status with which it ended; Java's is that of the signal when it was told to leave."""
        status = self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        return status


class Group:
    """A group on a topic of its own."""

    def __init__(self, broker: RunningBroker, java_class_paths: Mapping[str, str]) -> None:
        self.broker = broker
        self._java_class_paths = java_class_paths
        self.name = f"group-{uuid.uuid4().hex[:12]}"
        self.topic = broker.new_topic(partitions=PARTITIONS)
        self.members: list[Member] = []
        self.sent: set[Place] = set()
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})

    def join(self, client: str, assignor: str) -> Member:
        place = [self.broker.bootstrap, self.name, self.topic, assignor]
        if client in JAVA_CLIENTS:
            java = [java_command(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"]
            command = [*java, "-cp", self._java_class_paths[client], "GroupMember", *place, str(SESSION_MS)]
        else:
            command = [sys.executable, "-m", "tests.compatibility.group_member", client, *place]
        self.members.append(Member(f"{client} with {assignor}", command))
        return self.members[-1]

    def send(self, count: int) -> None:
        """Send so many records to each partition."""

        def delivered(error: object, message: object) -> None:
            assert error is None
            self.sent.add((message.partition(), message.offset()))  # type: ignore[attr-defined]

        for number in range(count):
            for partition in range(PARTITIONS):
                self._producer.produce(self.topic, b"%d" % number, partition=partition, on_delivery=delivered)
        assert self._producer.flush(SECONDS) == 0

    def await_members(self, count: int) -> None:
        """Wait until the group is Stable with so many members, and see that each partition is owned once."""
        owned: list[list[int]] = []

        def is_shared_out() -> bool:
            described = self._admin.describe_consumer_groups([self.name])[self.name].result(SECONDS)
            if described.state is not ConsumerGroupState.STABLE or len(described.members) != count:
                return False
            owned[:] = [[place.partition for place in each.assignment.topic_partitions] for each in described.members]
            # Cooperative members give up first what others get in the next generation.
            return sum(map(len, owned)) == PARTITIONS

        _await(is_shared_out, lambda: f"no {count} members that share the topic out: {owned}")
        assert sorted(partition for each in owned for partition in each) == list(range(PARTITIONS))
        assert all(owned), "a member has nothing to do"

    def await_all_read(self) -> None:
        def missing() -> set[Place]:
            return self.sent - {place for member in self.members for place in member.read}

        _await(lambda: not missing(), lambda: f"{len(missing())} records were read by nobody")

    def owners(self) -> dict[int, Counter[int]]:
        """Of each generation that its coordinator wrote down: how many members owned each partition."""
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": "not-joined",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
        reading = Consumer(settings)
        found: dict[int, Counter[int]] = {}
        unread = set(range(OFFSETS_PARTITIONS))
        try:
            reading.assign([TopicPartition(OFFSETS_TOPIC, number, 0) for number in unread])
            deadline = time.monotonic() + SECONDS
            while unread:
                assert time.monotonic() < deadline, f"not read to their ends: {unread}"
                # It waits that long where there are fewer.
                for each in reading.consume(500, 0.2):
                    if each.error() is not None:
                        unread.discard(each.partition())
                    elif decode_key(each.key()) == GroupKey(self.name) and (value := each.value()) is not None:
                        generation = decode_group_value(value)
                        assigned = [decode_assignment(member.assignment) for member in generation.members]
                        found[generation.generation_id] = Counter(place.partition for own in assigned for place in own)
        finally:
            reading.close()
        return found

    def committed(self) -> list[int]:
        """The group's offsets, by partition."""
        asking = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": self.name})
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        try:
            return [place.offset for place in asking.committed(places, timeout=SECONDS)]
        finally:
            asking.close()

    def close(self) -> None:
        for member in self.members:
            member.crash()


def _await(holds: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


@pytest.fixture
def group(broker: RunningBroker, request: pytest.FixtureRequest) -> Iterator[Group]:
    """A group that Java's clients can join where the test is one of theirs."""
    is_javas = request.node.get_closest_marker("java") is not None
    made = Group(broker, request.getfixturevalue("java_class_paths") if is_javas else {})
    yield made
    made.close()


def _live(group: Group, members: Sequence[tuple[str, str]]) -> None:
    """Three members come, one leaves, one crashes, and the first reads on alone."""
    first = group.join(*members[0])
    group.send(20)
    group.await_members(1)
    second, third = group.join(*members[1]), group.join(*members[2])
    group.send(20)
    group.await_members(3)
    group.send(20)
    second.leave()
    group.await_members(2)
    group.send(20)
    third.crash()
    group.await_members(1)
    group.send(20)
    group.await_all_read()
    first.leave()
    assert group.committed() == [100] * PARTITIONS
    _assert_owned_once(group, generations=4)


def _assert_owned_once(group: Group, *, generations: int) -> None:
    """No partition had two owners in one generation, and there were at least so many with all of them owned."""
    owners = group.owners()
    assert all(owned.total() == len(owned) for owned in owners.values()), owners
    assert sum(len(owned) == PARTITIONS for owned in owners.values()) >= generations, owners


@pytest.mark.parametrize(
    ("client", "assignor"), [(client, assignor) for client, assignors in ASSIGNORS.items() for assignor in assignors]
)
def test_members_come_and_go_and_every_record_is_read(group: Group, client: str, assignor: str) -> None:
    _live(group, [(client, assignor)] * 3)


@pytest.mark.java
@pytest.mark.parametrize("client", JAVA_CLIENTS)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_of_java_come_and_go_and_every_record_is_read(group: Group, client: str, assignor: str) -> None:
    _live(group, [(client, assignor)] * 3)


@pytest.mark.java
def test_members_of_java_and_of_librdkafka_share_a_topic(group: Group) -> None:
    _live(group, [(client, "range") for client in ("confluent-kafka", *JAVA_CLIENTS)])


@pytest.mark.java
def test_members_of_all_clients_share_a_topic(group: Group) -> None:
    """Three come, three more, half of them crash and come again, the others leave."""
    leaving, crashing = ("kafka-python", "java-3.9", "barnabas"), ("aiokafka", "java-2.7", "confluent-kafka")
    assert {*leaving, *crashing} == {*ASSIGNORS, *JAVA_CLIENTS}
    leavers = [group.join(client, "range") for client in leaving]
    group.send(20)
    group.await_members(3)
    crashed = [group.join(client, "range") for client in crashing]
    group.send(20)
    group.await_members(6)
    group.send(20)
    for each in crashed:
        each.crash()
    group.await_members(3)
    group.send(20)
    stayers = [group.join(client, "range") for client in crashing]
    group.await_members(6)
    group.send(20)
    for each in leavers:
        each.leave()
    group.await_members(3)
    group.send(20)
    group.await_all_read()
    for each in stayers:
        each.leave()
    assert group.committed() == [120] * PARTITIONS
    _assert_owned_once(group, generations=5)


def test_members_of_different_clients_share_a_topic(group: Group) -> None:
    _live(group, [(client, "range") for client in ASSIGNORS])


def test_offsets_go_on_where_the_last_member_left(group: Group) -> None:
    for client in ASSIGNORS:
        before = set(group.sent)
        group.send(10)
        member = group.join(client, "range")
        group.await_all_read()
        _await(lambda: sum(group.committed()) == len(group.sent), lambda: "not all is committed")
        member.leave()
        assert set(member.read) == group.sent - before
