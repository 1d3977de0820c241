"""What administrators ask of the controller through its own broker, and what it answers, as values.  [P]

Each question is an `Inquiry` of its answer (`controller.driver.Controller.ask`). What cannot be done for one partition
or feature is its `Outcome` with Kafka's error code; the others are done.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import Inquiry
from controller.state import Assignment


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one partition or feature."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


DONE: Final = Outcome()
Outcomes = dict[TopicPartition, Outcome]


@dataclass(frozen=True, slots=True)
class AlterReassignments(Inquiry[Outcomes]):
    """Move partitions to these replicas, None cancels (API 45, KIP-455). Answered when it has begun."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


@dataclass(frozen=True, slots=True)
class ListReassignments(Inquiry[dict[TopicPartition, Assignment]]):
    """Which of these partitions, of all where it is None, are being reassigned (API 46)."""

    partitions: tuple[TopicPartition, ...] | None = None


class ElectionKind(IntEnum):
    """Who may be elected (KIP-460)."""

    PREFERRED = 0
    """The first replica of the assignment, if it lives and is in sync."""

    UNCLEAN = 1
    """Where nobody leads: a live replica in sync, else any that lives, and records may be lost."""


@dataclass(frozen=True, slots=True)
class Elected:
    """Who leads what was elected, and why the rest was not."""

    leaders: dict[TopicPartition, BrokerId] = field(default_factory=dict)
    refused: Outcomes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElectLeaders(Inquiry[Elected]):
    """Elect leaders (API 43)."""

    kind: ElectionKind
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature's new highest level; less than 1 deletes it, which is a downgrade (KIP-584)."""

    feature: str
    max_version_level: int
    allow_downgrade: bool = False


@dataclass(frozen=True, slots=True)
class FeaturesUpdated:
    """What became of each feature; `epoch` is the version of /feature where it was written."""

    outcomes: dict[str, Outcome]
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Inquiry[FeaturesUpdated]):
    """Change the finalized features (API 57)."""

    updates: tuple[FeatureUpdate, ...]
