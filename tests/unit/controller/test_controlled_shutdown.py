"""ControlledShutdown in the core: leaders move, followers leave the in-sync sets, what nobody else can lead stays."""

from collections.abc import Mapping

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, TopicPartition
from controller.actions import Action
from controller.commands import ControlledShutdown, ControlledShutdownResult, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.events import Asked, BrokersRead, Refused, TopicNamesRead
from controller.state import ReplicaPhase, StateRead
from tests.unit.controller.core_rig import (
    AT,
    FENCE,
    Office,
    answers,
    broker,
    brokers,
    commands,
    led,
    sent,
    topic,
    writes,
)
from zk_schema import paths
from zk_schema.ops import Set, VersionMoved

ONE, TWO, THREE = (BrokerId(each) for each in (1, 2, 3))


def office(states: Mapping[int, StateRead], *replicas: list[int]) -> Office:
    """In office over brokers 1 to 3 with the partitions of topic t."""
    office = Office()
    known = {TopicPartition("t", number): state for number, state in states.items()}
    office.take_over(1, 2, 3, topics={"t": topic(*replicas)}, states=known)
    return office


def stops(office: Office, number: int, *, epoch: int = 100) -> list[Action]:
    return office.handle(Asked(9, ControlledShutdown(BrokerId(number), BrokerEpoch(epoch))))


def written(actions: list[Action]) -> list[tuple[int, int, list[int]]]:
    """Leader, epoch and in-sync set of each state that was written."""
    found = []
    for write in writes(actions):
        assert write.operations[0] == FENCE
        operation = write.operations[1]
        assert isinstance(operation, Set)
        leadership = type(led(1, 0, [1]).leadership).decode(operation.data)
        found.append((leadership.leader, leadership.leader_epoch, list(leadership.isr)))
    return found


def test_a_leader_is_replaced_by_the_first_in_sync_and_leaves_the_set() -> None:
    core = office({0: led(1, 4, [3, 1, 2])}, [1, 2, 3])
    actions = stops(core, 1)
    assert written(actions) == [(2, 5, [3, 2])]
    assert answers(actions) == [ControlledShutdownResult()]
    for number in (2, 3):
        lead, told = commands(actions, number)
        assert isinstance(lead, LeaderAndIsr)
        assert isinstance(told, UpdateMetadata)
        assert (lead.partitions[0].leader, lead.partitions[0].leader_epoch) == (2, 5)


def test_who_stops_is_told_to_stop_following_in_the_new_epoch_and_keeps_its_log() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2])
    actions = stops(core, 1)
    (stop,) = [each for each in commands(actions, 1) if isinstance(each, StopReplica)]
    ((entry),) = stop.partitions
    assert (entry.topic_partition, entry.leader_epoch, entry.delete) == (AT, 5, False)
    assert "LeaderAndIsr" not in sent(actions, 1)
    partition = core.core.state.partition(AT)
    assert partition is not None
    assert partition.replicas[ONE] is ReplicaPhase.OFFLINE


def test_a_follower_leaves_the_set() -> None:
    actions = stops(office({0: led(2, 4, [2, 1])}, [1, 2]), 1)
    assert written(actions) == [(2, 5, [2])]
    assert answers(actions) == [ControlledShutdownResult()]


def test_a_follower_that_is_not_in_sync_only_stops_following() -> None:
    actions = stops(office({0: led(2, 4, [2])}, [1, 2]), 1)
    assert written(actions) == []
    assert sent(actions, 1) == ["StopReplica"]


def test_a_partition_that_nobody_else_can_lead_yet_is_named_and_kept() -> None:
    core = office({0: led(1, 4, [1])}, [1, 2])
    actions = stops(core, 1)
    assert written(actions) == []
    assert answers(actions) == [ControlledShutdownResult(remaining=[AT])]
    assert sent(actions, 1) == []


def test_a_partition_without_another_replica_is_left_alone_and_not_named() -> None:
    actions = stops(office({0: led(1, 4, [1])}, [1]), 1)
    assert (written(actions), answers(actions)) == ([], [ControlledShutdownResult()])


def test_two_that_stop_at_once_do_not_hand_over_to_each_other() -> None:
    core = office({0: led(1, 4, [1, 2, 3])}, [1, 2, 3])
    assert written(stops(core, 2)) == [(1, 5, [1, 3])]
    assert written(stops(core, 1)) == [(3, 6, [3])]
    # Nobody is left who could take it: there is nothing to wait for.
    actions = stops(core, 3)
    assert (written(actions), answers(actions)) == ([], [ControlledShutdownResult()])


def test_who_asks_again_is_answered_again() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2])
    stops(core, 1)
    actions = stops(core, 1)
    assert (written(actions), answers(actions)) == ([], [ControlledShutdownResult()])


def test_a_broker_of_another_epoch_is_refused() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2])
    for epoch in (99, 101):
        actions = stops(core, 1, epoch=epoch)
        assert answers(actions) == [ControlledShutdownResult(ErrorCode.STALE_BROKER_EPOCH)]
        assert written(actions) == []


def test_a_state_that_moved_is_read_again_and_decided_anew() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2, 3])
    path = paths.partition_state("t", 0)
    request = Asked(9, ControlledShutdown(ONE, BrokerEpoch(100)))
    actions = core.handle(request, Refused(VersionMoved(Set(path, b"", 0), 1)), led(1, 4, [1, 3], version=1))
    assert written(actions) == [(2, 5, [2]), (3, 5, [3])]
    assert answers(actions) == [ControlledShutdownResult()]


def test_who_comes_back_is_a_replica_like_any_other() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2])
    stops(core, 1)
    core.handle(BrokersRead(brokers(2, 3)))
    actions = core.handle(BrokersRead({ONE: broker(1, epoch=200), **brokers(2, 3)}))
    assert "LeaderAndIsr" in sent(actions, 1)
    assert not core.core.state.shutting_down


def test_a_new_partition_is_not_given_to_who_is_about_to_stop() -> None:
    core = office({0: led(1, 4, [1, 2])}, [1, 2])
    stops(core, 1)
    actions = core.handle(TopicNamesRead(frozenset({"t", "u"}), {"u": topic([1, 2], [1])}))
    assert {each.operations[-1].path for each in writes(actions)} == {paths.partition_state("u", n) for n in (0, 1)}
    sets = [core.core.state.topics["u"].partitions[number].leadership for number in (0, 1)]
    assert [each and each.isr for each in sets] == [(TWO,), (ONE,)]


def test_who_is_about_to_stop_does_not_follow_again_when_something_else_happens() -> None:
    core = office({0: led(2, 4, [2, 1, 3])}, [2, 1, 3])
    stops(core, 1)
    actions = core.handle(BrokersRead(brokers(1, 2)))
    assert written(actions) == [(2, 6, [2])]
    assert "LeaderAndIsr" in sent(actions, 2)
    assert "LeaderAndIsr" not in sent(actions, 1)


def test_an_election_meanwhile_prefers_who_stays() -> None:
    core = office({0: led(2, 4, [2, 1, 3])}, [2, 1, 3])
    core.core.state.shutting_down[ONE] = None
    actions = core.handle(BrokersRead(brokers(1, 3)))
    assert written(actions) == [(3, 5, [1, 3])]
