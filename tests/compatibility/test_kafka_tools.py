"""Kafka 2.7.2's own tools and code against our cluster: what they write into ZooKeeper acts, what they ask is answered,
and the znodes that we write read back as Kafka reads its own."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from barnabas.launcher.cluster import LocalCluster
from tests.support.cluster import new_cluster
from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import BROKER_JARS, JarsNotAvailable, class_path

pytestmark = [pytest.mark.java, pytest.mark.processes, pytest.mark.timeout(240)]

TOPICS = "kafka.admin.TopicCommand"
REASSIGN = "kafka.admin.ReassignPartitionsCommand"
WAIT_SECONDS = 30.0
READER = Path(__file__).parent / "java" / "ZnodeReader.java"


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return class_path(BROKER_JARS)
    except JarsNotAvailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers."""
    made = new_cluster(tmp_path_factory.mktemp("cluster"), brokers=3)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def zookeeper(cluster: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def tool(jars: str, cluster: LocalCluster) -> Callable[..., str]:
    """Run a tool against ZooKeeper, or with `by_broker` against the brokers."""

    def run(name: str, *arguments: str, by_broker: bool = False) -> str:
        where = (
            ("--bootstrap-server", cluster.bootstrap_servers) if by_broker else ("--zookeeper", cluster.connect_string)
        )
        return run_java(jars, name, [*where, *arguments])

    return run


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"{what} within {WAIT_SECONDS} s"
        time.sleep(0.05)


Placed = Mapping[int, tuple[int, list[int], list[int]]]


def placed(cluster: LocalCluster, topic: str) -> Placed:
    """Leader, replicas and in-sync set of each partition, as a client is told; none of a topic that is not there."""
    found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic, timeout=10).topics[topic]
    return {number: (each.leader, each.replicas, sorted(each.isrs)) for number, each in found.partitions.items()}


def in_sync(cluster: LocalCluster, topic: str, replicas: Sequence[Sequence[int]]) -> bool:
    """Whether the partitions have these replicas, all in sync, and leaders."""
    found = placed(cluster, topic)
    return len(found) == len(replicas) and all(
        leader > 0 and have == list(wanted) and isr == sorted(wanted)
        for (leader, have, isr), wanted in zip(found.values(), replicas, strict=True)
    )


def write_plan(directory: Path, topic: str, replicas: Sequence[Sequence[int]]) -> str:
    rows = [{"topic": topic, "partition": number, "replicas": list(ids)} for number, ids in enumerate(replicas)]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(file)


def test_a_topic_that_a_tool_creates_in_zookeeper_is_brought_up_grows_and_goes(
    cluster: LocalCluster, tool: Callable[..., str]
) -> None:
    tool(TOPICS, "--create", "--topic", "by-tool", "--partitions", "4", "--replication-factor", "3")
    until(
        lambda: (
            len(placed(cluster, "by-tool")) == 4
            and all(len(isr) == 3 for _, _, isr in placed(cluster, "by-tool").values())
        ),
        "four partitions with three replicas in sync",
    )
    described = tool(TOPICS, "--describe", "--topic", "by-tool", by_broker=True)
    assert "PartitionCount: 4\tReplicationFactor: 3" in described
    assert "Topic: " not in tool(TOPICS, "--describe", "--under-replicated-partitions", by_broker=True)
    tool(TOPICS, "--alter", "--topic", "by-tool", "--partitions", "6")
    until(lambda: len(placed(cluster, "by-tool")) == 6, "six partitions")
    tool(TOPICS, "--delete", "--topic", "by-tool")
    until(lambda: "by-tool" not in tool(TOPICS, "--list", by_broker=True).split(), "no topic")
    assert "by-tool" not in tool(TOPICS, "--list").split()


def test_partitions_move_by_the_old_znode(
    cluster: LocalCluster, tool: Callable[..., str], zookeeper: KazooClient, tmp_path: Path
) -> None:
    tool(TOPICS, "--create", "--topic", "old-way", "--replica-assignment", "1:2,2:3")
    until(lambda: in_sync(cluster, "old-way", [[1, 2], [2, 3]]), "the topic")
    plan = write_plan(tmp_path, "old-way", [[3, 2], [1]])
    assert "Successfully started partition reassignments" in tool(
        REASSIGN, "--reassignment-json-file", plan, "--execute"
    )
    until(lambda: in_sync(cluster, "old-way", [[3, 2], [1]]), "the partitions where they should be")
    until(lambda: not zookeeper.exists("/admin/reassign_partitions"), "no request left")
    verified = tool(REASSIGN, "--reassignment-json-file", plan, "--verify")
    assert verified.count("is complete") == 2, verified


