"""From offsets of a source to offsets of the target, so that consumer groups can be moved over. Pure.

A `Sync(source, target, length)` says: of one partition, every record from offset `source` on stands at `target` or
behind it in one partition of the target, every earlier one before; and the first `length` of them are mapped one to
one. A translated offset therefore leaves nothing out. It is exact where records were passed on one to one; where keys
spread them over other partitions, what comes twice is at most what one transaction of the mirror wrote.

A transaction's syncs of a partition are thinned where they are very many (a compacted source has gaps everywhere):
whatever is left of them stays true.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

MOST_SYNCS: Final = 256
"""Of one partition and transaction."""


class Sync(NamedTuple):
    """See the module."""

    source: int
    target: int
    length: int


class Syncs:
    """Collects what one transaction maps from one partition to one of the target, in order."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Sync] = []

    def add(self, source: int, target: int, count: int) -> None:
        """`count` records from `source` on went to `target` and on."""
        if self._found:
            last = self._found[-1]
            if source == last.source + last.length and target == last.target + last.length:
                self._found[-1] = Sync(last.source, last.target, last.length + count)
                return
            if len(self._found) >= 2 * MOST_SYNCS:
                self._found = self._found[::2]
        self._found.append(Sync(source, target, count))

    def thinned(self) -> list[Sync]:
        """At most MOST_SYNCS of them, the first one among them."""
        step = -(-len(self._found) // MOST_SYNCS) or 1
        return self._found[::step]


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a partition is mirrored: its next offset, and the offset behind its last record in each partition."""

    offset: int
    behind: dict[int, int] = field(default_factory=dict)


class Translated(NamedTuple):
    """An offset of the target. It is exact unless records may come twice."""

    offset: int
    is_exact: bool


def translate(
    offset: int,
    syncs: Sequence[Sync],
    reached: Reached,
    *,
    partition: int,
    begin: int,
    log_start: int,
    log_end: int,
    is_one_to_one: bool,
) -> Translated:
    """The offset of one partition of the target for `offset` of one partition of a source: nothing is left out.

    `syncs` are those between the two, sorted; the mirror began at `begin` of the source. `log_end` was asked for
    before `reached` was.
    """
    if offset >= reached.offset:
        # What comes is written behind all that is there. A group that is ahead of the mirror reads it again.
        behind = reached.behind.get(partition)
        return Translated(log_end if behind is None else behind, is_one_to_one and offset == reached.offset)
    at = bisect_right(syncs, offset, key=lambda sync: sync.source) - 1
    if at >= 0:
        sync = syncs[at]
        steps = min(offset - sync.source, sync.length)
        return Translated(sync.target + steps, is_one_to_one and offset <= sync.source + sync.length)
    if syncs and syncs[0].source <= begin:
        # It is before all that was ever mirrored.
        return Translated(syncs[0].target, is_exact=offset == syncs[0].source)
    if partition not in reached.behind:
        return Translated(log_end, is_exact=False)
    # What said more of that time is forgotten.
    return Translated(log_start, is_exact=False)
