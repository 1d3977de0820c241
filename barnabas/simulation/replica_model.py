"""One partition in the small: a few replicas, a controller and the messages between them, around the shipped rules.

The rules are those that brokers run: `replication.leader` and `replication.isr` for a leader, `replication.follower`
for a follower, `barnabas.storage.leader_epochs` for epochs, `controller.elections` and `controller.isr_changes` for the
controller. Around them all is as small as it can be: a log is a list of numbers, a message a tuple in a list from which
any may come next, twice or never, a crash keeps what was synced and a part of the rest. What the model leaves out (the
waiting, the disk, sessions and their timers, several controllers) is the whole-broker simulator's matter.

Every action is a method with two small numbers, so that a random walk and an exhaustive search use the same ones; one
that cannot happen does nothing. `check` holds the invariants, after each action:

- LeaderInIsr: the leader that stands in ZooKeeper is a member of the in-sync set that stands there.
- WeakIsr, StrongIsr: what lies below the high watermark of any replica that believes to lead is the same on all members
  of the true in-sync set. So a record that was acknowledged, or read by a consumer, survives.
- ValidHighWatermark: with the rule of min.insync.replicas on, a record is committed on as many replicas as that says.

Where what is committed stands on two replicas, one of them, the *victim*, can lose its power: what it had not synced is
gone, and for it alone the invariants wait until it has caught up or was seen to go. A copy of every committed record
stays on a disk then, and the last-replica defence (`controller.last_replica`) has to find it.
"""

import copy
from typing import Final, cast

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.simulation.replica_model_data import ALTER, ALTERED, ASK, FETCH, NO_EPOCH, DataPlane, Message, Replica
from controller import elections, isr_changes, last_replica
from controller.commands import AlterPartition, AlterPartitionItem, AlterPartitionOutcome, LiveBroker, LogEnd
from controller.office import Office
from controller.partitions import decide_now
from controller.state import (
    Assignment,
    ClusterState,
    Leadership,
    Partition,
    PartitionPhase,
    RegisteredBroker,
    StateRead,
    Term,
    Topic,
)
from replication.follower import FollowedPartition
from replication.isr import IsrAnswer
from replication.leader import LeaderState

_AT: Final = TopicPartition("model", 0)
_CONTROLLER_EPOCH: Final = ControllerEpoch(1)
_TERM: Final = Term(BrokerId(9), _CONTROLLER_EPOCH, 1)
_ADDRESS: Final = LiveBroker(BrokerId(0), ())


class Violation(AssertionError):
    """An invariant does not hold."""


class Settings:
    """Those that the rules of an election ask for."""

    __slots__ = ("last_replica_defence", "unclean_leader_election_enable")

    def __init__(self) -> None:
        self.last_replica_defence = True
        self.unclean_leader_election_enable = False


class ModelOffice:
    """What those rules take from the controller's office."""

    __slots__ = ("settings", "state")

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.settings = Settings()


