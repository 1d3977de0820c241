"""The core alone, in values: events in, actions out."""

from collections.abc import Mapping

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller.actions import Action, Connect, Disconnect, ReadState, ReadTree, Report, Send, StepDown, Write
from controller.commands import (
    CommandResult,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
)
from controller.core import Core
from controller.events import (
    BrokersRead,
    ClusterRead,
    CommandAnswered,
    Confirmed,
    DeletionsRead,
    Refused,
    Reply,
    Settled,
    Stimulus,
    TopicNamesRead,
    Unknown,
    WriteReply,
)
from controller.office import Settings
from controller.state import Assignment, Leadership, PartitionPhase, RegisteredBroker, StateRead, Term, TopicRead
from zk_schema import paths
from zk_schema.ops import Check, Created, Delete, Done, NodeExists, Set, VersionMoved

TERM = Term(BrokerId(1), ControllerEpoch(3), 7)
FENCE = Check(paths.CONTROLLER_EPOCH, 7)
AT = TopicPartition("t", 0)


def broker(number: int, epoch: int = 100) -> RegisteredBroker:
    return RegisteredBroker(LiveBroker(BrokerId(number), (), None, f"b{number}:{epoch}"), BrokerEpoch(epoch))


def brokers(*numbers: int) -> dict[BrokerId, RegisteredBroker]:
    return {BrokerId(each): broker(each) for each in numbers}


def topic(*replicas: list[int]) -> TopicRead:
    return TopicRead({each: Assignment(tuple(map(BrokerId, ids))) for each, ids in enumerate(replicas)}, 0)


def led(leader: int, epoch: int, isr: list[int], *, version: int = 0, by: int = 3) -> StateRead:
    leadership = Leadership(BrokerId(leader), LeaderEpoch(epoch), tuple(map(BrokerId, isr)), ControllerEpoch(by))
    return StateRead(leadership, version)


class Office:
    """A core and what it did; questions are answered as a script says, or well."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.core = Core(TERM, settings or Settings())
        self.batches: list[list[Action]] = []

    def handle(self, event: Stimulus, *replies: WriteReply | StateRead | None) -> list[Action]:
        """All actions; each of `replies` answers all questions of a batch that asks, and the rest goes well."""
        script = list(replies)
        batch = self.core.handle(event, 0)
        self.batches = [batch]
        while self.core.is_busy:
            questions = [each for each in batch if isinstance(each, Write | ReadState | ReadTree)]
            answers: tuple[Reply, ...] = tuple(map(well, questions))
            if questions and script:
                answers = (script.pop(0),) * len(questions)
            batch = self.core.handle(Settled(answers), 0)
            self.batches.append(batch)
        return [action for batch in self.batches for action in batch]

    def take_over(
        self,
        *numbers: int,
        topics: Mapping[str, TopicRead] | None = None,
        states: Mapping[TopicPartition, StateRead] | None = None,
        deletions: tuple[str, ...] = (),
    ) -> list[Action]:
        return self.handle(ClusterRead(brokers(*numbers), topics or {}, states or {}, deletions))


def well(question: Action) -> Reply:
    if isinstance(question, Write):
        return Confirmed(
            tuple(Done() if isinstance(each, Check | Delete) else Created("") for each in question.operations)
        )
    return () if isinstance(question, ReadTree) else None


def writes(actions: list[Action]) -> list[Write]:
    return [action for action in actions if isinstance(action, Write)]


def sent(actions: list[Action], to: int) -> list[str]:
    return [type(action.command).__name__ for action in actions if isinstance(action, Send) and action.broker == to]


def test_a_takeover_opens_channels_then_introduces_then_gives_partitions() -> None:
    office = Office()
    actions = office.take_over(1, 2, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1])})
    assert [action for action in actions if isinstance(action, Connect)] == [
        Connect(BrokerId(1), "b1:100"),
        Connect(BrokerId(2), "b2:100"),
    ]
    assert sent(actions, 1) == sent(actions, 2) == ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"]
    assert writes(actions) == []


def test_every_write_begins_with_the_fence_and_names_the_version_it_was_decided_from() -> None:
    office = Office()
    actions = office.take_over(1, topics={"t": topic([2, 1])}, states={AT: led(2, 4, [2, 1], version=11)})
    (write,) = writes(actions)
    after = led(1, 5, [1]).leadership
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
