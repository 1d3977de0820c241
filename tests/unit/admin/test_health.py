"""What is wrong with a cluster, values in and values out."""

from barnabas.admin.health import examine
from barnabas.client.connection import Address
from barnabas.client.metadata import ClusterMetadata, Node, PartitionMetadata, TopicMetadata
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition


def metadata(
    *partitions: tuple[int, list[int], list[int]], live: tuple[int, ...] = (1, 2, 3), controller: int = 1,
    offline: tuple[int, ...] = (),
) -> ClusterMetadata:  # fmt: skip
    """Partitions of one topic as (leader, replicas, in sync)."""
    found = {
        number: PartitionMetadata(number, leader, 0, replicas, isr, list(offline), ErrorCode.NONE)
        for number, (leader, replicas, isr) in enumerate(partitions)
    }
    nodes = {each: Node(each, Address(f"host{each}", 9092), None) for each in live}
    return ClusterMetadata("c", controller, nodes, {"t": TopicMetadata("t", ErrorCode.NONE, False, found)})


def test_a_cluster_that_is_well() -> None:
    health = examine(metadata((1, [1, 2], [1, 2]), (2, [2, 3], [3, 2])), {})
    assert health.problems == []
    assert health.line == "healthy: 3 brokers, controller 1, 2 partitions in sync"


def test_all_that_is_wrong_stands_in_one_line_the_worst_first() -> None:
    health = examine(metadata((-1, [3], [3]), (1, [1, 2, 3], [1]), (1, [1, 3], [1]), live=(1, 2)), {"t": 2})
    assert health.line == (
        "unhealthy: t-0 has no leader; 2 partitions are under min.insync.replicas (t-1, t-2); broker 3 is down"
    )
    assert [len(each) for each in (health.unavailable, health.under_min_isr, health.under_replicated)] == [1, 3, 2]


def test_a_damaged_replica_is_told() -> None:
    health = examine(metadata((1, [1, 2, 3], [1, 2, 3])), {})
    health.damaged = {TopicPartition("t", 0): [2, 3]}
    assert health.problems == ["t-0 is damaged on brokers 2, 3"]
    assert health.document()["damaged"] == {"t-0": [2, 3]}


def test_a_replica_behind_is_told_where_writes_still_pass() -> None:
    health = examine(metadata(*[(1, [1, 2, 3], [1, 2])] * 5), {"t": 2})
    assert health.problems == ["5 partitions are under-replicated (t-0, t-1, t-2, ...)"]


def test_a_cluster_without_a_controller_is_not_well() -> None:
    assert examine(metadata(controller=-1), {}).problems == ["no broker is the controller"]
    assert examine(metadata(controller=9), {}).problems == ["no broker is the controller"]


def test_a_disk_that_failed_on_a_live_broker_is_told() -> None:
    assert examine(metadata((1, [1, 2], [1]), offline=(2,)), {}).problems == [
        "broker 2 lost a log directory",
        "t-0 is under-replicated",
    ]


def test_a_topic_that_asks_for_more_in_sync_than_it_has_replicas_refuses_writes() -> None:
    assert examine(metadata((1, [1], [1])), {"t": 2}).problems == ["t-0 is under min.insync.replicas"]


def test_a_replica_that_a_reassignment_adds_is_not_missed() -> None:
    moving = metadata((1, [4, 1, 2], [1, 2]), (1, [4, 1, 2], [1]))
    adding = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 1}
    assert examine(moving, {}, adding).under_replicated == [TopicPartition("t", 1)]
    assert len(examine(moving, {}).under_replicated) == 2


def test_brokers_that_do_not_answer_are_told() -> None:
    health = examine(metadata((1, [1, 2, 3], [1, 2, 3])), {})
    health.silent = [2]
    assert health.line == "unhealthy: broker 2 does not answer"
    assert health.document()["brokers_that_do_not_answer"] == [2]
