"""What is read of a cluster, and where reading begins and ends: the values that options are parsed into. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from barnabas.protocol.ids import TopicPartition

EARLIEST: Final = -2
"""In JSON of offsets: where the log starts."""
LATEST: Final = -1
"""In JSON of offsets: where the log ends."""


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of some topics (`subscribe`)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """All topics whose whole name matches, internal ones left out (`subscribePattern`)."""

    pattern: str

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class Partitions:
    """Some partitions (`assign`)."""

    partitions: frozenset[TopicPartition]


Subscription = Topics | TopicPattern | Partitions


class LogEdge(Enum):
    """One of the two ends of every log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; EARLIEST and LATEST stand for the ends of its log."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time, in milliseconds, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The same with a time for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


Edge = LogEdge | AtOffsets | AtTime | AtTimes
