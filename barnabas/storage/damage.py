"""What of a log is known to be damaged: ranges of bytes in segments that hold no batch that can be trusted.  [P]

A range begins and ends where a batch does, or would: `start_offset` follows the last good batch before it, and
`end_offset` is where the first good one after it begins (or the segment ends), so the offsets in between are what is
lost. A segment that lost its end has a range without bytes there: all of it that is left may be good. Ranges of a log
do not overlap and are kept in order. While a range is known, nothing of it is read for anybody
(`read.py`); it is forgotten when its bytes are good again, were cut, or lie below the log's start.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes [position, end_position) of the segment at `segment_base_offset`, offsets [start_offset, end_offset)."""

    segment_base_offset: int
    position: int
    end_position: int
    start_offset: int
    end_offset: int
    problem: str

    @property
    def size_bytes(self) -> int:
        return self.end_position - self.position

    def __str__(self) -> str:
        return (
            f"offsets {self.start_offset} to {self.end_offset - 1} (bytes {self.position} to {self.end_position} of "
            f"the segment at {self.segment_base_offset}): {self.problem}"
        )


class Damage:
    """The damaged ranges of one log, in order. False when there is none."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Sequence[DamagedRange] = ()) -> None:
        self._ranges = sorted(ranges, key=_place)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[DamagedRange]:
        return iter(tuple(self._ranges))

    def __contains__(self, found: DamagedRange) -> bool:
        return found in self._ranges

    def add(self, found: DamagedRange) -> bool:
        """Note a range; what it overlaps was found earlier and gives way. False when it is known already."""
        if found in self._ranges:
            return False
        self._ranges = sorted([*(known for known in self._ranges if not _overlap(known, found)), found], key=_place)
        return True

    def remove(self, mended: DamagedRange) -> None:
        """Forget a range."""
        self._ranges = [known for known in self._ranges if known != mended]

    def forget(self, segment_base_offset: int, *, position: int, end_position: int) -> None:
        """Forget what lies wholly in these bytes of a segment: they were looked at and are good."""
        self._ranges = [
            known
            for known in self._ranges
            if known.segment_base_offset != segment_base_offset
            or not known.size_bytes
            or known.position < position
            or known.end_position > end_position
        ]

    def keep_within(self, *, start_offset: int, end_offset: int, end_position: int) -> None:
        """The log begins and ends there now, at that position of its last segment: forget what is outside."""
        kept = []
        for known in self._ranges:
            had_bytes = known.size_bytes > 0
            if known.end_offset > end_offset:
                end = end_position if known.start_offset < end_offset else known.position
                known = replace(known, end_offset=end_offset, end_position=min(known.end_position, end))
            is_left = known.size_bytes > 0 if had_bytes else known.start_offset < end_offset
            if known.end_offset > start_offset and is_left:
                kept.append(known)
        self._ranges = kept

    def keep_segments(self, base_offsets: Sequence[int]) -> None:
        """Forget what lies in segments that are gone."""
        if self._ranges:
            kept = set(base_offsets)
            self._ranges = [known for known in self._ranges if known.segment_base_offset in kept]

    def good_pieces(self, segment_base_offset: int, *, position: int, end: int) -> Iterator[tuple[int, int]]:
        """The bytes of a segment between two positions, without what is known to be damaged: (begin, end) of each."""
        for known in self._ranges:
            if known.segment_base_offset == segment_base_offset and position < known.end_position:
                if known.position >= end:
                    break
                if position < known.position:
                    yield position, known.position
                position = known.end_position
        if position < end:
            yield position, end

    def above(self, offset: int) -> "Damage":
        """The ranges that end above an offset."""
        return Damage([known for known in self._ranges if known.end_offset > offset])

    def holds(self, offset: int) -> bool:
        """Whether `offset` is in a known range."""
        return any(known.start_offset <= offset < known.end_offset for known in self._ranges)

    def has_lost_end(self, segment_base_offset: int, *, above: int) -> bool:
        """Whether the segment has lost its last batches, and some of them were at or above that offset."""
        return any(
            known.segment_base_offset == segment_base_offset and not known.size_bytes and known.end_offset > above
            for known in self._ranges
        )

    def ends_lost_at(self, offset: int) -> bool:
        """Whether a segment has lost its end up to `offset`: what is appended there belongs into another."""
        return any(not known.size_bytes and known.end_offset == offset for known in self._ranges)

    def first_after(self, offset: int) -> DamagedRange | None:
        """The first range that reaches over `offset`."""
        return next((known for known in self._ranges if known.end_offset > offset), None)

    def cut_by(self, offset: int, *, high_watermark: int) -> DamagedRange | None:
        """The first range that a cut to `offset` takes away whole, with all that follows.

        One that begins there does, and one before it of which nothing is committed: what it holds is fetched again. One
        of which something is committed stays, to be mended.
        """
        for known in self._ranges:
            if known.start_offset == offset or high_watermark <= known.start_offset <= offset:
                return known
        return None

    def last_before(self, offset: int, *, segment_base_offset: int) -> DamagedRange | None:
        """The last range of a segment that ends at or below `offset`: a good batch stands behind it."""
        found = None
        for known in self._ranges:
            if known.segment_base_offset == segment_base_offset and known.end_offset <= offset:
                found = known
        return found


def _place(known: DamagedRange) -> tuple[int, int]:
    return known.segment_base_offset, known.position


def _overlap(one: DamagedRange, other: DamagedRange) -> bool:
    if one.segment_base_offset != other.segment_base_offset:
        return False
    # Two ranges without bytes at one place are the same lost end.
    return one.position == other.position or (one.position < other.end_position and other.position < one.end_position)
