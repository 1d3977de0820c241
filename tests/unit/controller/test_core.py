"""The core alone, in values: events in, actions out."""

from dataclasses import replace

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)
from controller.actions import Action, Connect, Disconnect, Report, Send, StepDown, Write
from controller.commands import (
    CommandResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from controller.core import Core
from controller.events import (
    BrokersRead,
    ClusterRead,
    CommandAnswered,
    DeletionsRead,
    Refused,
    TopicNamesRead,
    Unknown,
    WriteReply,
)
from controller.office import Settings
from controller.state import PartitionPhase, StateRead
from tests.unit.controller.core_rig import AT, FENCE, TERM, Office, brokers, commands, led, sent, topic, writes
from zk_schema import paths
from zk_schema.ops import NodeExists, Set, VersionMoved


def test_a_takeover_opens_channels_then_introduces_then_gives_partitions() -> None:
    office = Office()
    actions = office.take_over(1, 2, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1])})
    assert [action for action in actions if isinstance(action, Connect)] == [
        Connect(BrokerId(1), "b1:100"),
        Connect(BrokerId(2), "b2:100"),
    ]
    told = ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata", "UpdateMetadata"]
    assert sent(actions, 1) == sent(actions, 2) == told
    assert writes(actions) == []


def test_a_welcome_ends_when_all_partitions_are_told_but_those_that_are_deleted() -> None:
    office = Office()
    topics = {"t": topic([1, 2]), "deleted": topic([1])}
    states = {AT: led(1, 4, [1, 2]), TopicPartition("deleted", 0): led(1, 0, [1])}
    told = welcomed(office.take_over(1, topics=topics, states=states, deletions=("deleted",)), 1)
    assert told == {AT}
    actions = office.handle(BrokersRead(brokers(1, 2)))
    assert welcomed(actions, 2) == {AT}
    assert welcomed(actions, 1) is None, "it was before"


def welcomed(actions: list[Action], broker: int) -> set[TopicPartition] | None:
    """What a broker was told of until its welcome ended; None where it did not."""
    told = set()
    for command in commands(actions, broker):
        if isinstance(command, UpdateMetadata):
            told |= {each.topic_partition for each in command.partitions if each.leader != LEADER_DURING_DELETE}
            if command.ends_welcome:
                return told
    return None


def test_every_write_begins_with_the_fence_and_names_the_version_it_was_decided_from() -> None:
    office = Office()
    actions = office.take_over(1, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1], version=11)})
    (write,) = writes(actions)
    after = led(1, 5, [1], knowing={1: 100}).leadership
    assert write.operations == (FENCE, Set(paths.partition_state("t", 0), after.encode(), 11))


def test_nobody_hears_of_a_decision_before_it_is_confirmed() -> None:
    office = Office()
    office.take_over(1, 2)
    office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([2])}))
    first = next(index for index, batch in enumerate(office.batches) if writes(batch))
    assert not any(isinstance(action, Send) for batch in office.batches[: first + 1] for action in batch)
    assert any(isinstance(action, Send) for batch in office.batches[first + 1 :] for action in batch)


def test_a_refused_fence_is_the_end() -> None:
    office = Office()
    office.take_over(1)
    actions = office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([1])}), Refused(VersionMoved(FENCE, 0)))
    assert isinstance(actions[-1], StepDown)
    assert not any(isinstance(action, Send) for action in actions)


def test_an_unknown_outcome_that_was_done_is_told_without_another_write() -> None:
    office = Office()
    office.take_over(1)
    done = led(1, 0, [1])
    actions = office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([1])}), Unknown(), done)
    assert len(writes(actions)) == 1
    assert sent(actions, 1) == ["LeaderAndIsr", "UpdateMetadata"]


def test_an_unknown_outcome_that_was_not_done_is_tried_again() -> None:
    office = Office()
    office.take_over(1)
    actions = office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([1])}), Unknown(), None)
    assert len(writes(actions)) == 2
    assert sent(actions, 1) == ["LeaderAndIsr", "UpdateMetadata"]


def test_a_state_that_is_there_already_is_taken_over() -> None:
    office = Office()
    office.take_over(1, 2)
    refusal = Refused(NodeExists(Set(paths.partition_state("t", 0), b""), 3))
    there = led(2, 9, [2], version=2, by=2)
    actions = office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([1, 2])}), refusal, there)
    assert len(writes(actions)) == 1
    assert office.core.state.topics["t"].partitions[0].leadership == there.leadership


def test_who_never_gets_through_gives_up_and_says_so() -> None:
    office = Office()
    office.take_over(1)
    turns: list[WriteReply | StateRead | None] = []
    for _ in range(20):
        turns += [Unknown(), None]
    actions = office.handle(TopicNamesRead(frozenset({"t"}), {"t": topic([1])}), *turns)
    assert "keeps writing" in str(actions)
    assert office.core.state.topics["t"].partitions[0].phase is PartitionPhase.NEW


def test_a_broker_that_went_is_cut_off_before_its_partitions_move() -> None:
    office = Office()
    office.take_over(1, 2, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1])})
    actions = office.handle(BrokersRead(brokers(1)))
    kinds = [type(action) for action in actions]
    assert kinds.index(Disconnect) < kinds.index(Write)
    assert sent(actions, 2) == []


