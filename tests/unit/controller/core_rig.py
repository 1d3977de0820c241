"""The core alone, in values: events in, actions out, questions answered as a script says."""

from collections.abc import Mapping

from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from controller.actions import Action, Answer, Question, ReadTree, Send, Write
from controller.commands import (
    Command,
    LiveBroker,
)
from controller.core import Core
from controller.events import (
    ClusterRead,
    Confirmed,
    Reply,
    Settled,
    Stimulus,
    WriteReply,
)
from controller.office import Settings
from controller.state import Assignment, Leadership, RegisteredBroker, StateRead, Term, TopicRead
from zk_schema import paths
from zk_schema.ops import Check, Create, Created, Delete, Done, Op, OpResult, Set, Stat, Written

TERM = Term(BrokerId(1), ControllerEpoch(3), 7)
FENCE = Check(paths.CONTROLLER_EPOCH, 7)
AT = TopicPartition("t", 0)


def broker(number: int, epoch: int = 100) -> RegisteredBroker:
    return RegisteredBroker(LiveBroker(BrokerId(number), (), None, f"b{number}:{epoch}"), BrokerEpoch(epoch))


def brokers(*numbers: int) -> dict[BrokerId, RegisteredBroker]:
    return {BrokerId(each): broker(each) for each in numbers}


def topic(*replicas: list[int]) -> TopicRead:
    return TopicRead({each: Assignment(tuple(map(BrokerId, ids))) for each, ids in enumerate(replicas)}, 0)


def led(
    leader: int,
    epoch: int,
    isr: list[int],
    *,
    version: int = 0,
    by: int = 3,
    knowing: Mapping[int, int] | None = None,
) -> StateRead:
    """A state znode; `knowing` are the broker epochs that it names."""
    members = tuple(map(BrokerId, isr))
    known = None if knowing is None else {BrokerId(each): BrokerEpoch(knowing[each]) for each in knowing}
    leadership = Leadership(BrokerId(leader), LeaderEpoch(epoch), members, ControllerEpoch(by), known)
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
            questions = [each for each in batch if isinstance(each, Question)]
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
        """Take office over a cluster of these brokers."""
        return self.handle(ClusterRead(brokers(*numbers), topics or {}, states or {}, deletions))


def well(question: Action) -> Reply:
    """The reply when nothing is in the way."""
    if isinstance(question, Write):
        return Confirmed(tuple(map(_done, question.operations)))
    return () if isinstance(question, ReadTree) else None


def _done(operation: Op) -> OpResult:
    match operation:
        case Check() | Delete():
            return Done()
        case Set():
            return Written(Stat(0, 0, 0, 0, operation.version + 1, 0, 0, 0))
        case Create():
            return Created(operation.path)


def answers(actions: list[Action]) -> list[object]:
    """What who asked is told."""
    return [action.answer for action in actions if isinstance(action, Answer)]


def commands(actions: list[Action], to: int) -> list[Command]:
    """What a broker is told, in order."""
    return [action.command for action in actions if isinstance(action, Send) and action.broker == to]


def writes(actions: list[Action]) -> list[Write]:
    return [action for action in actions if isinstance(action, Write)]


def sent(actions: list[Action], to: int) -> list[str]:
    return [type(action.command).__name__ for action in actions if isinstance(action, Send) and action.broker == to]
