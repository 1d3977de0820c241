"""Kafka 2.7.2's tools for replicas against us: log directories and moves between them, deleted records, throttles."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from barnabas.launcher.cluster import LocalCluster
from tests.support.cluster import new_cluster
from tests.support.java import run_java
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path

pytestmark = [pytest.mark.java, pytest.mark.processes, pytest.mark.timeout(240)]

LOG_DIRS = "kafka.admin.LogDirsCommand"
REASSIGN = "kafka.admin.ReassignPartitionsCommand"
DELETE_RECORDS = "kafka.admin.DeleteRecordsCommand"
CONFIG = "kafka.admin.ConfigCommand"
WAIT_SECONDS = 40.0
RECORD = b"v" * 10_000


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture
def two_directories(tmp_path: Path) -> Iterator[LocalCluster]:
    """One broker with two log directories."""
    made = new_cluster(tmp_path / "data", brokers=1, properties={"log.dirs": f"{tmp_path}/a,{tmp_path}/b"})
    made.start()
    yield made
    made.stop()


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[LocalCluster]:
    made = new_cluster(tmp_path / "data", brokers=2)
    made.start()
    yield made
    made.stop()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} within {WAIT_SECONDS} s"
        time.sleep(0.05)


def fill(cluster: LocalCluster, topic: str, records: int) -> None:
    """A topic of one partition on broker 1."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    new = NewTopic(topic, num_partitions=1, replica_assignment=[[1]])
    admin = AdminClient(servers)
    admin.create_topics([new])[topic].result(20)
    producer = Producer({**servers, "linger.ms": 5})
    for _ in range(records):
        producer.produce(topic, RECORD, partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


def described(jars: str, cluster: LocalCluster, topic: str) -> dict[str, dict[str, tuple[int, bool]]]:
    """Size of each replica and whether it is on its way, by directory."""
    where = ["--bootstrap-server", cluster.bootstrap_servers]
    output = run_java(jars, LOG_DIRS, [*where, "--describe", "--topic-list", topic])
    (line,) = [line for line in output.splitlines() if line.startswith("{")]
    (broker,) = json.loads(line)["brokers"]
    return {
        directory["logDir"].rpartition("/")[2]: {
            each["partition"]: (each["size"], each["isFuture"]) for each in directory["partitions"]
        }
        for directory in broker["logDirs"]
    }


def test_a_replica_is_found_and_moved_by_the_tools(jars: str, two_directories: LocalCluster, tmp_path: Path) -> None:
    fill(two_directories, "moved", 500)
    before = described(jars, two_directories, "moved")
    (here,) = [name for name, found in before.items() if found]
    there = "b" if here == "a" else "a"
    size, is_future = before[here]["moved-0"]
    assert size > 500 * len(RECORD)
    assert not is_future
    plan = tmp_path / "plan.json"
    row = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [f"{tmp_path}/{there}"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    where = ["--bootstrap-server", two_directories.bootstrap_servers, "--reassignment-json-file", str(plan)]
    assert "Successfully started" in run_java(jars, REASSIGN, [*where, "--execute"])
    until(lambda: described(jars, two_directories, "moved")[there] == {"moved-0": (size, False)}, "the move")
    assert described(jars, two_directories, "moved")[here] == {}
    assert (tmp_path / there / "moved-0").is_dir()
    assert not (tmp_path / here / "moved-0").exists()
    output = run_java(jars, REASSIGN, [*where, "--verify", "--preserve-throttles"])
    assert "Reassignment of replica moved-0-1 completed successfully" in output


def test_records_are_deleted_by_the_tool(jars: str, two_directories: LocalCluster, tmp_path: Path) -> None:
    fill(two_directories, "shortened", 100)
    offsets = tmp_path / "offsets.json"
    row = {"topic": "shortened", "partition": 0, "offset": 60}
    offsets.write_text(json.dumps({"version": 1, "partitions": [row]}))
    where = ["--bootstrap-server", two_directories.bootstrap_servers]
    output = run_java(jars, DELETE_RECORDS, [*where, "--offset-json-file", str(offsets)])
    assert "partition: shortened-0\tlow_watermark: 60" in output
    consumer = Consumer({"bootstrap.servers": two_directories.bootstrap_servers, "group.id": "none"})
    assert consumer.get_watermark_offsets(TopicPartition("shortened", 0), timeout=20) == (60, 100)
    consumer.close()


def test_settings_that_the_tool_writes_into_zookeeper_act_at_once(jars: str, two_directories: LocalCluster) -> None:
    fill(two_directories, "small", 1)
    where = ["--zookeeper", two_directories.connect_string, "--entity-type", "topics", "--entity-name", "small"]
    run_java(jars, CONFIG, [*where, "--alter", "--add-config", "max.message.bytes=5000"])
    refused: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: object) -> None:
        refused.extend([error] if error is not None else [])

    def is_refused() -> bool:
        producer = Producer({"bootstrap.servers": two_directories.bootstrap_servers})
        producer.produce("small", RECORD, on_delivery=on_delivery)
        producer.flush(20)
        return bool(refused)

    until(is_refused, "the new bound")
    assert refused[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def in_sync(cluster: LocalCluster, topic: str) -> set[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return set(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)


def test_a_reassignment_with_a_throttle_takes_its_time_until_the_throttle_is_raised(
    jars: str, two_brokers: LocalCluster, tmp_path: Path
) -> None:
    fill(two_brokers, "throttled", 3_000)
    plan = tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "throttled", "partition": 0, "replicas": [1, 2]}]})
    )
    where = ["--zookeeper", two_brokers.connect_string, "--reassignment-json-file", str(plan)]
    # 30 MB at 1 MB a second.
    run_java(jars, REASSIGN, [*where, "--execute", "--throttle", "1000000"])
    time.sleep(6)
    assert in_sync(two_brokers, "throttled") == {1}
    followed = sum(file.stat().st_size for file in two_brokers.directory.glob("broker-2/logs*/throttled-0/*.log"))
    assert 1_000_000 < followed < 20_000_000
    rates = "leader.replication.throttled.rate=100000000,follower.replication.throttled.rate=100000000"
    for broker in ("1", "2"):
        of_broker = ["--zookeeper", two_brokers.connect_string, "--entity-type", "brokers", "--entity-name", broker]
        run_java(jars, CONFIG, [*of_broker, "--alter", "--add-config", rates])
    until(lambda: in_sync(two_brokers, "throttled") == {1, 2}, "the reassignment")
    output = run_java(jars, REASSIGN, [*where, "--verify"])
    assert "Clearing broker-level throttles" in output
