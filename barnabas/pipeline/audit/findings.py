"""What differs between a topic and its lake, offset by offset, and how it is named. Pure.

A finding is about one offset that both sides do not have alike. Findings of one kind in one cell are gathered into
ranges of offsets; offsets that hold no records, as of markers of transactions, lie between ranges.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from barnabas.pipeline.audit.tallies import Cell

_NAMED_RANGES: Final = 20


class Kind(StrEnum):
    """How an offset of the lake differs from that of the topic."""

    MISSING = "missing in the lake"
    DUPLICATE = "more than once in the lake"
    EXTRA = "in the lake and not in the topic"
    CHANGED = "with another key or value in the lake"
    MOVED = "with another timestamp in the lake"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One offset; `copies` is how often the lake has it."""

    cell: Cell
    offset: int
    kind: Kind
    copies: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Consecutive offsets of one kind in a cell, both ends included; `surplus` counts copies beyond the first."""

    kind: Kind
    first: int
    last: int
    surplus: int = 0

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def compare_offset(
    *, topic_records: int, lake_records: int, content_is_equal: bool, place_is_equal: bool
) -> Kind | None:
    """How an offset differs that the topic has `topic_records` times (0 or 1), None where it does not."""
    if lake_records > 1:
        return Kind.DUPLICATE
    if not topic_records or not lake_records:
        return Kind.MISSING if topic_records else Kind.EXTRA if lake_records else None
    if not content_is_equal:
        return Kind.CHANGED
    return None if place_is_equal else Kind.MOVED


def gather_ranges(findings: Iterable[Finding]) -> dict[Cell, list[OffsetRange]]:
    """The ranges of each cell, by their offsets."""
    ranges: dict[Cell, list[OffsetRange]] = {}
    for each in sorted(findings):
        of_cell = ranges.setdefault(each.cell, [])
        surplus = max(each.copies - 1, 0)
        last = of_cell[-1] if of_cell else None
        if last is not None and last.kind is each.kind and last.last + 1 == each.offset:
            of_cell[-1] = OffsetRange(each.kind, last.first, each.offset, last.surplus + surplus)
        else:
            of_cell.append(OffsetRange(each.kind, each.offset, each.offset, surplus))
    return ranges


def without_compacted(
    ranges: Mapping[Cell, list[OffsetRange]], compacted_topics: Collection[str]
) -> tuple[dict[Cell, list[OffsetRange]], dict[Cell, int]]:
    """What is left where compaction explains that the lake has what a topic has no more; and how much it explains.

    A cell of which nothing is left has an empty list.
    """
    left: dict[Cell, list[OffsetRange]] = {}
    explained: dict[Cell, int] = {}
    for cell, of_cell in ranges.items():
        is_compacted = cell.topic in compacted_topics
        left[cell] = [each for each in of_cell if not (is_compacted and each.kind is Kind.EXTRA)]
        gone = sum(each.count for each in of_cell if is_compacted and each.kind is Kind.EXTRA)
        if gone:
            explained[cell] = gone
    return left, explained


def describe(ranges: Iterable[OffsetRange]) -> list[str]:
    """A text for each kind: `offsets 100 to 120 missing in the lake (21 records)`."""
    by_kind: dict[Kind, list[OffsetRange]] = {}
    for each in ranges:
        by_kind.setdefault(each.kind, []).append(each)
    texts = []
    for kind, of_kind in by_kind.items():
        shown = ", ".join(str(each) for each in of_kind[:_NAMED_RANGES])
        more = f" and {len(of_kind) - _NAMED_RANGES} ranges more" if len(of_kind) > _NAMED_RANGES else ""
        count = sum(each.count for each in of_kind)
        surplus = sum(each.surplus for each in of_kind)
        copies = f", {surplus} row{'s' if surplus > 1 else ''} too many" if surplus else ""
        records = "1 record" if count == 1 else f"{count} records"
        offsets = "offset" if count == 1 else "offsets"
        texts.append(f"{offsets} {shown}{more} {kind.value} ({records}{copies})")
    return texts
