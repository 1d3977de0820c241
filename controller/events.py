"""What reaches the controller's core, as values.  [P]

What was read is complete for its kind: `BrokersRead` names all brokers, `TopicNamesRead` all topics. So several changes
that fire one watch, or that come while the core is busy, are one event, and a missed one is made good by the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.protocol.ids import BrokerEpoch, BrokerId, TopicPartition
from controller.actions import Timer
from controller.commands import Command, CommandResult, Inquiry
from controller.state import RegisteredBroker, StateRead, TopicRead
from zk_schema.ops import OpResult, WriteRefused
from zk_schema.payloads import FeatureZnode


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The write was done."""

    results: tuple[OpResult, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The write was not done; `error.index` tells which operation ZooKeeper refused."""

    error: WriteRefused


@dataclass(frozen=True, slots=True)
class Unknown:
    """The connection was lost; the write may or may not have been done."""


WriteReply = Confirmed | Refused | Unknown


@dataclass(frozen=True, slots=True)
class FeaturesRead:
    """/feature as read."""

    znode: FeatureZnode
    version: int


@dataclass(frozen=True, slots=True)
class TopicConfigRead:
    """What a topic sets for itself."""

    values: Mapping[str, str]


Reply = WriteReply | TopicConfigRead | StateRead | TopicRead | FeaturesRead | tuple[str, ...] | None
"""To a `Write` a `WriteReply`, to a `ReadTree` the paths that exist, to another read what was read or None."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The replies to the questions of the last batch of actions, in their order."""

    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True)
class ClusterRead:
    """Everything, read after winning the election and after each reconnection."""

    brokers: Mapping[BrokerId, RegisteredBroker]
    topics: Mapping[str, TopicRead]
    states: Mapping[TopicPartition, StateRead]
    deletions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """All registered brokers."""

    brokers: Mapping[BrokerId, RegisteredBroker]


@dataclass(frozen=True, slots=True)
class TopicNamesRead:
    """The names of all topics, and the znodes of those the core does not know."""

    names: frozenset[str]
    unknown: Mapping[str, TopicRead]


@dataclass(frozen=True, slots=True)
class TopicZnodeRead:
    """The znode of one topic after it changed; None when it is gone."""

    name: str
    read: TopicRead | None


@dataclass(frozen=True, slots=True)
class DeletionsRead:
    """The topics that are asked to be deleted."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentsRead:
    """/admin/reassign_partitions, which tools write."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]
    version: int


@dataclass(frozen=True, slots=True)
class PreferredElectionsRead:
    """/admin/preferred_replica_election, which tools write."""

    partitions: tuple[TopicPartition, ...]
    version: int


@dataclass(frozen=True, slots=True)
class LogDirectoryEventsRead:
    """Brokers that lost a log directory, and the znodes that say so, which go when it is attended to."""

    brokers: tuple[BrokerId, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrChangesRead:
    """Partitions whose state znode somebody else wrote, and the znodes that say so, which go with it."""

    partitions: tuple[TopicPartition, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigChangesRead:
    """Topics whose configuration changed."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UncleanElectionsAllowed:
    """The broker's configuration allows from now on what it did not before."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of a `SetTimer` is over."""

    timer: Timer


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """A broker's answer to a command that was sent to it under `broker_epoch`."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    command: Command
    result: CommandResult


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the controller; an `Answer` with its token answers it."""

    token: int
    question: Inquiry[object]


Stimulus = (
    ClusterRead
    | BrokersRead
    | TopicNamesRead
    | TopicZnodeRead
    | DeletionsRead
    | ReassignmentsRead
    | PreferredElectionsRead
    | LogDirectoryEventsRead
    | IsrChangesRead
    | ConfigChangesRead
    | UncleanElectionsAllowed
    | TimerFired
    | CommandAnswered
    | Asked
)
Event = Stimulus | Settled
