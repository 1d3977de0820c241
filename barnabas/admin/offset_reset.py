"""Where a group shall go on reading: the targets of `barnabas groups reset`, and the plan of a reset as values.

Targets are resolved against what each partition holds; whatever lies before its start means its start, whatever lies
behind its end its end.
"""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.admin.offsets import Anchor, Bound, OffsetSyntax, parse_time
from barnabas.protocol.ids import TopicPartition


class InvalidReset(Exception):
    """The reset cannot be planned."""


@dataclass(slots=True, frozen=True)
class Held:
    """What is known of a partition: its first and next offset, and what the group committed."""

    start: int
    end: int
    committed: int | None
    at_time: int | None = None
    """The first offset at or after the target's time."""


@dataclass(slots=True, frozen=True)
class Target:
    """Where to go: a place in every partition, so many offsets further than committed, or offsets by partition."""

    bound: Bound | None = None
    shift: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None

    def resolve(self, at: TopicPartition, held: Held) -> int:
        """The offset in one partition. Raises InvalidReset."""
        if self.shift is not None:
            if held.committed is None:
                raise InvalidReset(f"{at}: nothing is committed that could be shifted by {self.shift}")
            bound = Bound(Anchor.ZERO, held.committed + self.shift)
        elif self.offsets is not None:
            bound = Bound(Anchor.ZERO, self.offsets[at])
        else:
            assert self.bound is not None
            bound = self.bound
        return bound.resolve(start=held.start, end=held.end, at_time=held.at_time)


@dataclass(slots=True, frozen=True)
class Step:
    """One partition of a reset."""

    partition: TopicPartition
    committed: int | None
    target: int


def decide_reset(target: Target, held: Mapping[TopicPartition, Held]) -> list[Step]:
    """The plan: every partition with its new offset. Raises InvalidReset."""
    return [Step(at, each.committed, target.resolve(at, each)) for at, each in sorted(held.items())]


def parse_ago(text: str, *, now_ms: int) -> int:
    """The time (ms) that lies a duration like 2h30m back. Raises OffsetSyntax."""
    if text[:1] in {"+", "-", "@"}:
        raise OffsetSyntax(f"{text!r} is no duration: 90s, 2h30m, 7d")
    return parse_time("-" + text, now_ms=now_ms)


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets of a file: lines `topic,partition,offset` as kafka-consumer-groups exports them, or rows of JSON.

    JSON rows are those that `barnabas groups reset -o json` or `groups lag -o json` print, `target` before `committed`.
    Raises InvalidReset.
    """
    try:
        if text.lstrip()[:1] in {"[", "{"}:
            return dict(map(_row, json.loads(text)))
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidReset(f"not lines topic,partition,offset, nor such rows of JSON: {error!r}") from None


def _row(row: Any) -> tuple[TopicPartition, int]:
    offsets = [row[key] for key in ("offset", "target", "committed") if row.get(key) is not None]
    return TopicPartition(str(row["topic"]), int(row["partition"])), int(offsets[0])
