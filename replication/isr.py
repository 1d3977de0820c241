"""The in-sync replica set of one partition, as its leader knows it (KIP-497).

The truth stands in ZooKeeper and only the controller writes it. A leader proposes one change at a time and goes on
with two sets until the answer is there: the *committed* one, and the *maximal* one, which is what the set can be at
most. A proposed member counts in the maximal set at once, because the controller may have written it already; a
member that is to leave counts until it is known to be out. Invariants: there is at most one proposal; the committed
set is a subset of the maximal one; an answer to any but the pending proposal changes nothing.

Pure: the partition sends proposals through an `IsrChannel` and gives back what comes.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition

UNKNOWN_BROKER_EPOCH: Final = BrokerEpoch(-1)


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A change that the controller is asked for: the whole new set, and the version of the state it replaces.

    An expansion has the epoch of the joining broker when it showed that it may join: one that restarted since has
    perhaps lost what it had (KIP-903).
    """

    leader_epoch: LeaderEpoch
    new_isr: tuple[BrokerId, ...]
    zk_version: int
    is_expand: bool
    joiner_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """What the controller said of one proposal.

    With NONE the fields are the partition's state from now on. With an error they are its state too where the
    controller told it, else `leader_epoch` is -1. `may_still_apply` says that an earlier attempt of the same proposal
    was lost and could be obeyed yet.
    """

    error: ErrorCode
    leader_epoch: int = -1
    isr: tuple[BrokerId, ...] = ()
    zk_version: int = -1
    may_still_apply: bool = False


class AnswerEffect(Enum):
    """What an answer did."""

    IGNORED = auto()
    """It was to a proposal that is no longer pending."""
    COMMITTED = auto()
    """The set is what the proposal, or somebody else before it, made it; nothing is pending."""
    UNDECIDED = auto()
    """Nobody knows yet: the proposal stays, until it is sent again or a new leader epoch ends it."""


OnAnswer = Callable[[IsrAnswer], None]


class IsrChannel(Protocol):
    """The way of proposals to the controller.

    A proposal is tried until there is an answer to it; a later one for the same partition takes the place of an
    earlier one, whose answer is not heard then.
    """

    def propose(self, topic_partition: TopicPartition, proposal: IsrProposal, on_answer: OnAnswer) -> None: ...

    def withdraw(self, topic_partition: TopicPartition) -> None:
        """Send nothing more for this partition: this broker does not lead it any longer."""
        ...


class IsrState:
    """See the module."""

    __slots__ = ("committed", "leader_epoch", "maximal", "pending", "zk_version")

    def __init__(self, *, leader_epoch: LeaderEpoch, isr: tuple[BrokerId, ...], zk_version: int) -> None:
        self.leader_epoch: Final = leader_epoch
        self.committed = isr
        self.zk_version = zk_version
        self.pending: IsrProposal | None = None
        self.maximal: tuple[BrokerId, ...] = isr

    def propose_expand(self, replica_id: BrokerId, *, broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH) -> IsrProposal:
        """Propose to take a replica in; it counts in the maximal set from now on."""
        assert replica_id not in self.committed
        new_isr = (*self.committed, replica_id)
        return self._propose(IsrProposal(self.leader_epoch, new_isr, self.zk_version, True, broker_epoch))

    def propose_shrink(self, replica_ids: Collection[BrokerId]) -> IsrProposal:
        """Propose to leave replicas out; they count in the maximal set until that is committed."""
        assert replica_ids
        remaining = tuple(each for each in self.committed if each not in replica_ids)
        assert remaining, "a leader never leaves its own set"
        return self._propose(IsrProposal(self.leader_epoch, remaining, self.zk_version, False))

    def _propose(self, proposal: IsrProposal) -> IsrProposal:
        assert self.pending is None, "one change at a time"
        self.pending = proposal
        self.maximal = decide_maximal(self.committed, proposal)
        return proposal

    def apply_answer(self, proposal: IsrProposal, answer: IsrAnswer) -> AnswerEffect:
        """Take an answer to `proposal`.

        A state of this leader epoch that is not older than ours is taken over whatever the error was: the version may
        have moved by a change whose answer was lost (KAFKA-2729), or the change was refused for good.
        """
        if proposal is not self.pending:
            return AnswerEffect.IGNORED
        if answer.leader_epoch != self.leader_epoch or answer.zk_version < self.zk_version:
            return AnswerEffect.UNDECIDED
        if answer.zk_version == self.zk_version and answer.may_still_apply:
            return AnswerEffect.UNDECIDED
        self.committed = self.maximal = answer.isr
        self.zk_version = answer.zk_version
        self.pending = None
        return AnswerEffect.COMMITTED


def decide_maximal(committed: tuple[BrokerId, ...], pending: IsrProposal) -> tuple[BrokerId, ...]:
    """The greatest set that can be in force while `pending` is under way."""
    return pending.new_isr if pending.is_expand else committed
