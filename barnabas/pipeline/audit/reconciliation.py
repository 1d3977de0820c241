"""Whether what producers sent, what a topic holds and what a lake has are the same, cell by cell. Pure.

The lake, its table and its dead letters together, must have each record of the topic in the range that is audited, once
and alike. What the lake has from before the log's start is not compared with the topic, as retention took it there.

Producers must have sent what the topic holds, what retention took from it (as far as the lake still has it), and what
has come since the lake's last load. In a compacted topic the producers' records may be more.

    producers  =  topic in range  +  topic beyond range  +  lake before the log's start
                  lake in range   =  topic in range
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.pipeline.audit.findings import OffsetRange, describe
from barnabas.pipeline.audit.tallies import NOTHING, Cell, Tallies, Tally


@dataclass(frozen=True, slots=True)
class Tiers:
    """What was counted. `producers` is None where nobody told what was sent.

    `beyond` are records of the topic that the lake need not have yet; `expired` rows of the lake from before the log's
    start; `dead_letters` those of the lake that its table has not.
    """

    topic: Tallies
    table: Tallies
    dead_letters: Tallies = field(default_factory=dict)
    expired: Tallies = field(default_factory=dict)
    beyond: Tallies = field(default_factory=dict)
    producers: Tallies | None = None

    def cells(self) -> list[Cell]:
        """All cells of which any tier knows, in order."""
        sides = (self.topic, self.table, self.dead_letters, self.expired, self.beyond, self.producers or {})
        return sorted(set().union(*sides))

    def lake(self, cell: Cell) -> Tally:
        """What of a cell the lake has and the topic should have."""
        return self.table.get(cell, NOTHING) + self.dead_letters.get(cell, NOTHING)

    def sent(self, cell: Cell) -> Tally:
        """What producers must have sent, by what is left of it."""
        return self.topic.get(cell, NOTHING) + self.beyond.get(cell, NOTHING) + self.expired.get(cell, NOTHING)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of a cell: its `differences` are texts, none where it balances; `notes` are what was borne."""

    cell: Cell
    differences: Sequence[str] = ()
    notes: Sequence[str] = ()
    ranges: Sequence[OffsetRange] = ()

    @property
    def balances(self) -> bool:
        return not self.differences


def suspicious(tiers: Tiers) -> list[Cell]:
    """The cells in which topic and lake differ: to be compared offset by offset."""
    return [cell for cell in tiers.cells() if not tiers.topic.get(cell, NOTHING).equals(tiers.lake(cell))]


def reconcile(
    tiers: Tiers,
    *,
    compacted_topics: Collection[str] = (),
    ranges: Mapping[Cell, Sequence[OffsetRange]] | None = None,
    explained: Mapping[Cell, int] | None = None,
) -> list[Verdict]:
    """A verdict for each cell.

    `ranges` has what was found offset by offset in suspicious cells, and `explained` how many records of the lake
    compaction removed from the topic since; a suspicious cell that is in neither differs by its numbers alone.
    """
    verdicts = []
    for cell in tiers.cells():
        notes: list[str] = []
        found = list((ranges or {}).get(cell, ()))
        gone = (explained or {}).get(cell, 0)
        differences = _of_lake(tiers, cell, found, gone)
        if gone:
            notes.append(f"{_records(gone)} of the lake have been compacted away in the topic")
        if tiers.producers is not None:
            sent, left = tiers.producers.get(cell, NOTHING), tiers.sent(cell)
            if cell.topic in compacted_topics and (sent.records > left.records):
                notes.append(f"producers counted {sent.records}; how many of them were compacted away nobody knows")
            else:
                differences += _of_producers(sent, left)
        verdicts.append(Verdict(cell, differences, notes, found))
    return verdicts


def _of_lake(tiers: Tiers, cell: Cell, found: Sequence[OffsetRange], gone: int) -> list[str]:
    topic, lake = tiers.topic.get(cell, NOTHING), tiers.lake(cell)
    if topic.equals(lake):
        return []
    texts = describe(found)
    if texts or (gone and topic.records + gone == lake.records):
        return texts
    return [_by_numbers(topic, lake, "the topic has", "the lake has")]


def _of_producers(sent: Tally, left: Tally) -> list[str]:
    if sent.has_same_records(left):
        return []
    text = _by_numbers(sent, left, "producers counted", "there are")
    if sent.records > left.records and sent.most_offset >= 0:
        text += f", which they wrote at offsets {sent.least_offset} to {sent.most_offset}"
    return [text]


def _by_numbers(one: Tally, other: Tally, of_one: str, of_other: str) -> str:
    if one.records != other.records:
        return f"{of_one} {_records(one.records)}, {of_other} {other.records}"
    if one.content != other.content:
        return f"{of_one} {_records(one.records)} and {of_other} as many, with other keys or values (checksums differ)"
    return f"{of_one} {_records(one.records)} and {of_other} as many, at other offsets or times (checksums differ)"


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
