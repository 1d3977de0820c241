"""How many records a topic, partition and hour has, and their checksums: what tiers are compared by. Pure.

A cell is the records of a partition whose timestamps lie in one hour of UTC; its hour is named by the milliseconds at
which it begins. Records of the oldest message format have no time; theirs is -1, and their cell the hour before 1970.

Tallies add up: those of two tasks, or of two files, are those of both. Checksums are summed modulo 2**64, see
`columns/checksums.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

HOUR_MS: Final = 3_600_000
NO_OFFSET: Final = -1
_WRAP: Final = (1 << 64) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Cell(NamedTuple):
    """Records of a partition whose time lies in the hour that begins at `hour_ms`."""

    topic: str
    partition: int
    hour_ms: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at {hour_text(self.hour_ms)}"


@dataclass(frozen=True, slots=True)
class Tally:
    """What was counted: `content` is the sum of the records' checksums, `places` that of their offsets and times.

    `least_offset` and `most_offset` are NO_OFFSET where nobody knows them. Producers know no `places`.
    """

    records: int = 0
    content: int = 0
    places: int = 0
    least_offset: int = NO_OFFSET
    most_offset: int = NO_OFFSET

    def __add__(self, other: "Tally") -> "Tally":
        least = [each for each in (self.least_offset, other.least_offset) if each != NO_OFFSET]
        return Tally(
            self.records + other.records,
            (self.content + other.content) & _WRAP,
            (self.places + other.places) & _WRAP,
            min(least, default=NO_OFFSET),
            max(self.most_offset, other.most_offset),
        )

    def has_same_records(self, other: "Tally") -> bool:
        """Whether count and checksum of keys and values are equal."""
        return self.records == other.records and self.content == other.content

    def equals(self, other: "Tally") -> bool:
        """Whether these are the same records at the same offsets, with the same times."""
        return self.has_same_records(other) and self.places == other.places


NOTHING: Final = Tally()

Tallies = Mapping[Cell, Tally]


def add_up(tallies: Iterable[tuple[Cell, Tally]]) -> dict[Cell, Tally]:
    """One tally for each cell."""
    added: dict[Cell, Tally] = {}
    for cell, tally in tallies:
        added[cell] = added.get(cell, NOTHING) + tally
    return added


def hour_of(timestamp_ms: int) -> int:
    """The beginning of the hour in which a time lies."""
    return timestamp_ms // HOUR_MS * HOUR_MS


def hour_text(hour_ms: int) -> str:
    """`2026-11-22T13:00Z`; a number where the calendar ends before it."""
    try:
        return f"{_EPOCH + timedelta(milliseconds=hour_ms):%Y-%m-%dT%H:%MZ}"
    except OverflowError:
        return f"{hour_ms} ms"
