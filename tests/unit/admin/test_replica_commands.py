"""`barnabas cluster`, `reassign`, `elect-leaders` and the faults of `topics describe`, against a small cluster."""

import json
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
from tests.unit.admin.conftest import Run
from tests.unit.admin.replica_cluster import ReplicaCluster, Replicated
from tests.unit.client.small_cluster import SmallCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def replicas(served: SmallCluster) -> ReplicaCluster:
    """Brokers 1 and 2, two partitions with both."""
    return ReplicaCluster(served, {A: Replicated(1, [1, 2], [1, 2]), B: Replicated(2, [2, 1], [1, 2])})


def test_a_healthy_cluster_says_so_in_one_line(replicas: ReplicaCluster, on_cluster: Run) -> None:
    ran = on_cluster("cluster", "health")
    assert (ran.status, ran.lines) == (0, ["healthy: 2 brokers, controller 1, 2 partitions in sync"])
    document = json.loads(on_cluster("cluster", "health", "-o", "json").out)
    assert (document["healthy"], document["problems"]) == (True, [])
    assert replicas.partitions[A].leader == 1


def test_an_unhealthy_cluster_exits_with_4(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[A] = Replicated(-1, [3], [3])
    replicas.partitions[B].isr = [2]
    ran = on_cluster("cluster", "health")
    assert ran.status == 4
    assert ran.lines == ["unhealthy: t-0 has no leader; broker 3 is down; t-1 is under-replicated"]
    ran = on_cluster("cluster", "health", "-o", "jsonl")
    assert (ran.status, json.loads(ran.out)["unavailable"]) == (4, ["t-0"])


def test_a_broker_that_was_killed_is_missed_before_its_session_ends(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.small.ports[2] = 1
    ran = on_cluster("cluster", "health", "--timeout", "1")
    assert (ran.status, ran.lines) == (4, ["unhealthy: broker 2 does not answer"])


def test_what_a_reassignment_adds_is_not_under_replicated(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[A] = Replicated(1, [3, 1, 2], [1, 2], OngoingPartitionReassignment(0, [3, 1, 2], [3], [1]))
    replicas.small.ports[3] = replicas.small.ports[2]
    assert on_cluster("cluster", "health").status == 0
    assert json.loads(on_cluster("topics", "describe", "--under-replicated", "-o", "json").out) == []
    replicas.partitions[A].isr = [1]
    assert on_cluster("cluster", "health").lines == ["unhealthy: t-0 is under-replicated"]
    assert len(json.loads(on_cluster("topics", "describe", "--under-replicated", "-o", "json").out)) == 1


def test_a_cluster_that_does_not_answer_is_unhealthy(run: Run) -> None:
    ran = run("cluster", "health", "-b", "127.0.0.1:1", "--timeout", "1")
    assert ran.status == 4
    assert ran.lines[0].startswith("unhealthy: ")


def test_the_status_of_a_cluster(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[A].isr = [1]
    replicas.min_isr = 2
    found = json.loads(on_cluster("cluster", "status", "-o", "json").out)
    assert found == {
        "cluster_id": "small", "controller": 1, "brokers": 2, "topics": 1, "partitions": 2,
        "unavailable": 0, "under_min_isr": 1, "under_replicated": 1, "reassigned": 0,
    }  # fmt: skip
    assert "under min isr     1" in on_cluster("cluster", "status").lines


def test_brokers_are_listed_with_what_they_hold(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[B].leader = 1
    ports = replicas.small.ports
    assert on_cluster("cluster", "brokers").lines == [
        "BROKER  ADDRESS          RACK  CONTROLLER  LEADERS  PREFERRED  REPLICAS  IN SYNC",
        f"     1  127.0.0.1:{ports[1]:<5}  -     yes               2          1         2        2",
        f"     2  127.0.0.1:{ports[2]:<5}  -     no                0          1         2        2",
    ]


def test_the_controller_is_shown_or_missed(replicas: ReplicaCluster, on_cluster: Run) -> None:
    assert [each["broker"] for each in json.loads(on_cluster("cluster", "controller", "-o", "json").out)] == [1]
    replicas.small.controller = -1
    assert on_cluster("cluster", "controller").status == 4


@pytest.mark.parametrize(
    ("fault", "numbers"), [("--under-replicated", [1, 2]), ("--unavailable", [2]), ("--under-min-isr", [1, 2])]
)
def test_partitions_with_a_fault_are_described(
    replicas: ReplicaCluster, on_cluster: Run, fault: str, numbers: list[int]
) -> None:
    replicas.min_isr = 2
    replicas.partitions[B].isr = [2]
    replicas.partitions[TopicPartition("t", 2)] = Replicated(-1, [1, 2], [1])
    rows = json.loads(on_cluster("topics", "describe", fault, "-o", "json").out)
    assert [(row["topic"], row["partition"]) for row in rows] == [("t", number) for number in numbers]
    assert on_cluster("topics", "describe", "t", fault).lines[0].startswith("TOPIC  PARTITION  LEADER")
    assert on_cluster("topics", "describe").status == 2


def test_a_plan_is_shown_and_nothing_is_done(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[A].replicas = replicas.partitions[B].replicas = [1]
    replicas.sizes = {1: {A: 3 << 20, B: 17}}
    ran = on_cluster("reassign", "plan", "t")
    assert ran.lines == [
        "TOPIC  PARTITION  FROM  TO  BYTES TO COPY",
        "t              0  1     2   3.0 MiB",
    ]
    assert "nothing was done" in ran.err
    document = json.loads(on_cluster("reassign", "plan", "t", "-o", "json").out)
    assert document["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [2]},
        {"topic": "t", "partition": 1, "replicas": [1]},
    ]
    assert replicas.altered == {}


def test_what_a_broker_has_already_is_not_copied(replicas: ReplicaCluster, on_cluster: Run) -> None:
    """As where a plan turns back a move that is under way."""
    replicas.partitions = {A: Replicated(1, [2, 1], [1, 2], OngoingPartitionReassignment(0, [2, 1], [2], [1]))}
    for held, lacking in ((1000, "0 B"), (400, "600 B")):
        replicas.sizes = {1: {A: held}, 2: {A: 1000}}
        lines = on_cluster("reassign", "plan", "t", "--brokers", "1").lines
        assert lines[1] == f"t              0  2     1   {lacking}"


def test_a_plan_is_done_when_asked_and_waited_for(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.partitions[A].moving = OngoingPartitionReassignment(0, [2, 1], [2], [1])
    replicas.sizes = {1: {A: 1000}, 2: {A: 400}}
    replicas.finish_after = 3
    ran = on_cluster("reassign", "plan", "t", "--brokers", "2", "-r", "1", "--execute", "--wait")
    assert ran.status == 0, ran.err
    assert replicas.altered == {B: [2]}
    assert "all have moved" in ran.err


def test_a_plan_from_a_file_is_shown_then_done(replicas: ReplicaCluster, on_cluster: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[1]}]}')
    ran = on_cluster("reassign", "execute", str(file))
    assert "t              1  2,1   1   0 B" in ran.lines
    assert replicas.altered == {}
    ran = on_cluster("reassign", "execute", "-", "--execute", stdin=file.read_bytes())
    assert (ran.status, replicas.altered) == (0, {B: [1]})
    replicas.refusals = {B: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
    ran = on_cluster("reassign", "execute", str(file), "--execute")
    assert ran.status == 1
    assert "t-1" in ran.err


@pytest.mark.parametrize("text", ["{}", '{"partitions":[{"topic":"t","partition":9,"replicas":[1]}]}'])
def test_what_is_no_plan_fails(on_cluster: Run, replicas: ReplicaCluster, tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    assert on_cluster("reassign", "execute", str(tmp_path / "plan.json"), "--execute").status == 1
    assert replicas.altered == {}
    assert on_cluster("reassign", "plan", "t", "--brokers", "9").status == 1
    assert on_cluster("reassign", "plan", "t", "-r", "3").status == 1


def test_what_moves_is_shown_with_the_bytes_that_are_left(replicas: ReplicaCluster, on_cluster: Run) -> None:
    assert on_cluster("reassign", "status").lines == ["nothing is being reassigned"]
    replicas.partitions[A].moving = OngoingPartitionReassignment(0, [2, 1], [2], [1])
    replicas.sizes = {1: {A: 5000}, 2: {A: 904}}
    assert on_cluster("reassign", "status").lines == [
        "TOPIC  PARTITION  TARGET  COME  GO  BYTES LEFT",
        "t              0  2       2     1   4.0 KiB",
    ]
    (row,) = json.loads(on_cluster("reassign", "status", "-o", "json").out)
    assert row["bytes"] == 4096


def test_a_move_is_cancelled_when_asked(replicas: ReplicaCluster, on_cluster: Run) -> None:
    assert on_cluster("reassign", "cancel", "t").status == 1
    replicas.partitions[A].moving = OngoingPartitionReassignment(0, [2, 1], [2], [1])
    assert on_cluster("reassign", "cancel", "t:0").status == 0
    assert replicas.altered == {}
    ran = on_cluster("reassign", "cancel", "--all", "--execute")
    assert (ran.status, replicas.altered) == (0, {A: None})
    assert on_cluster("reassign", "cancel").status == 2


def test_preferred_leaders_are_elected(replicas: ReplicaCluster, on_cluster: Run) -> None:
    replicas.elections = {A: ErrorCode.NONE, B: ErrorCode.ELECTION_NOT_NEEDED}
    assert on_cluster("elect-leaders", "t").lines[1:] == ["t              0  elected"]
    assert on_cluster("elect-leaders", "t:1").lines == ["nothing to do: all are led as they should be"]
    replicas.elections[B] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    ran = on_cluster("elect-leaders", "--all")
    assert ran.status == 1
    assert "t-1" in ran.err
    assert on_cluster("elect-leaders").status == 2
    assert on_cluster("elect-leaders", "t:x").status == 2


def test_an_unclean_election_asks_first(replicas: ReplicaCluster, on_cluster: Run) -> None:
    assert on_cluster("elect-leaders", "t:0", "--unclean", stdin=b"n\n").status == 1
    assert not [each for each in replicas.small.asked if hasattr(each.request, "election_type")]
    assert on_cluster("elect-leaders", "t:0", "--unclean", "--yes").status == 0
    assert replicas.small.asked[-1].request.election_type == 1
