from itertools import product

import pytest

from barnabas.protocol.ids import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller.state import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    Assignment,
    ClusterState,
    Leadership,
    Partition,
    PartitionPhase,
    ReplicaPhase,
    StateRead,
    Term,
    TopicRead,
)

TERM = Term(BrokerId(1), ControllerEpoch(1), 1)
AT = TopicPartition("t", 0)
ONE, TWO = BrokerId(1), BrokerId(2)


def topic(*replicas: tuple[BrokerId, ...], version: int = 0) -> TopicRead:
    return TopicRead({number: Assignment(each) for number, each in enumerate(replicas)}, version)


def state_of(leader: int, version: int = 0) -> StateRead:
    return StateRead(Leadership(BrokerId(leader), LeaderEpoch(0), (ONE,), ControllerEpoch(1)), version)


@pytest.mark.parametrize(("before", "after"), list(product(PartitionPhase, PartitionPhase)))
def test_a_partition_makes_only_the_moves_of_the_table(before: PartitionPhase, after: PartitionPhase) -> None:
    partition = Partition(Assignment((ONE,)), before)
    if before in PARTITION_MOVES[after]:
        partition.move(after)
        assert partition.phase is after
    else:
        with pytest.raises(AssertionError, match=after.value):
            partition.move(after)


@pytest.mark.parametrize(("before", "after"), list(product(ReplicaPhase, ReplicaPhase)))
def test_a_replica_makes_only_the_moves_of_the_table(before: ReplicaPhase, after: ReplicaPhase) -> None:
    partition = Partition(Assignment((ONE,)), replicas={ONE: before})
    if before in REPLICA_MOVES[after]:
        partition.move_replica(ONE, after)
        assert partition.replicas == {ONE: after}
    else:
        with pytest.raises(AssertionError, match=after.value):
            partition.move_replica(ONE, after)


def test_a_deleted_log_can_only_be_forgotten() -> None:
    assert [after for after in ReplicaPhase if ReplicaPhase.DELETION_SUCCESSFUL in REPLICA_MOVES[after]] == [
        ReplicaPhase.NON_EXISTENT
    ]


def test_a_new_partition_has_no_leader_until_its_znode_is_known() -> None:
    state = ClusterState(TERM)
    assert state.apply_topic("t", topic((ONE, TWO))) == [AT]
    partition = state.partition(AT)
    assert partition is not None
    assert (partition.phase, partition.leadership, partition.version) == (PartitionPhase.NEW, None, -1)
    state.apply_state(AT, state_of(1, version=3))
    assert (partition.phase, partition.version) == (PartitionPhase.ONLINE, 3)
    state.apply_state(AT, state_of(-1, version=4))
    assert partition.phase is PartitionPhase.OFFLINE


def test_a_topic_read_again_adds_only_what_is_new() -> None:
    state = ClusterState(TERM)
    state.apply_topic("t", topic((ONE,)))
    assert state.apply_topic("t", topic((ONE,), (TWO,), version=1)) == [TopicPartition("t", 1)]
    assert state.topics["t"].version == 1


def test_a_broker_knows_what_it_holds_until_the_topic_goes() -> None:
    state = ClusterState(TERM)
    state.apply_topic("t", topic((ONE, TWO), (TWO,)))
    assert list(state.partitions_on[TWO]) == [AT, TopicPartition("t", 1)]
    state.deletions["t"] = None
    state.apply_topic_gone("t")
    assert not any(state.partitions_on.values())
    assert not state.deletions
