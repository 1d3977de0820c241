"""A leader whose log is damaged gives up its partition; another member of the in-sync set leads."""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch
from controller.commands import (
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
    ControlledShutdown,
)
from controller.events import Asked
from controller.request_messages import alter_partition_from_wire, alter_partition_to_wire
from tests.unit.controller.core_rig import AT, Office, answers, led, sent, topic, writes


def office(*isr: int, brokers: tuple[int, ...] = (1, 2, 3, 4)) -> Office:
    """1 leads t-0 of 1, 2 and 3 in leader epoch 7."""
    made = Office()
    made.take_over(*brokers, topics={"t": topic([1, 2, 3])}, states={AT: led(1, 7, list(isr), version=5, by=2)})
    return made


def resign(*, epoch: int = 7, version: int = 5, broker: int = 1) -> Asked:
    item = AlterPartitionItem("t", 0, LeaderEpoch(epoch), (BrokerId(broker),), version, resigns=True)
    return Asked(9, AlterPartition(BrokerId(broker), BrokerEpoch(100), [item]))


def outcome(actions) -> AlterPartitionOutcome:
    (result,) = answers(actions)
    assert isinstance(result, AlterPartitionResult)
    return result.partitions[AT]


def test_another_in_sync_member_leads_in_a_new_epoch_and_the_set_stays():
    rig = office(1, 3)
    actions = rig.handle(resign())
    (write,) = writes(actions)
    assert b'"leader":3' in write.operations[-1].data
    told = outcome(actions)
    assert (told.error_code, told.leader, told.leader_epoch, told.isr) == (ErrorCode.NONE, 3, 8, (1, 3))
    assert [broker for broker in (1, 2, 3, 4) if "LeaderAndIsr" in sent(actions, broker)] == [1, 2, 3]


def test_alone_in_the_set_it_leads_on():
    actions = office(1).handle(resign())
    assert writes(actions) == []
    assert outcome(actions).error_code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_member_that_is_about_to_stop_does_not_take_over():
    rig = office(1, 2)
    rig.handle(Asked(1, ControlledShutdown(BrokerId(2), BrokerEpoch(100))))
    assert rig.core.state.partition(AT).leadership.leader == 1
    assert outcome(rig.handle(resign(epoch=8))).error_code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_who_does_not_lead_in_that_epoch_gives_nothing_up():
    assert outcome(office(1, 2).handle(resign(epoch=6))).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert outcome(office(1, 2).handle(resign(broker=2))).error_code is ErrorCode.INVALID_REQUEST


def test_it_stands_in_the_message():
    asked = resign().question
    assert isinstance(asked, AlterPartition)
    assert alter_partition_from_wire(alter_partition_to_wire(asked)) == asked
