"""What a user of `docker compose up` sees, and what the cluster stands."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from barnabas.simulation.history_check import check
from tests.compose.cluster import ComposedCluster, until
from tests.compose.load import Load

PARTITIONS = 3


def create(composed: ComposedCluster, topic: str) -> None:
    composed.barnabas(1, "topics", "create", topic, "--partitions", str(PARTITIONS))
    until("in sync everywhere", lambda: composed.isr(topic) == {1, 2, 3})


@pytest.fixture
def load(composed: ComposedCluster, request: pytest.FixtureRequest) -> Iterator[Load]:
    topic = request.node.name.replace("[", "-").replace("]", "")
    create(composed, topic)
    load = Load(composed.bootstrap, topic, partitions=PARTITIONS)
    load.start()
    load.goes_on()
    yield load
    load.stop()


def finish(composed: ComposedCluster, load: Load, topic: str) -> None:
    """The cluster is whole again, and nothing was lost, doubled, moved or changed."""
    load.goes_on()
    load.stop()
    for partition in range(PARTITIONS):
        until("the whole set in sync", lambda number=partition: composed.isr(topic, number) == {1, 2, 3})
    load.read_all()
    assert check(load.history) == []


def test_the_image_holds_a_broker_and_nothing_else(composed: ComposedCluster) -> None:
    assert composed.run(1, "id", "-un").strip() == "barnabas"
    assert composed.run(1, "sh", "-c", "command -v java || true") == ""
    assert composed.run(1, "sh", "-c", "python -c 'import pyspark' 2>&1 || true").strip().endswith("'pyspark'")
    assert composed.run(1, "sh", "-c", "command -v gcc mypyc || true") == ""


def test_the_image_is_compiled(composed: ComposedCluster) -> None:
    assert "way of records compiled" in composed.compose("logs", "--no-log-prefix", "broker-1")


def test_records_go_in_and_out_in_a_container(composed: ComposedCluster) -> None:
    assert "words" in composed.barnabas(1, "topics", "create", "words", "--partitions", "3")
    composed.run(2, "sh", "-c", "seq 1 1000 | barnabas produce words")
    assert composed.run(3, "sh", "-c", "barnabas consume words --exit | sort -n | md5sum") == composed.run(
        3, "sh", "-c", "seq 1 1000 | md5sum"
    )


def test_replicas_lie_in_different_racks(composed: ComposedCluster) -> None:
    create(composed, "racks")
    described = json.loads(composed.barnabas(1, "topics", "describe", "racks", "-o", "json"))[0]
    assert [sorted(partition["replicas"]) for partition in described["partition_list"]] == [[1, 2, 3]] * PARTITIONS
    registered = composed.compose("logs", "--no-log-prefix", "broker-2")
    assert "broker.rack=rack-b (KAFKA_BROKER_RACK)" in registered


@pytest.mark.parametrize("way", ["kill", "pause", "disconnect"])
def test_the_leader_goes_and_nothing_is_lost(composed: ComposedCluster, load: Load, way: str) -> None:
    topic = f"test_the_leader_goes_and_nothing_is_lost-{way}"
    leader = composed.leader(topic)
    container = composed.container(leader)
    network = f"{composed.project}_default"
    match way:
        case "kill":
            composed.docker("kill", number=leader)
        case "pause":
            composed.docker("pause", number=leader)
        case "disconnect":
            composed.docker("network", "disconnect", "--force", network, number=leader)
    until("another leads", lambda: composed.leader(topic, not_asking=leader) not in (leader, -1))
    load.goes_on()
    match way:
        case "kill":
            assert composed.state(leader)["ExitCode"] == 137
            composed.compose("start", f"broker-{leader}")
        case "pause":
            composed.docker("unpause", number=leader)
        case "disconnect":
            subprocess.run(
                ["docker", "network", "connect", "--alias", f"broker-{leader}", network, container], check=True
            )
    finish(composed, load, topic)


def test_a_broker_that_is_stopped_hands_over_and_ends_cleanly(composed: ComposedCluster, load: Load) -> None:
    topic = "test_a_broker_that_is_stopped_hands_over_and_ends_cleanly"
    leader = composed.leader(topic)
    composed.compose("stop", f"broker-{leader}")
    assert composed.state(leader)["ExitCode"] == 0
    assert composed.leader(topic) not in (leader, -1)
    load.goes_on()
    composed.compose("start", f"broker-{leader}")
    finish(composed, load, topic)


def test_all_containers_are_made_anew_and_the_data_is_there(composed: ComposedCluster, load: Load) -> None:
    topic = "test_all_containers_are_made_anew_and_the_data_is_there"
    composed.compose("down", "--timeout", "30")
    composed.compose("up", "--wait")
    finish(composed, load, topic)
