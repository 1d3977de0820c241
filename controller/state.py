"""What the controller knows of the cluster, and which moves of partitions and replicas are legal.  [P]

Everything here is a copy of what stands in ZooKeeper, plus the phase that each partition and replica is in. It changes
only by the methods below, after a write was confirmed or something was read. Invariants: a partition ONLINE has a
leader, a partition OFFLINE has none but had one, a partition NEW has no state znode yet.

`partitions_on` is an index by broker, so that a broker that goes costs what it held and not the whole cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from barnabas.protocol.ids import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, TopicPartition
from controller.commands import LiveBroker, LogEnd
from zk_schema.payloads import PartitionState


class PartitionPhase(Enum):
    """Where a partition stands in its life."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaPhase(Enum):
    """Where one replica of a partition stands in its life."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


PARTITION_MOVES: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    PartitionPhase.NEW: frozenset({PartitionPhase.NON_EXISTENT}),
    PartitionPhase.ONLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.OFFLINE: frozenset({PartitionPhase.NEW, PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
    PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.OFFLINE}),
}
"""To each phase, the phases from which a partition may come."""

_SERVING: Final = frozenset(
    {ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_INELIGIBLE}
)

REPLICA_MOVES: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    ReplicaPhase.NEW: frozenset({ReplicaPhase.NON_EXISTENT}),
    ReplicaPhase.ONLINE: _SERVING,
    ReplicaPhase.OFFLINE: _SERVING,
    ReplicaPhase.DELETION_STARTED: frozenset({ReplicaPhase.OFFLINE}),
    ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED}),
    ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.DELETION_SUCCESSFUL}),
}
"""To each phase, the phases from which a replica may come."""


@dataclass(frozen=True, slots=True)
class Term:
    """One stay in office. `epoch_version` is the version of /controller_epoch, the fence of every write."""

    controller_id: BrokerId
    epoch: ControllerEpoch
    epoch_version: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of a partition; the first is the preferred leader (KIP-455 for the two other lists)."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether a reassignment is under way."""
        return bool(self.adding or self.removing)


Leadership = PartitionState
"""Leader, leader epoch, in-sync set, and the epoch of the controller that wrote them: what a state znode says."""


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """A broker's znode: what it says, and its czxid, which is the broker epoch.

    `is_intact` is false for a broker whose logs may have lost their ends: its machine went down before it started.
    """

    info: LiveBroker
    epoch: BrokerEpoch
    is_intact: bool = True


@dataclass(frozen=True, slots=True)
class TopicRead:
    """A topic's znode as read."""

    partitions: Mapping[int, Assignment]
    version: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class StateRead:
    """A partition's state znode as read; `mzxid` is the transaction that wrote it, None where that is not known."""

    leadership: Leadership
    version: int
    mzxid: int | None = None


@dataclass(slots=True)
class Partition:
    """A partition as the controller sees it. `version` is that of the state znode, -1 while there is none."""

    assignment: Assignment
    phase: PartitionPhase = PartitionPhase.NON_EXISTENT
    leadership: Leadership | None = None
    version: int = -1
    has_znode: bool = False
    """Whether the parent of the state znode is known to be there."""

    stale: frozenset[BrokerId] = frozenset()
    """Members of the in-sync set that died, or started anew, after they were put into it."""

    replicas: dict[BrokerId, ReplicaPhase] = field(default_factory=dict)

    def move(self, phase: PartitionPhase) -> None:
        assert self.phase in PARTITION_MOVES[phase], f"partition from {self.phase.value} to {phase.value}"
        self.phase = phase

    def move_replica(self, broker: BrokerId, phase: ReplicaPhase) -> None:
        present = self.replicas.get(broker, ReplicaPhase.NON_EXISTENT)
        assert present in REPLICA_MOVES[phase], f"replica on {broker} from {present.value} to {phase.value}"
        self.replicas[broker] = phase

    def apply_state(self, read: StateRead) -> None:
        """Take over what stands in ZooKeeper. Restarts stay known until something else is written there."""
        if self.stale and read.version != self.version:
            is_led = read.leadership.leader != NO_LEADER
            self.stale = frozenset() if is_led else self.stale.intersection(read.leadership.isr)
        self.leadership = read.leadership
        self.version = read.version
        self.move(PartitionPhase.OFFLINE if read.leadership.leader == NO_LEADER else PartitionPhase.ONLINE)


