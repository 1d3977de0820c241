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

A replica that lost its tail in a power cut is excepted until it is back and the controller knows its new life; one at a
time, and nobody else goes meanwhile, as the protocol without the last-replica defence promises no more.
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.simulation.replica_model_data import ALTER, ALTERED, ASK, FETCH, NO_EPOCH, DataPlane, Message, Replica
from controller import elections, isr_changes
from controller.commands import AlterPartition, AlterPartitionItem, AlterPartitionOutcome, LiveBroker
from controller.state import Assignment, ClusterState, Leadership, Partition, RegisteredBroker, Term, Topic
from replication.follower import FollowedPartition
from replication.isr import IsrAnswer
from replication.leader import LeaderState

_AT: Final = TopicPartition("model", 0)
_CONTROLLER_EPOCH: Final = ControllerEpoch(1)
_TERM: Final = Term(BrokerId(9), _CONTROLLER_EPOCH, 1)
_ADDRESS: Final = LiveBroker(BrokerId(0), ())


class Violation(AssertionError):
    """An invariant does not hold."""


class ReplicaModel(DataPlane):
    """See the module. `committed` is every record that was ever below the high watermark of a leader."""

    __slots__ = ("committed", "czxid", "ids", "known", "leadership", "most_epochs", "registered", "version")

    def __init__(
        self,
        *,
        brokers: int = 3,
        min_in_sync: int = 2,
        holds_below_min_isr: bool = True,
        most_records: int = 40,
        most_epochs: int = 30,
    ) -> None:
        self.ids = tuple(BrokerId(number) for number in range(brokers))
        super().__init__(
            [Replica(broker) for broker in self.ids],
            min_in_sync=min_in_sync if holds_below_min_isr else 0,
            most_records=most_records,
        )
        self.most_epochs = most_epochs
        self.czxid = 0
        self.registered: dict[BrokerId, BrokerEpoch] = {}
        self.known: dict[BrokerId, BrokerEpoch] = {}
        """What the controller has read of the registrations."""
        self.version = -1
        self.committed: list[int] = []
        for broker in self.ids:
            self.register(broker, 0)
        self.known = dict(self.registered)
        first = elections.elect_first(self.ids, self.ids, _CONTROLLER_EPOCH)
        assert first is not None
        self._write(first)
        for broker in self.ids:
            self.learn(broker, 0)
            self.hear(broker, 0)

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
        stay = {broker: epoch for broker, epoch in self.known.items() if self.registered.get(broker) == epoch}
        if stay != self.known:
            self.known = stay
            for replica in self.replicas:
                if replica.id not in stay:
                    replica.commands = ()
            self._elect()
        added = [broker for broker in self.registered if broker not in self.known]
        if added:
            self.known = dict(self.registered)
            if not self._elect():
                for broker in added:
                    self._command(broker)

    def _elect(self) -> bool:
        elected = elections.elect(self.ids, self.leadership, self.known, _CONTROLLER_EPOCH)
        if elected is None:
            return False
        self._write(elected)
        return True

    def move(self, _a: int, _b: int) -> None:
        """The leader is asked to stop: somebody else in sync leads."""
        if self.leadership.leader_epoch >= self.most_epochs or self._is_one_hurt():
            return
        staying = [broker for broker in self.known if broker != self.leadership.leader]
        elected = elections.elect_for_shutdown(
            self.ids, self.leadership, live=self.known, staying=staying, epoch=_CONTROLLER_EPOCH
        )
        if elected is not None:
            self._write(elected)

    def _write(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self.version += 1
        self.is_dirty = True
        for broker in self.known:
            self._command(broker)

    def _command(self, broker: BrokerId) -> None:
        self.replicas[broker].commands += ((self.known[broker], self.leadership, self.version),)

    def _on_alter(self, message: Message) -> None:
        _, sender, incarnation, broker_epoch, proposal = message
        if self.known.get(sender) != broker_epoch:
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
            decided = isr_changes.decide_isr(self._state(), request, item)
            if isinstance(decided, AlterPartitionOutcome):
                outcome = decided
            else:
                # The leader is told by the answer, the others need not know.
                self.leadership = decided
                self.version += 1
                self.is_dirty = True
                outcome = AlterPartitionOutcome(
                    ErrorCode.NONE, decided.leader, decided.leader_epoch, decided.isr, self.version
                )
        self._put((ALTERED, sender, incarnation, proposal, outcome))

    def _state(self) -> ClusterState:
        brokers = {broker: RegisteredBroker(_ADDRESS, epoch) for broker, epoch in self.known.items()}
        partition = Partition(Assignment(self.ids), leadership=self.leadership, version=self.version)
        return ClusterState(_TERM, brokers=brokers, topics={_AT.topic: Topic(0, {_AT.partition: partition})})

    def _on_altered(self, message: Message) -> None:
        _, to, incarnation, proposal, outcome = message
        replica = self.replicas[to]
        leadership = replica.leadership
        if leadership is None or replica.incarnation != incarnation:
            return
        answer = IsrAnswer(
            outcome.error_code,
            outcome.leader_epoch,
            outcome.isr,
            outcome.zk_version,
            may_still_apply=any(other[0] == ALTER and other[4] is proposal for other in self.wire),
        )
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
            if leadership.leader == replica.id:
                self._lead(replica, leadership, version)
            else:
                self._follow(replica, leadership)

    def _lead(self, replica: Replica, leadership: Leadership, version: int) -> None:
        replica.leader_id, replica.leader_epoch = replica.id, leadership.leader_epoch
        replica.followed = None
        end = len(replica.log)
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
        self.replicas[a].seen_brokers = self.known

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
        if replica.is_alive and not self._is_one_hurt():
            replica.is_alive = False
            replica.leadership = replica.followed = None
            replica.commands = ()
            self.is_dirty = True

    def cut_power(self, a: int, b: int) -> None:
        """A crash after which a part of what was not synced is gone."""
        replica = self.replicas[a]
        has_company = any(
            self.replicas[other].is_alive and self.registered.get(other) == self.known.get(other, NO_EPOCH)
            for other in self.leadership.isr
            if other != replica.id
        )
        if not replica.is_alive or not has_company or self._is_one_hurt():
            return
        self.crash(a, b)
        replica.had = list(replica.log)
        end = replica.synced + b % (len(replica.log) - replica.synced + 1)
        replica.lost_tail = end < len(replica.log)
        del replica.log[end:]

    def _is_one_hurt(self) -> bool:
        """Whether a replica lost its tail and the controller has not seen it go: nobody else may, then."""
        return any(replica.lost_tail for replica in self.replicas)

    def restart(self, a: int, _b: int) -> None:
        """The process comes back, with what is on its disk."""
        replica = self.replicas[a]
        if not replica.is_alive:
            replica.is_alive = True
            replica.incarnation += 1
            replica.broker_epoch = NO_EPOCH
            replica.seen_brokers = {}
            replica.leader_id, replica.leader_epoch = NO_LEADER, LeaderEpoch(-1)
            replica.synced = len(replica.log)
            replica.epochs.truncate_from_end(len(replica.log))
            replica.high_watermark = min(replica.checkpointed_high_watermark, len(replica.log))

    def expire(self, a: int, _b: int) -> None:
        """A broker's session ends, because the broker is dead or cut off."""
        replica = self.replicas[a]
        if replica.is_alive and (self._is_one_hurt() or self.leadership.leader_epoch >= self.most_epochs):
            return
        self.registered.pop(replica.id, None)

    def register(self, a: int, _b: int) -> None:
        """A broker without a session makes a new one."""
        replica = self.replicas[a]
        if replica.is_alive and replica.id not in self.registered:
            self.czxid += 1
            self.registered[replica.id] = replica.broker_epoch = BrokerEpoch(self.czxid)

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
            if replica.lost_tail and replica.id not in members and self._was_welcomed(replica):
                replica.lost_tail = False
            if replica.leadership is not None:
                self._check_leader(replica)
        committed = self.committed
        for broker in members:
            replica = self.replicas[broker]
            if not replica.lost_tail and replica.log[: len(committed)] != committed:
                raise Violation(f"StrongIsr: {broker} of {members} has {replica.log}, committed are {committed}")

    def _was_welcomed(self, replica: Replica) -> bool:
        """Whether the controller knows its present life."""
        return replica.is_alive and self.known.get(replica.id) == replica.broker_epoch

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
        holders = sum(told in (other.log[:high_watermark], other.had[:high_watermark]) for other in self.replicas)
        if holders < self.min_in_sync:
            raise Violation(f"ValidHighWatermark: {high_watermark} on {replica.id} stands on {holders} replicas")
        self.committed = told
