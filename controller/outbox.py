"""What brokers are to be told at the end of a batch, gathered by broker.  [P]

The messages are built from the controller's state when the batch is flushed, after its writes were confirmed: nobody
hears of what is not in ZooKeeper. Per broker the order is LeaderAndIsr, UpdateMetadata, StopReplica, as in Kafka. Each
LeaderAndIsr of a partition goes with an UpdateMetadata of it to all live brokers (`publish`). Partitions without a
leadership yet, and brokers that are gone, are left out. Lists are shared between the messages to different brokers.
"""

from collections.abc import Collection, Iterable

from barnabas.protocol.ids import (
    LEADER_DURING_DELETE,
    LEADER_EPOCH_DURING_DELETE,
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from controller.actions import Send
from controller.commands import (
    LeaderAndIsr,
    LeaderAndIsrPartition,
    LiveBroker,
    LiveLeader,
    ReportLogEnds,
    StopReplica,
    StopReplicaPartition,
    UpdateMetadata,
    UpdateMetadataPartition,
)
from controller.state import ClusterState, Partition


class Outbox:
    """Messages under way from decisions to brokers."""

    def __init__(self, state: ClusterState, *, inter_broker_listener_name: str) -> None:
        self._state = state
        self._listener_name = inter_broker_listener_name
        self._lead: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._new: set[tuple[BrokerId, TopicPartition]] = set()
        self._publish: dict[TopicPartition, None] = {}
        self._publish_to: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._forget: list[UpdateMetadataPartition] = []
        self._greet: dict[BrokerId, None] = {}
        self._welcomed: frozenset[BrokerId] = frozenset()
        self._stop: dict[BrokerId, list[StopReplicaPartition]] = {}
        self._stop_following: dict[BrokerId, dict[TopicPartition, None]] = {}
        self._ask: dict[BrokerId, dict[TopicPartition, None]] = {}

    def lead(self, at: TopicPartition, brokers: Iterable[BrokerId], *, is_new: bool = False) -> None:
        """LeaderAndIsr of a partition to these of its replicas; `is_new` ones hold no record of it yet."""
        for broker in brokers:
            self._lead.setdefault(broker, {})[at] = None
            if is_new:
                self._new.add((broker, at))

    def publish(self, at: TopicPartition) -> None:
        """UpdateMetadata of a partition to all live brokers."""
        self._publish[at] = None

    def publish_to(self, brokers: Iterable[BrokerId], partitions: Collection[TopicPartition]) -> None:
        """UpdateMetadata of partitions to some brokers."""
        for broker in brokers:
            self._publish_to.setdefault(broker, {}).update(dict.fromkeys(partitions))

    def greet(self, brokers: Iterable[BrokerId]) -> None:
        """UpdateMetadata of at least the live brokers."""
        self._greet.update(dict.fromkeys(brokers))

    def end_welcome(self, brokers: Iterable[BrokerId]) -> None:
        """UpdateMetadata that says to these that they have heard of all partitions: what they knew beside is gone."""
        self._welcomed |= frozenset(brokers)
        self.greet(brokers)

    def forget(self, at: TopicPartition, partition: Partition) -> None:
        """Tell all live brokers that a partition is being deleted."""
        self._forget.append(
            UpdateMetadataPartition(
                topic=at.topic,
                partition=at.partition,
                controller_epoch=self._state.term.epoch,
                leader=LEADER_DURING_DELETE,
                leader_epoch=LEADER_EPOCH_DURING_DELETE,
                isr=() if partition.leadership is None else partition.leadership.isr,
                zk_version=partition.version,
                replicas=partition.assignment.replicas,
            )
        )

    def delete(self, at: TopicPartition, broker: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """StopReplica to one replica, and its log removed."""
        self._stop.setdefault(broker, []).append(
            StopReplicaPartition(at.topic, at.partition, leader_epoch, delete=True)
        )

    def stop(self, at: TopicPartition, broker: BrokerId) -> None:
        """StopReplica to one replica, which keeps its log."""
        self._stop_following.setdefault(broker, {})[at] = None

    def ask(self, at: TopicPartition, broker: BrokerId) -> None:
        """ReportLogEnds to one replica."""
        self._ask.setdefault(broker, {})[at] = None

    def flush(self) -> list[Send]:
        """The messages gathered, and none are left."""
        sends = [*self._leader_and_isr(), *self._update_metadata(), *self._stop_replica(), *self._report_log_ends()]
        self._lead, self._new, self._publish, self._publish_to = {}, set(), {}, {}
        self._forget, self._greet, self._stop, self._stop_following, self._ask = [], {}, {}, {}, {}
        self._welcomed = frozenset()
        return sends

    def _leader_and_isr(self) -> Iterable[Send]:
        built: dict[tuple[TopicPartition, bool], LeaderAndIsrPartition | None] = {}
        term = self._state.term
        for broker, partitions in self._lead.items():
            registered = self._state.brokers.get(broker)
            if registered is None:
                continue
            entries = []
            for at in partitions:
                is_new = (broker, at) in self._new
                if (at, is_new) not in built:
                    built[at, is_new] = self._leader_and_isr_of(at, is_new=is_new)
                entry = built[at, is_new]
                if entry is not None:
                    entries.append(entry)
            if entries:
                leaders = self._live_leaders(entries)
                command = LeaderAndIsr(term.controller_id, term.epoch, registered.epoch, entries, leaders)
                yield Send(broker, command)

    def _leader_and_isr_of(self, at: TopicPartition, *, is_new: bool) -> LeaderAndIsrPartition | None:
        partition = self._state.partition(at)
        if partition is None or partition.leadership is None:
            return None
        leadership = partition.leadership
        return LeaderAndIsrPartition(
            topic=at.topic,
            partition=at.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            zk_version=partition.version,
            replicas=partition.assignment.replicas,
            adding_replicas=partition.assignment.adding,
            removing_replicas=partition.assignment.removing,
            is_new=is_new,
        )

    def _live_leaders(self, entries: Iterable[LeaderAndIsrPartition]) -> tuple[LiveLeader, ...]:
        leaders = dict.fromkeys(entry.leader for entry in entries if entry.leader != NO_LEADER)
        found = []
        for leader in leaders:
            registered = self._state.brokers.get(leader)
            endpoint = None if registered is None else self._inter_broker_endpoint(registered.info)
            if endpoint is not None:
                found.append(LiveLeader(leader, *endpoint))
        return tuple(found)

    def _inter_broker_endpoint(self, broker: LiveBroker) -> tuple[str, int] | None:
        for endpoint in broker.endpoints:
            if endpoint.listener_name == self._listener_name:
                return endpoint.host, endpoint.port
        return None

    def _update_metadata(self) -> Iterable[Send]:
        state = self._state
        everybody = bool(self._publish or self._forget)
        receivers = dict(state.brokers) if everybody else {}
        for broker in (*self._publish_to, *self._greet):
            if broker in state.brokers:
                receivers[broker] = state.brokers[broker]
        if not receivers:
            return
        live = tuple(registered.info for registered in state.brokers.values())
        common = [entry for at in self._publish if (entry := self._metadata_of(at)) is not None] + self._forget
        for broker, registered in receivers.items():
            own = self._publish_to.get(broker, {})
            extra = [entry for at in own if at not in self._publish and (entry := self._metadata_of(at)) is not None]
            entries = common + extra if extra else common
            term, welcomed = state.term, broker in self._welcomed
            command = UpdateMetadata(term.controller_id, term.epoch, registered.epoch, entries, live, welcomed)
            yield Send(broker, command)

    def _metadata_of(self, at: TopicPartition) -> UpdateMetadataPartition | None:
        partition = self._state.partition(at)
        if partition is None or partition.leadership is None or at.topic in self._state.deletions:
            return None
        leadership, replicas = partition.leadership, partition.assignment.replicas
        return UpdateMetadataPartition(
            topic=at.topic,
            partition=at.partition,
            controller_epoch=leadership.controller_epoch,
            leader=leadership.leader,
            leader_epoch=leadership.leader_epoch,
            isr=leadership.isr,
            zk_version=partition.version,
            replicas=replicas,
            offline_replicas=tuple(broker for broker in replicas if not self._state.is_replica_live(at, broker)),
        )

    def _stop_replica(self) -> Iterable[Send]:
        term = self._state.term
        for broker in dict.fromkeys((*self._stop, *self._stop_following)):
            registered = self._state.brokers.get(broker)
            if registered is None:
                continue
            entries = [*self._stop.get(broker, ())]
            for at in self._stop_following.get(broker, ()):
                partition = self._state.partition(at)
                if partition is not None and partition.leadership is not None:
                    epoch = partition.leadership.leader_epoch
                    entries.append(StopReplicaPartition(at.topic, at.partition, epoch, delete=False))
            if entries:
                yield Send(broker, StopReplica(term.controller_id, term.epoch, registered.epoch, entries))

    def _report_log_ends(self) -> Iterable[Send]:
        term = self._state.term
        for broker, partitions in self._ask.items():
            registered = self._state.brokers.get(broker)
            if registered is not None:
                yield Send(broker, ReportLogEnds(term.controller_id, term.epoch, registered.epoch, list(partitions)))
