"""Where a group shall go on reading: the targets of `barnabas groups reset`, and the plan of a reset as values.

Targets are resolved against what each partition holds; whatever lies before its start means its start, whatever lies
behind its end its end.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.admin.offsets import Anchor, Bound, OffsetSyntax, parse_time
from barnabas.protocol.ids import TopicPartition

_ISO_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.ASCII | re.IGNORECASE
)
_ISO_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)
_MOST_DIGITS: Final = 18  # what 64 bits hold in any case


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
    """The time (ms) that lies a duration back: 2h30m, or PT2H30M, P1D in ISO 8601 as Kafka's tool takes it.

    Raises OffsetSyntax.
    """
    iso = _ISO_DURATION.fullmatch(text)
    if iso is not None and any(iso.groups()):
        parts = (float(each) * unit for each, unit in zip(iso.groups(default="0"), _ISO_UNITS_MS, strict=True))
        return max(0, now_ms - int(sum(parts)))
    if text[:1] in {"+", "-", "@"} or iso is not None:
        raise _no_duration(text)
    try:
        return parse_time("-" + text, now_ms=now_ms)
    except OffsetSyntax:
        raise _no_duration(text) from None


def _no_duration(text: str) -> OffsetSyntax:
    return OffsetSyntax(f"{text!r} is no duration: 90s, 2h30m, 7d, or in ISO 8601 PT2H30M, P1D")


def read_offsets(text: str, *, group: str) -> dict[TopicPartition, int]:
    """Offsets of a file, as CSV or JSON.

    CSV is what `kafka-consumer-groups --reset-offsets --export` writes, no header: `topic,partition,offset`, or of
    several groups `group,topic,partition,offset`, of which the lines of `group` count. JSON is what `barnabas groups
    reset -o json` or `groups lag -o json` print, `target` before `committed`. Raises InvalidReset.
    """
    found: dict[TopicPartition, int] = {}
    text = text.removeprefix("\ufeff")
    for place, at, offset in _json_rows(text) if text.lstrip()[:1] in {"[", "{"} else _csv_rows(text, group):
        if at in found:
            raise InvalidReset(f"{place}: {at} stands here for the second time")
        found[at] = offset
    if not found:
        raise InvalidReset(f"the file holds no offsets of group {group}")
    return found


_Row = tuple[str, TopicPartition, int]
"""Where a row stands, and what it says."""


def _csv_rows(text: str, group: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            place = f"line {reader.line_num}"
            if not row:
                continue
            if len(row) not in {3, 4}:
                raise InvalidReset(f"{place}: {','.join(row)!r} is not topic,partition,offset")
            topic, partition, offset = row[-3:]
            at = TopicPartition(topic, _number(place, "partition", partition))
            target = _number(place, "offset", offset)
            if row[:-3] in ([], [group]):
                yield place, at, target
    except csv.Error as error:
        raise InvalidReset(f"line {reader.line_num}: {error}") from None


def _json_rows(text: str) -> Iterator[_Row]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise InvalidReset(f"no JSON: {error}") from None
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        place = f"row {number}"
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str):
            raise InvalidReset(f"{place}: {json.dumps(row)} has no topic")
        offset = next((row[key] for key in ("offset", "target", "committed") if row.get(key) is not None), None)
        at = TopicPartition(row["topic"], _number(place, "partition", row.get("partition")))
        yield place, at, _number(place, "offset", offset)


def _number(place: str, name: str, value: object) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        raise InvalidReset(f"{place}: {name}={value!r} is no number from 0 on")
    return int(text)