@dataclass(slots=True)
class Topic:
    """A topic's znode and its partitions."""

    version: int
    partitions: dict[int, Partition]
    topic_id: str | None = None
    unclean_leader_election: bool | None = None
    """What the topic sets, None where it sets nothing; read again whenever it matters."""

    min_in_sync_replicas: int | None = None
    """As above, for moves that let members of an in-sync set go."""

    has_partitions_znode: bool = False
    """Whether the parent of its partitions' znodes is known to be there."""


@dataclass(frozen=True, slots=True)
class AskedMoves:
    """The entries of /admin/reassign_partitions that are not done, and the version of the znode."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int


@dataclass(slots=True)
class ClusterState:
    """The controller's copy of the cluster."""

    term: Term
    brokers: dict[BrokerId, RegisteredBroker] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    partitions_on: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    failed_replicas: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)
    """Replicas of live brokers whose log directory is offline; until the broker comes back anew."""

    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    """Live brokers that asked for a controlled shutdown; until they are gone or come back anew."""

    inquests: dict[TopicPartition, dict[BrokerId, LogEnd]] = field(default_factory=dict)
    """Where logs end, of partitions whose last members in sync may have lost records (`last_replica`)."""

    deletions: dict[str, None] = field(default_factory=dict)
    """Topics asked to be deleted, in the order in which they were asked."""

    moving: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions that are being reassigned."""

    asked_moves: "AskedMoves | None" = None
    """/admin/reassign_partitions as it stands."""

    postponed_deletions: dict[str, None] = field(default_factory=dict)
    """Topics asked to be deleted that a reassignment keeps until it is done."""

    def partition(self, at: TopicPartition) -> Partition | None:
        topic = self.topics.get(at.topic)
        return None if topic is None else topic.partitions.get(at.partition)

    def all_partitions(self) -> Iterator[TopicPartition]:
        for name, topic in self.topics.items():
            for number in topic.partitions:
                yield TopicPartition(name, number)

    def partitions_of(self, name: str) -> Iterator[tuple[TopicPartition, Partition]]:
        for number, partition in self.topics[name].partitions.items():
            yield TopicPartition(name, number), partition

    def is_replica_live(self, at: TopicPartition, broker: BrokerId) -> bool:
        """Whether the broker is registered and the replica's directory is not known to be offline."""
        return broker in self.brokers and at not in self.failed_replicas.get(broker, ())

    def is_replica_eligible(self, at: TopicPartition, broker: BrokerId) -> bool:
        """Whether the replica is live and is going to stay: it may join the in-sync set, and be chosen to lead."""
        return broker not in self.shutting_down and self.is_replica_live(at, broker)

    def apply_absences(self, at: TopicPartition, read: StateRead | None = None) -> None:
        """Remember which in-sync members are away, or are not the start of their broker that wrote `read` knew."""
        partition = self.topics[at.topic].partitions[at.partition]
        if partition.leadership is None:
            return
        # A partition is left without a leader only when every member is away or has started anew: who wrote that knew
        # of restarts that its own write now hides.
        is_led = partition.leadership.leader != NO_LEADER
        gone = [broker for broker in partition.leadership.isr if not is_led or self._is_away(broker, read)]
        if gone:
            partition.stale = partition.stale.union(gone)

    def _is_away(self, broker: BrokerId, read: StateRead | None) -> bool:
        registered = self.brokers.get(broker)
        if registered is None or read is None:
            return registered is None
        known = read.leadership.broker_epochs
        if known is not None:
            # A write can come to ZooKeeper after a registration that its controller had not heard of.
            return known.get(broker) != registered.epoch
        return read.mzxid is not None and registered.epoch > read.mzxid

    def with_epochs(self, leadership: Leadership) -> Leadership:
        """As it is written into a state znode: with the registrations that this controller decides by."""
        members = [broker for broker in leadership.isr if broker in self.brokers]
        return replace(leadership, broker_epochs={broker: self.brokers[broker].epoch for broker in members})

    def live_replicas(self, at: TopicPartition, partition: Partition) -> tuple[BrokerId, ...]:
        """The assigned replicas that could lead or follow now, in the order of the assignment."""
        return tuple(broker for broker in partition.assignment.replicas if self.is_replica_live(at, broker))

    def apply_broker(self, broker: BrokerId, registered: RegisteredBroker) -> None:
        self.brokers[broker] = registered

    def apply_broker_gone(self, broker: BrokerId) -> None:
        del self.brokers[broker]
        self.failed_replicas.pop(broker, None)
        self.shutting_down.pop(broker, None)

    def apply_replica_failed(self, at: TopicPartition, broker: BrokerId) -> None:
        self.failed_replicas.setdefault(broker, set()).add(at)
        if at in self.inquests:
            # What it told of its log holds no more: there is none that could lead.
            self.inquests[at].pop(broker, None)

    def apply_topic(self, name: str, read: TopicRead) -> list[TopicPartition]:
        """Take over a topic's znode; its new partitions are NEW, and returned."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(read.version, {}, read.topic_id)
        topic.version = read.version
        added = [number for number in sorted(read.partitions) if number not in topic.partitions]
        for number in added:
            partition = topic.partitions[number] = Partition(read.partitions[number])
            partition.move(PartitionPhase.NEW)
            self._add_replicas(TopicPartition(name, number), partition, partition.assignment.replicas)
            if partition.assignment.is_moving:
                self.moving[TopicPartition(name, number)] = None
        return [TopicPartition(name, number) for number in added]

    def apply_assignment(self, at: TopicPartition, assignment: Assignment) -> None:
        """A reassignment begins, changes or ends; a replica that leaves is forgotten, one that comes is NEW."""
        partition = self.topics[at.topic].partitions[at.partition]
        left = [broker for broker in partition.assignment.replicas if broker not in assignment.replicas]
        came = [broker for broker in assignment.replicas if broker not in partition.assignment.replicas]
        partition.assignment = assignment
        for broker in left:
            if partition.replicas[broker] is not ReplicaPhase.OFFLINE:
                partition.move_replica(broker, ReplicaPhase.OFFLINE)
            for phase in (
                ReplicaPhase.DELETION_STARTED,
                ReplicaPhase.DELETION_SUCCESSFUL,
                ReplicaPhase.NON_EXISTENT,
            ):
                partition.move_replica(broker, phase)
            del partition.replicas[broker]
            del self.partitions_on[broker][at]
            self.failed_replicas.get(broker, set()).discard(at)
        self._add_replicas(at, partition, came)
        if assignment.is_moving:
            self.moving[at] = None
        else:
            self.moving.pop(at, None)

    def _add_replicas(self, at: TopicPartition, partition: Partition, brokers: Iterable[BrokerId]) -> None:
        for broker in brokers:
            partition.move_replica(broker, ReplicaPhase.NEW)
            self.partitions_on.setdefault(broker, {})[at] = None

    def apply_state(self, at: TopicPartition, read: StateRead) -> None:
        """Take over a state znode, as just written, or as read: then those whom its writer did not know restarted."""
        topic = self.topics[at.topic]
        topic.has_partitions_znode = True
        partition = topic.partitions[at.partition]
        is_new = read.version != partition.version
        partition.apply_state(read)
        if is_new and read.mzxid is not None:
            self.apply_absences(at, read)
        if read.leadership.leader != NO_LEADER:
            self.inquests.pop(at, None)

    def apply_topic_gone(self, name: str) -> None:
        for at, partition in self.partitions_of(name):
            for broker in partition.assignment.replicas:
                del self.partitions_on[broker][at]
                self.failed_replicas.get(broker, set()).discard(at)
            self.inquests.pop(at, None)
            self.moving.pop(at, None)
        del self.topics[name]
        self.deletions.pop(name, None)
        self.postponed_deletions.pop(name, None)