def test_partitions_move_by_the_api(cluster: LocalCluster, tool: Callable[..., str], tmp_path: Path) -> None:
    tool(TOPICS, "--create", "--topic", "new-way", "--replica-assignment", "1:2", by_broker=True)
    until(lambda: in_sync(cluster, "new-way", [[1, 2]]), "the topic")
    plan = write_plan(tmp_path, "new-way", [[3, 1]])
    assert "Successfully started" in tool(REASSIGN, "--reassignment-json-file", plan, "--execute", by_broker=True)
    until(lambda: in_sync(cluster, "new-way", [[3, 1]]), "the partition where it should be")
    verify = ("--reassignment-json-file", plan, "--verify")
    assert "is complete" in tool(REASSIGN, *verify, by_broker=True)
    assert "No partition reassignments found" in tool(REASSIGN, "--list", by_broker=True)


def test_leaders_are_elected_by_the_api_and_by_the_old_znode(
    cluster: LocalCluster, tool: Callable[..., str], zookeeper: KazooClient, tmp_path: Path
) -> None:
    tool(TOPICS, "--create", "--topic", "led", "--replica-assignment", "1:2,1:3", by_broker=True)
    until(lambda: in_sync(cluster, "led", [[1, 2], [1, 3]]), "the topic")
    everything = write_plan(tmp_path, "led", [[1, 2], [1, 3]])
    for name, arguments, by_broker in (
        ("kafka.admin.LeaderElectionCommand", ("--election-type", "preferred", "--all-topic-partitions"), True),
        ("kafka.admin.PreferredReplicaLeaderElectionCommand", ("--path-to-json-file", everything), False),
    ):
        cluster.kill(1)
        until(lambda: {leader for leader, _, _ in placed(cluster, "led").values()} == {2, 3}, "others lead")
        cluster.start()
        until(lambda: in_sync(cluster, "led", [[1, 2], [1, 3]]), "broker 1 in sync again")
        tool(name, *arguments, by_broker=by_broker)
        until(lambda: {leader for leader, _, _ in placed(cluster, "led").values()} == {1}, "broker 1 leads again")
    until(lambda: not zookeeper.exists("/admin/preferred_replica_election"), "no request left")


def test_features_can_be_asked_for_and_there_is_none_to_upgrade(tool: Callable[..., str]) -> None:
    name = "kafka.admin.FeatureCommand"
    assert "Feature: " not in tool(name, "--describe", by_broker=True)
    assert "Feature: " not in tool(name, "--describe", "--from-controller", by_broker=True)
    tool(name, "--upgrade-all", by_broker=True)


def test_our_znodes_read_back_through_kafkas_code(
    cluster: LocalCluster, jars: str, tool: Callable[..., str], zookeeper: KazooClient, tmp_path: Path
) -> None:
    tool(
        *(TOPICS, "--create", "--topic", "znodes", "--replica-assignment", "1:2:3,3:1:2"),
        *("--config", "retention.ms=77000"),
        by_broker=True,
    )
    until(lambda: in_sync(cluster, "znodes", [[1, 2, 3], [3, 1, 2]]), "the topic")
    output = run_java(
        compile_java(READER, jars=jars, output=tmp_path / "classes"), "ZnodeReader", [cluster.connect_string]
    )
    facts = [line.removeprefix("fact ") for line in output.splitlines() if line.startswith("fact ")]
    status = cluster.status()
    controller_epoch = int(zookeeper.get("/controller_epoch")[0])
    assert f"controller {status.controller}" in facts
    assert f"controller epoch {controller_epoch}" in facts
    assert f"cluster id {json.loads(zookeeper.get('/cluster/id')[0])['id']}" in facts
    for broker_id in cluster.broker_ids:
        registered = zookeeper.exists(f"/brokers/ids/{broker_id}")
        (found,) = [fact for fact in facts if fact.startswith(f"broker {broker_id} ")]
        assert found.endswith(f"rack none epoch {registered.czxid}")
    assert "assignment znodes-0 1,2,3 adding  removing " in facts
    assert "assignment znodes-1 3,1,2 adding  removing " in facts
    assert "config znodes {retention.ms=77000}" in facts
    states = [fact for fact in facts if fact.startswith("state znodes-")]
    assert states == [
        f"state znodes-0 leader 1 epoch 0 isr [1, 2, 3] controller epoch {controller_epoch}",
        f"state znodes-1 leader 3 epoch 0 isr [1, 2, 3] controller epoch {controller_epoch}",
    ]
    assert "features Enabled true" in facts
