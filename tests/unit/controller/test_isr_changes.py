"""AlterPartition in the core: what is refused, what is written, what everybody hears."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from controller.commands import (
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
    CommandResult,
    ControlledShutdown,
    LeaderAndIsr,
    UpdateMetadata,
)
from controller.events import Asked, CommandAnswered, Refused, Unknown
from controller.state import StateRead
from tests.unit.controller.core_rig import AT, FENCE, Office, answers, commands, led, sent, topic, writes
from zk_schema import paths
from zk_schema.ops import Set, VersionMoved

STATE = paths.partition_state("t", 0)


def office(*, isr: list[int] | None = None, version: int = 5) -> Office:
    """In office over brokers 1 to 4 (epoch 100); 1 leads t-0 of 1, 2 and 3 in leader epoch 7."""
    office = Office()
    state = led(1, 7, isr or [1, 2], version=version, by=2)
    office.take_over(1, 2, 3, 4, topics={"t": topic([1, 2, 3])}, states={AT: state})
    return office


def item(*isr: int, epoch: int = 7, version: int = 5, joiner_epoch: int = -1) -> AlterPartitionItem:
    ids = tuple(map(BrokerId, isr))
    return AlterPartitionItem("t", 0, LeaderEpoch(epoch), ids, version, BrokerEpoch(joiner_epoch))


def request(*items: AlterPartitionItem, broker: int = 1, epoch: int = 100) -> Asked:
    return Asked(9, AlterPartition(BrokerId(broker), BrokerEpoch(epoch), list(items)))


def standing(*isr: int, version: int, error: ErrorCode = ErrorCode.NONE) -> AlterPartitionOutcome:
    return AlterPartitionOutcome(error, BrokerId(1), LeaderEpoch(7), tuple(map(BrokerId, isr)), version)


def outcome(actions: list[Any], at: TopicPartition = AT) -> AlterPartitionOutcome:
    (result,) = answers(actions)
    assert isinstance(result, AlterPartitionResult)
    assert result.error_code is ErrorCode.NONE
    return result.partitions[at]


@pytest.mark.parametrize("isr", [[1, 2, 3], [1], [3, 2, 1]])
def test_a_change_is_written_under_its_version_and_everybody_hears_of_it_in_the_same_leader_epoch(
    isr: list[int],
) -> None:
    core = office()
    actions = core.handle(request(item(*isr)))
    (write,) = writes(actions)
    after = led(1, 7, isr, knowing=dict.fromkeys(isr, 100)).leadership
    assert write.operations == (FENCE, Set(STATE, after.encode(), 5))
    assert outcome(actions) == standing(*isr, version=6)
    for broker in (1, 2, 3, 4):
        (told,) = commands(actions, broker)
        assert isinstance(told, UpdateMetadata)
        assert [(each.isr, each.zk_version, each.leader_epoch) for each in told.partitions] == [(tuple(isr), 6, 7)]
    partition = core.core.state.partition(AT)
    assert partition is not None
    assert (partition.leadership, partition.version) == (after, 6)


def test_nobody_hears_of_a_change_before_it_is_confirmed() -> None:
    core = office()
    core.handle(request(item(1, 2, 3)))
    assert writes(core.batches[0])
    assert not any(sent(core.batches[0], broker) for broker in (1, 2, 3))


def test_what_stands_already_is_answered_as_done_whatever_version_is_named() -> None:
    actions = office().handle(request(item(2, 1, version=3)))
    assert outcome(actions) == standing(1, 2, version=5)
    assert writes(actions) == []


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (item(1, epoch=6), ErrorCode.FENCED_LEADER_EPOCH),
        (item(1, epoch=8), ErrorCode.NOT_CONTROLLER),
        (item(), ErrorCode.INVALID_REQUEST),
        (item(2, 3), ErrorCode.INVALID_REQUEST),
        (item(1, 4), ErrorCode.INVALID_REQUEST),
        (item(1, 2, 2, 3), ErrorCode.INVALID_REQUEST),
        (replace(item(1), topic="u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(item(1), partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_cannot_be_is_refused(wanted: AlterPartitionItem, error: ErrorCode) -> None:
    actions = office().handle(request(wanted))
    assert outcome(actions, wanted.topic_partition) == AlterPartitionOutcome(error)
    assert writes(actions) == []


def test_who_does_not_lead_does_not_change_the_set() -> None:
    assert outcome(office().handle(request(item(1, 2, 3), broker=2))).error_code is ErrorCode.INVALID_REQUEST


def test_a_wrong_version_is_told_what_stands() -> None:
    actions = office().handle(request(item(1, 2, 3, version=4)))
    assert outcome(actions) == standing(1, 2, version=5, error=ErrorCode.INVALID_UPDATE_VERSION)
    assert writes(actions) == []


@pytest.mark.parametrize(("broker", "epoch"), [(1, 99), (1, 101), (9, 100)])
def test_a_broker_of_another_epoch_is_refused_as_a_whole(broker: int, epoch: int) -> None:
    actions = office().handle(request(item(1, 2, 3), broker=broker, epoch=epoch))
    assert answers(actions) == [AlterPartitionResult(ErrorCode.STALE_BROKER_EPOCH)]


def test_a_broker_that_is_gone_does_not_join() -> None:
    core = Office()
    core.take_over(1, 2, topics={"t": topic([1, 2, 3])}, states={AT: led(1, 7, [1, 2], version=5)})
    actions = core.handle(request(item(1, 2, 3)))
    assert outcome(actions) == standing(1, 2, version=5, error=ErrorCode.INELIGIBLE_REPLICA)


def test_a_broker_that_is_shutting_down_does_not_join() -> None:
    core = office()
    core.handle(Asked(1, ControlledShutdown(BrokerId(3), BrokerEpoch(100))))
    actions = core.handle(request(item(1, 2, 3)))
    assert outcome(actions) == standing(1, 2, version=5, error=ErrorCode.INELIGIBLE_REPLICA)


def test_a_replica_whose_disk_failed_does_not_join() -> None:
    core = Office()
    told = core.take_over(1, 2, 3, topics={"t": topic([1, 2, 3])}, states={AT: led(1, 7, [1, 2], version=5)})
    lead = next(each for each in commands(told, 3) if isinstance(each, LeaderAndIsr))
    failed = CommandResult(partition_errors={AT: ErrorCode.KAFKA_STORAGE_ERROR})
    core.handle(CommandAnswered(BrokerId(3), BrokerEpoch(100), lead, failed))
    assert outcome(core.handle(request(item(1, 2, 3)))).error_code is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize(("joiner_epoch", "joins"), [(-1, True), (100, True), (99, False), (101, False)])
def test_who_started_anew_since_the_leader_heard_from_it_does_not_join(joiner_epoch: int, *, joins: bool) -> None:
    result = outcome(office().handle(request(item(1, 2, 3, joiner_epoch=joiner_epoch))))
    assert result.error_code is (ErrorCode.NONE if joins else ErrorCode.INELIGIBLE_REPLICA)


def test_a_member_that_went_may_stay_while_another_goes() -> None:
    core = office(isr=[1, 2, 3])
    core.core.state.shutting_down[BrokerId(3)] = None
    assert outcome(core.handle(request(item(1, 3)))) == standing(1, 3, version=6)


def test_a_version_that_somebody_else_raised_is_read_again_and_told() -> None:
    core = office()
    other = led(1, 7, [1], version=6)
    actions = core.handle(request(item(1, 2, 3)), Refused(VersionMoved(Set(STATE, b"", 5), 1)), other)
    assert outcome(actions) == standing(1, version=6, error=ErrorCode.INVALID_UPDATE_VERSION)
    (told,) = commands(actions, 2)
    assert [each.isr for each in told.partitions] == [(1,)]  # type: ignore[union-attr]
    assert outcome(core.handle(request(item(1, 2, version=6)))) == standing(1, 2, version=7)


@pytest.mark.parametrize(("read", "error"), [([1, 2, 3], ErrorCode.NONE), ([1, 2], ErrorCode.INVALID_UPDATE_VERSION)])
def test_a_write_of_unknown_outcome_is_judged_by_what_stands(read: list[int], error: ErrorCode) -> None:
    actions = office().handle(request(item(1, 2, 3)), Unknown(), led(1, 7, read, version=6))
    assert outcome(actions) == standing(*read, version=6, error=error)


def test_a_write_of_unknown_outcome_that_cannot_be_seen_is_not_judged() -> None:
    """A server that was connected to anew may lag behind a write that the others have: what it reads proves nothing."""
    actions = office().handle(request(item(1, 2, 3)), Unknown(), led(1, 7, [1, 2], version=5))
    assert outcome(actions) == standing(1, 2, version=5, error=ErrorCode.REQUEST_TIMED_OUT)


def test_many_partitions_are_under_way_together_and_answered_at_once() -> None:
    core = Office()
    states: dict[TopicPartition, StateRead] = {
        TopicPartition("t", number): led(1, 7, [1, 2], version=5) for number in range(600)
    }
    core.take_over(1, 2, 3, topics={"t": topic(*[[1, 2, 3]] * 600)}, states=states)
    actions = core.handle(request(*(replace(item(1, 2, 3), partition=number) for number in range(600))))
    assert [len(writes(batch)) for batch in core.batches if writes(batch)] == [250, 250, 100]
    (result,) = answers(actions)
    assert isinstance(result, AlterPartitionResult)
    assert set(result.partitions) == set(states)
    assert all(each == standing(1, 2, 3, version=6) for each in result.partitions.values())