class ReplicaModel(DataPlane):
    """See the module. `committed` is every record that was ever below the high watermark of a leader."""

    __slots__ = (
        "committed",
        "ids",
        "most_epochs",
        "office",
        "partition",
        "registered",
        "state",
        "victim",
        "written_at",
        "zxid",
    )

    def __init__(
        self,
        *,
        brokers: int = 3,
        min_in_sync: int = 2,
        holds_below_min_isr: bool = True,
        most_records: int = 40,
        most_epochs: int = 30,
        victim: int = 0,
    ) -> None:
        self.ids = tuple(BrokerId(number) for number in range(brokers))
        super().__init__(
            [Replica(broker) for broker in self.ids],
            min_in_sync=min_in_sync if holds_below_min_isr else 0,
            most_records=most_records,
        )
        self.most_epochs = most_epochs
        self.victim = victim
        self.zxid = self.written_at = 0
        self.registered: dict[BrokerId, RegisteredBroker] = {}
        self.take_office(Partition(Assignment(self.ids), phase=PartitionPhase.NEW))
        self.committed: list[int] = []
        for broker in self.ids:
            self.register(broker, 0)
        self.look(0, 0)
        for broker in self.ids:
            self.learn(broker, 0)
            self.hear(broker, 0)

    def take_office(self, partition: Partition) -> None:
        self.partition = partition
        self.state = ClusterState(_TERM, topics={_AT.topic: Topic(0, {_AT.partition: partition})})
        self.office = cast("Office", ModelOffice(self.state))

    def copy(self) -> "ReplicaModel":
        """Another model in the same state, which goes on by itself."""
        other = copy.copy(self)
        other.replicas = [each.copy() for each in self.replicas]
        other.wire, other.committed = list(self.wire), list(self.committed)
        other.registered = dict(self.registered)
        present, brokers, inquests = self.partition, self.state.brokers, self.state.inquests
        other.take_office(copy.copy(present))
        other.state.brokers = dict(brokers)
        other.state.inquests = {at: dict(told) for at, told in inquests.items()}
        return other

    @property
    def leadership(self) -> Leadership:
        """What stands in ZooKeeper."""
        leadership = self.partition.leadership
        assert leadership is not None
        return leadership

    # The wire.

    def deliver(self, _a: int, b: int) -> None:
        """Any message comes."""
        if self.wire:
            self._deliver(self.wire.pop(b % len(self.wire)))

    def repeat(self, _a: int, b: int) -> None:
        """A proposal or its answer comes and stays under way: it was sent twice."""
        if self.wire and self.wire[b % len(self.wire)][0] in (ALTER, ALTERED):
            self._deliver(self.wire[b % len(self.wire)])

    def drop(self, _a: int, b: int) -> None:
        """Any message is lost."""
        if self.wire:
            del self.wire[b % len(self.wire)]

    def _deliver(self, message: Message) -> None:
        kind = message[0]
        if kind in (FETCH, ASK):
            answer = self._serve(message)
            if answer is not None:
                self._put(answer)
        elif kind == ALTER:
            self._on_alter(message)
        elif kind == ALTERED:
            self._on_altered(message)
        else:
            self._take(message)

    # Controller.

    def look(self, _a: int, _b: int) -> None:
        """The controller reads the registrations: first who is gone, or was in between, then who came."""
        self.is_dirty = True
        state, registered = self.state, self.registered
        gone = [broker for broker, known in state.brokers.items() if registered.get(broker) is not known]
        if gone:
            for broker in gone:
                last_replica.forget(self.office, broker, (_AT,))
                state.apply_broker_gone(broker)
                self.replicas[broker].commands = ()
            self._settle()
        added = [broker for broker in registered if broker not in state.brokers]
        if added:
            for broker in added:
                state.apply_broker(broker, registered[broker])
            if not self._settle():
                for broker in added:
                    self._command(broker)

    def take_over(self, _a: int, _b: int) -> None:
        """Another controller comes, which knows what it reads in ZooKeeper."""
        read = StateRead(self.leadership, self.partition.version, mzxid=self.written_at)
        self.take_office(Partition(self.partition.assignment, phase=PartitionPhase.NEW))
        for broker, registered in self.registered.items():
            self.state.apply_broker(broker, registered)
        self.state.apply_state(_AT, read)
        if not self._settle():
            for broker in self.state.brokers:
                self._command(broker)

    def _settle(self) -> bool:
        """Elect by the rule for brokers that came or went, and say whether that changed anything."""
        self.state.apply_absences(_AT)
        elected = decide_now(self.office, _AT, self.partition)
        if elected is not None:
            self._write(elected)
        if self.leadership.leader >= 0:
            self.state.inquests.pop(_AT, None)
        return elected is not None

    def tell(self, a: int, _b: int) -> None:
        """A live replica tells the controller where its log ends, if the controller waits for that."""
        present, replica = self.leadership, self.replicas[a]
        if present.leader >= 0 or replica.id not in self.state.brokers or not self._was_welcomed(replica):
            return
        if elections.returning(self.partition.assignment.replicas, present, self.state.brokers):
            told = self.state.inquests.setdefault(_AT, {})
            told[replica.id] = LogEnd(LeaderEpoch(replica.epochs.latest_epoch), len(replica.log))
            self._settle()

    def move(self, _a: int, _b: int) -> None:
        """The leader is asked to stop: somebody else in sync leads."""
        if self.leadership.leader_epoch >= self.most_epochs:
            return
        staying = [broker for broker in self.state.brokers if broker != self.leadership.leader]
        elected = elections.elect_for_shutdown(
            self.partition.assignment.replicas,
            self.leadership,
            live=self.state.brokers,
            staying=staying,
            epoch=_CONTROLLER_EPOCH,
        )
        if elected is not None:
            self._write(elected)

    def prefer(self, a: int, _b: int) -> None:
        """A replica becomes the first of the assignment and is to lead; the one that led stays in sync."""
        first, present = self.ids[a], self.leadership
        if first in present.isr and first in self.state.brokers and present.leader_epoch < self.most_epochs:
            self.partition.assignment = Assignment((first, *(broker for broker in self.ids if broker != first)))
            elected = elections.elect_preferred(self.partition.assignment.replicas, present, _CONTROLLER_EPOCH)
            if elected is not None and present.leader >= 0:
                self._write(elected)

    def _write(self, leadership: Leadership) -> None:
        self._apply(leadership)
        for broker in self.state.brokers:
            self._command(broker)

    def _apply(self, leadership: Leadership) -> None:
        self.zxid += 1
        self.written_at = self.zxid
        written = self.state.with_epochs(leadership)
        self.state.apply_state(_AT, StateRead(written, self.partition.version + 1))
        self.is_dirty = True

    def _command(self, broker: BrokerId) -> None:
        command = (self.state.brokers[broker].epoch, self.leadership, self.partition.version)
        self.replicas[broker].commands += (command,)

    def _on_alter(self, message: Message) -> None:
        _, sender, incarnation, broker_epoch, proposal = message
        registered = self.state.brokers.get(sender)
        if registered is None or registered.epoch != broker_epoch:
            outcome = AlterPartitionOutcome(ErrorCode.STALE_BROKER_EPOCH)
        else:
            item = AlterPartitionItem(
                _AT.topic,
                _AT.partition,
                proposal.leader_epoch,
                proposal.new_isr,
                proposal.zk_version,
                proposal.joiner_epoch,
            )
            request = AlterPartition(sender, broker_epoch, [item])
            decided = isr_changes.decide_isr(self.state, request, item)
            if isinstance(decided, AlterPartitionOutcome):
                outcome = decided
            else:
                # The leader is told by the answer, the others need not know.
                self._apply(decided)
                outcome = AlterPartitionOutcome(
                    ErrorCode.NONE, decided.leader, decided.leader_epoch, decided.isr, self.partition.version
                )
        told = (outcome.error_code, outcome.leader_epoch, tuple(outcome.isr), outcome.zk_version)
        self._put((ALTERED, sender, incarnation, proposal, told))

    def _on_altered(self, message: Message) -> None:
        _, to, incarnation, proposal, told = message
        replica = self.replicas[to]
        leadership = replica.leadership
        if leadership is None or replica.incarnation != incarnation:
            return
        could_come = any(other[0] == ALTER and other[4] is proposal for other in self.wire)
        error, leader_epoch, isr, version = told
        answer = IsrAnswer(error, leader_epoch, isr, version, may_still_apply=could_come)
        leadership.isr.apply_answer(proposal, answer)
        self._advance(replica, leadership)

    # What brokers hear of the controller.

    def hear(self, a: int, b: int) -> None:
        """A broker gets its next command; with `b` odd the last one, which stands for all before."""
        replica = self.replicas[a]
        if not replica.commands or not replica.is_alive:
            return
        broker_epoch, leadership, version = replica.commands[-1 if b & 1 else 0]
        replica.commands = () if b & 1 else replica.commands[1:]
        if broker_epoch == replica.broker_epoch and leadership.leader_epoch > replica.leader_epoch:
            replica.is_intact |= leadership.leader >= 0
            if leadership.leader == replica.id:
                self._lead(replica, leadership, version)
            else:
                self._follow(replica, leadership)

    def _lead(self, replica: Replica, leadership: Leadership, version: int) -> None:
        replica.leader_id, replica.leader_epoch = replica.id, leadership.leader_epoch
        replica.followed = None
        end = len(replica.log)
        is_present = leadership.leader_epoch == self.leadership.leader_epoch
        if is_present and replica.log[: len(self.committed)] != self.committed:
            raise Violation(f"WeakIsr: {replica.id} is to lead with {replica.log}, committed are {self.committed}")
        replica.epochs.assign(replica.leader_epoch, start_offset=end)
        replica.leadership = LeaderState(
            broker_id=replica.id,
            leader_epoch=replica.leader_epoch,
            epoch_start_offset=end,
            replicas=self.ids,
            isr=leadership.isr,
            zk_version=version,
            now_ms=self.now_ms,
        )
        self.is_dirty = True
        self._advance(replica, replica.leadership)

    @staticmethod
    def _follow(replica: Replica, leadership: Leadership) -> None:
        replica.leadership = None
        replica.leader_id, replica.leader_epoch = leadership.leader, leadership.leader_epoch
        replica.followed = None if leadership.leader < 0 else FollowedPartition(_AT, leadership.leader_epoch)

    def learn(self, a: int, _b: int) -> None:
        """A broker hears who is registered."""
        if self.replicas[a].is_alive:
            self.replicas[a].seen_brokers = {broker: each.epoch for broker, each in self.state.brokers.items()}

    # Faults and time.

    def tick(self, _a: int, b: int) -> None:
        self.now_ms += 1 + b % 16

    def sync(self, a: int, _b: int) -> None:
        """What stands in the log is on the disk."""
        self.replicas[a].synced = len(self.replicas[a].log)

    def checkpoint(self, a: int, _b: int) -> None:
        """The high watermark is written down."""
        self.replicas[a].checkpointed_high_watermark = self.replicas[a].high_watermark

    def crash(self, a: int, _b: int) -> None:
        """The process is killed; what it wrote stays."""
        replica = self.replicas[a]
        if replica.is_alive:
            replica.is_alive = False
            replica.leadership = replica.followed = None
            replica.commands = ()
            self.is_dirty = True

    def cut_power(self, _a: int, b: int) -> None:
        """The victim's machine goes down; a part of what was not synced is gone."""
        replica = self.replicas[self.victim]
        if replica.is_alive and self.min_in_sync > 1:
            self.crash(replica.id, b)
            replica.is_intact = False
            replica.had.append(list(replica.log))
            end = replica.synced + b % (len(replica.log) - replica.synced + 1)
            replica.has_lost |= end < len(replica.log)
            del replica.log[end:]

    def restart(self, a: int, _b: int) -> None:
        """The process comes back, with what is on its disk."""
        replica = self.replicas[a]
        if not replica.is_alive:
            replica.is_alive = True
            replica.incarnation += 1
            replica.first_request = replica.requests + 1
            replica.broker_epoch = NO_EPOCH
            replica.seen_brokers = {}
            replica.leader_id, replica.leader_epoch = NO_LEADER, LeaderEpoch(-1)
            replica.synced = len(replica.log)
            replica.epochs.truncate_from_end(len(replica.log))
            replica.high_watermark = min(replica.checkpointed_high_watermark, len(replica.log))

    def expire(self, a: int, _b: int) -> None:
        """A broker's session ends, because the broker is dead or cut off."""
        if self.leadership.leader_epoch < self.most_epochs:
            self.registered.pop(self.replicas[a].id, None)

    def register(self, a: int, _b: int) -> None:
        """A broker without a session makes a new one."""
        replica = self.replicas[a]
        if replica.is_alive and replica.id not in self.registered:
            self.zxid += 1
            replica.broker_epoch = BrokerEpoch(self.zxid)
            self.registered[replica.id] = RegisteredBroker(_ADDRESS, replica.broker_epoch, replica.is_intact)

    # Invariants.

    def check(self) -> None:
        """Raises Violation. To be called after each action; costs nothing when nothing changed that matters."""
        if not self.is_dirty:
            return
        self.is_dirty = False
        members = self.leadership.isr
        if self.leadership.leader >= 0 and self.leadership.leader not in members:
            raise Violation(f"LeaderInIsr: {self.leadership}")
        for replica in self.replicas:
            if replica.leadership is not None:
                self._check_leader(replica)
        committed = self.committed
        for replica in self.replicas:
            is_whole = replica.log[: len(committed)] == committed
            if replica.id in members and not is_whole and not replica.has_lost:
                raise Violation(f"StrongIsr: {replica.id} of {members} has {replica.log}, committed are {committed}")
            if replica.has_lost and (is_whole or replica.id not in members) and self._was_welcomed(replica):
                replica.has_lost = False

    def _was_welcomed(self, replica: Replica) -> bool:
        """Whether the controller knows its present life."""
        known = self.state.brokers.get(replica.id)
        return replica.is_alive and known is not None and known.epoch == replica.broker_epoch

    def _check_leader(self, replica: Replica) -> None:
        committed, high_watermark = self.committed, replica.high_watermark
        if high_watermark > len(replica.log):
            raise Violation(f"ValidHighWatermark: {high_watermark} on {replica.id} with {replica.log}")
        if high_watermark <= len(committed):
            if replica.log[:high_watermark] != committed[:high_watermark]:
                raise Violation(f"WeakIsr: leader {replica.id} has {replica.log}, committed are {committed}")
            return
        told = replica.log[:high_watermark]
        if told[: len(committed)] != committed:
            raise Violation(f"WeakIsr: leader {replica.id} has {replica.log}, committed were {committed}")
        holders = sum(any(log[:high_watermark] == told for log in (other.log, *other.had)) for other in self.replicas)
        if holders < self.min_in_sync:
            raise Violation(f"ValidHighWatermark: {high_watermark} on {replica.id} stands on {holders} replicas")
        self.committed = told
