"""What the controller's core asks its driver to do, as values.  [P]

Writes and reads are answered, in their order, by one `Settled` event; the rest is not. Each carries
its reason where there is one to tell, and the driver logs it.
"""

from dataclasses import dataclass
from enum import Enum

from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import Command
from zk_schema.ops import Op


@dataclass(frozen=True, slots=True)
class Write:
    """Perform all of these or nothing; the first is the check of /controller_epoch's version."""

    operations: tuple[Op, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read the state znode of a partition."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class ReadTopic:
    """Read the znode of a topic."""

    name: str


@dataclass(frozen=True, slots=True)
class ReadTopicConfig:
    """Read what a topic sets for itself."""

    name: str


@dataclass(frozen=True, slots=True)
class ReadFeatures:
    """Read /feature."""


@dataclass(frozen=True, slots=True)
class ReadTree:
    """List a znode and all below it, parents before children."""

    path: str


@dataclass(frozen=True, slots=True)
class Connect:
    """Open a channel to this registration of a broker; "host:port"."""

    broker: BrokerId
    endpoint: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the channel to a broker, with what still waits in it."""

    broker: BrokerId
    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """Put a command into the broker's channel."""

    broker: BrokerId
    command: Command


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the question that came with this token."""

    token: int
    answer: object


class Timer(Enum):
    """What time brings up."""

    LEADER_BALANCE = "leader balance"


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Let `TimerFired` come after this time, in place of an earlier one of this timer."""

    timer: Timer
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the operator; `severe` when something must be looked at."""

    message: str
    severe: bool = False


@dataclass(frozen=True, slots=True)
class StepDown:
    """Leave office at once; nothing else of this term may be done."""

    reason: str


Question = Write | ReadState | ReadTopic | ReadTopicConfig | ReadFeatures | ReadTree
Action = Question | Connect | Disconnect | Send | Answer | SetTimer | Report | StepDown