@pytest.mark.parametrize("ends", ["in this term", "before it", "before it, and is back"])
def test_what_has_no_leader_gets_one_before_what_has_one_is_looked_at(ends: str) -> None:
    office = Office()
    followed, led_partition = TopicPartition("t", 0), TopicPartition("t", 1)
    knowing = {1: 50, 2: 100, 3: 100} if ends == "before it, and is back" else None
    states = {
        followed: replace(led(2, 4, [2, 1, 3], knowing=knowing), mzxid=200),
        led_partition: replace(led(1, 4, [1, 2, 3], knowing=knowing), mzxid=200),
    }
    topics = {"t": topic([2, 1, 3], [1, 2, 3])}
    if ends == "before it, and is back":
        actions = office.take_over(1, 2, 3, topics=topics, states=states)
    elif ends == "in this term":
        office.take_over(1, 2, 3, topics=topics, states=states)
        actions = office.handle(BrokersRead(brokers(2, 3)))
    else:
        actions = office.take_over(2, 3, topics=topics, states=states)
    written = [action.operations[-1].path for action in writes(actions)]
    assert written == [paths.partition_state(*led_partition), paths.partition_state(*followed)]
    # Its new leader hears of it before the other one is written.
    first_told = next(index for index, action in enumerate(actions) if isinstance(action, Send) and _leads(action))
    assert [type(action) for action in actions[:first_told]].count(Write) == 1


def _leads(action: Send) -> bool:
    return isinstance(action.command, LeaderAndIsr)


def test_an_answer_to_an_earlier_registration_does_not_count() -> None:
    office = Office()
    office.take_over(1, topics={"t": topic([1])}, states={AT: led(1, 4, [1])})
    office.handle(DeletionsRead(("t",)))
    command = StopReplica(
        BrokerId(1), ControllerEpoch(3), BrokerEpoch(99), [StopReplicaPartition("t", 0, LeaderEpoch(-2), delete=True)]
    )
    office.handle(CommandAnswered(BrokerId(1), BrokerEpoch(99), command, CommandResult()))
    assert "t" in office.core.state.topics
    office.handle(CommandAnswered(BrokerId(1), BrokerEpoch(100), command, CommandResult()))
    assert "t" not in office.core.state.topics


def test_an_answer_that_the_broker_registered_anew_changes_nothing() -> None:
    office = Office()
    office.take_over(1, topics={"t": topic([1])}, states={AT: led(1, 4, [1])})
    lead = LeaderAndIsrPartition("t", 0, TERM.epoch, BrokerId(1), LeaderEpoch(4), (BrokerId(1),), 0, (BrokerId(1),))
    command = LeaderAndIsr(BrokerId(1), TERM.epoch, BrokerEpoch(100), [lead])
    stale = CommandResult(ErrorCode.STALE_BROKER_EPOCH)
    actions = office.handle(CommandAnswered(BrokerId(1), BrokerEpoch(100), command, stale))
    assert not writes(actions)
    assert office.core.state.topics["t"].partitions[0].phase is PartitionPhase.ONLINE


def test_what_a_broker_did_not_take_is_reported() -> None:
    office = Office()
    office.take_over(1, topics={"t": topic([1])}, states={AT: led(1, 4, [1])})
    command = LeaderAndIsr(BrokerId(1), TERM.epoch, BrokerEpoch(100), [])

    def reported(result: CommandResult) -> str:
        answered = CommandAnswered(BrokerId(1), BrokerEpoch(100), command, result)
        return "; ".join(each.message for each in office.handle(answered) if isinstance(each, Report) and each.severe)

    assert reported(CommandResult(partition_errors={AT: ErrorCode.STALE_CONTROLLER_EPOCH})) == ""
    strange = CommandResult(partition_errors={AT: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    assert reported(strange) == "broker 1 did not take t-0: UNKNOWN_TOPIC_OR_PARTITION"
    assert "refused LeaderAndIsr" in reported(CommandResult(ErrorCode.UNSUPPORTED_VERSION))


def test_a_reconnection_finds_what_was_written_unseen() -> None:
    office = Office()
    office.take_over(1, 2, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1])})
    shrunk = led(2, 4, [2], version=1)
    actions = office.handle(ClusterRead(brokers(1, 2), {"t": topic([2, 1])}, {AT: shrunk}, ()))
    assert not writes(actions)
    metadata = [
        each
        for action in actions
        if isinstance(action, Send) and isinstance(action.command, UpdateMetadata) and action.broker == 1
        for each in action.command.partitions
    ]
    assert [(each.isr, each.zk_version) for each in metadata] == [((2,), 1)]


def test_a_write_of_another_controller_found_after_a_reconnection_ends_the_term() -> None:
    office = Office()
    office.take_over(1, topics={"t": topic([1])}, states={AT: led(1, 4, [1])})
    later = led(1, 5, [1], version=1, by=4)
    actions = office.handle(ClusterRead(brokers(1), {"t": topic([1])}, {AT: later}, ()))
    assert actions == [StepDown("t-0 was written by the controller of epoch 4")]


def test_the_messages_of_a_batch_leave_in_kafkas_order() -> None:
    office = Office()
    office.take_over(1, topics={"t": topic([1]), "u": topic([1])}, states={AT: led(1, 4, [1])})
    outbox = office.core._office.outbox
    outbox.delete(AT, BrokerId(1), LeaderEpoch(-2))
    outbox.publish(AT)
    outbox.lead(AT, [BrokerId(1)])
    assert [type(send.command).__name__ for send in outbox.flush()] == ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]
    assert outbox.flush() == []


def test_one_event_at_a_time() -> None:
    core = Core(TERM, Settings())
    core.handle(ClusterRead({}, {}, {}, ()), 0)
    with pytest.raises(AssertionError):
        core.handle(BrokersRead({}), 0)
