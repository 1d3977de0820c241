"""What a controller tells a broker and what brokers ask of it, as plain values.

LeaderAndIsr, StopReplica, UpdateMetadata, AlterPartition and ControlledShutdown have the fields that Kafka 2.7 gives
its APIs 4, 5, 6, 56 and 7 in their newest versions, so that the same values can travel in Kafka's own encoding as well
as over gRPC; ReportLogEnds is ours. Every command carries the controller's epoch and the epoch of the broker that it is
meant for (the czxid of its znode); the receiver compares both (`controller.fencing`) and answers with an error code.
One message holds at most `MAX_PARTITIONS_PER_COMMAND` partitions; a greater one travels as several.

Lists of broker ids keep the order of the assignment: the first replica is the preferred leader.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import (
    NO_LEADER,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
)

MAX_PARTITIONS_PER_COMMAND: Final = 2_000
UNKNOWN_BROKER_EPOCH: Final = BrokerEpoch(-1)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker listens: listener name, host, port and security protocol, as in its znode."""

    listener_name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is registered in ZooKeeper. `control_endpoint` is the "host:port" of its control server.

    `broker_epoch` is that of its registration, -1 where the controller does not tell.
    """

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    control_endpoint: str | None = None
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class LiveLeader:
    """The inter-broker endpoint of a broker that leads one of the command's partitions."""

    broker_id: BrokerId
    host: str
    port: int


@dataclass(slots=True)
class LeaderAndIsrPartition:
    """What a replica must be from now on: leader when `leader` is the receiver, else its follower.

    `controller_epoch` is that of the controller that wrote this state, `zk_version` that of the state znode, which an
    ISR change must name. `is_new` means that no replica holds data yet, so a missing log is made.
    """

    topic: str
    partition: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: int
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class LeaderAndIsr:
    """Make the receiver leader or follower of these partitions."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: list[LeaderAndIsrPartition]
    live_leaders: tuple[LiveLeader, ...] = ()


@dataclass(slots=True)
class StopReplicaPartition:
    """Stop being a replica, and with `delete` remove the log. Epoch -2 means that the topic goes (beats any epoch)."""

    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    delete: bool

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class StopReplica:
    """Make the receiver stop fetching and serving these partitions."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: list[StopReplicaPartition]


@dataclass(slots=True)
class UpdateMetadataPartition:
    """What the receiver tells clients of a partition. Leader -2 means that the partition is deleted: forget it."""

    topic: str
    partition: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: int
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class UpdateMetadata:
    """Change the receiver's view of the cluster: all live brokers, always whole, and the partitions that changed.

    With `ends_welcome` this controller has told this registration of the broker of all partitions that there are.
    """

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: list[UpdateMetadataPartition]
    live_brokers: tuple[LiveBroker, ...]
    ends_welcome: bool = False


@dataclass(slots=True)
class ReportLogEnds:
    """Tell where the logs of these replicas end: who is to lead when no replica is known to have every record."""

    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: BrokerEpoch
    partitions: list[TopicPartition]


Command = LeaderAndIsr | StopReplica | UpdateMetadata | ReportLogEnds


class LogEnd(NamedTuple):
    """The last leader epoch in a log and the offset after its last record; the greater one has the better log."""

    leader_epoch: LeaderEpoch
    end_offset: int


@dataclass(slots=True)
class CommandResult:
    """A broker's answer. `error_code` is of the whole command; `partition_errors` need not list successes."""

    error_code: ErrorCode = ErrorCode.NONE
    partition_errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    log_ends: dict[TopicPartition, LogEnd] = field(default_factory=dict)
    """To ReportLogEnds: the replicas that are here and can be read."""

    def of(self, topic_partition: TopicPartition) -> ErrorCode:
        """What happened to one partition of the command."""
        if self.error_code is not ErrorCode.NONE:
            return self.error_code
        return self.partition_errors.get(topic_partition, ErrorCode.NONE)


class ControlHandler(Protocol):
    """What a broker does when its controller speaks. Commands come one at a time, in the order they were sent.

    Errors are answered, not raised: an exception here is a mistake of ours and is fatal for the broker's task.
    """

    async def on_leader_and_isr(self, command: LeaderAndIsr) -> CommandResult: ...

    async def on_stop_replica(self, command: StopReplica) -> CommandResult: ...

    async def on_update_metadata(self, command: UpdateMetadata) -> CommandResult: ...

    async def on_report_log_ends(self, command: ReportLogEnds) -> CommandResult: ...


AnswerListener = Callable[[Command, CommandResult], None]


class ControlChannel(Protocol):
    """The way to one registration of a broker. What is sent arrives in order, or was superseded by what came later."""

    def send(self, command: Command) -> None:
        """Queue a command; it is tried until the broker answers or the channel is closed."""
        ...

    def close(self) -> None:
        """Drop what waits; no answer is heard from now on."""
        ...


class OpenChannel(Protocol):
    """Opens a channel to the control server at `endpoint`, "host:port"."""

    def __call__(self, broker: BrokerId, endpoint: str, on_answer: AnswerListener) -> ControlChannel: ...


class Inquiry(Generic[AnswerT]):
    """What the active controller alone can answer, with an `AnswerT` (`controller.driver.Controller.ask`)."""

    __slots__ = ()


@dataclass(slots=True)
class AlterPartitionItem:
    """The in-sync set that a leader wants, made from the state of this leader epoch and version of the znode.

    `joiner_epoch` is the epoch of the broker that joins, as the leader knew it when that broker showed that it has all
    (KIP-903); -1 when nobody joins or it is not known. With `resigns` the leader wants another member to lead instead,
    and the set to stay as it is.
    """

    topic: str
    partition: int
    leader_epoch: LeaderEpoch
    new_isr: tuple[BrokerId, ...]
    zk_version: int
    joiner_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    resigns: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(slots=True)
class AlterPartitionOutcome:
    """What stands in ZooKeeper for a partition now.

    With an error only `error_code` has a meaning, but for INVALID_UPDATE_VERSION and INELIGIBLE_REPLICA.
    """

    error_code: ErrorCode = ErrorCode.NONE
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    isr: tuple[BrokerId, ...] = ()
    zk_version: int = -1


@dataclass(slots=True)
class AlterPartitionResult:
    """`error_code` is of the whole request; without one every partition of the request has its outcome."""

    error_code: ErrorCode = ErrorCode.NONE
    partitions: dict[TopicPartition, AlterPartitionOutcome] = field(default_factory=dict)


@dataclass(slots=True)
class AlterPartition(Inquiry[AlterPartitionResult]):
    """A leader asks for other in-sync sets (API 56, KIP-497). Success leaves the leader epoch as it is.

    Errors of the whole: NOT_CONTROLLER, STALE_BROKER_EPOCH. Of a partition: UNKNOWN_TOPIC_OR_PARTITION,
    FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, and INELIGIBLE_REPLICA for a member that is not alive
    or is shutting down (KAFKA-14140; beyond 2.7); ELIGIBLE_LEADERS_NOT_AVAILABLE where a leader resigns and nobody else
    can lead.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: list[AlterPartitionItem]


@dataclass(slots=True)
class ControlledShutdownResult:
    """`remaining` are the partitions that the broker still leads, and that another replica could lead later."""

    error_code: ErrorCode = ErrorCode.NONE
    remaining: list[TopicPartition] = field(default_factory=list)


@dataclass(slots=True)
class ControlledShutdown(Inquiry[ControlledShutdownResult]):
    """A broker is about to stop: move what it leads (API 7). Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
