"""The segments of a log in the order of their base offsets. The last one is active; there is always one."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from barnabas.storage.segment import Segment


class Segments:
    """An ordered list with look-up by offset."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        assert self._segments, "a log has at least one segment"
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, place: int) -> Segment:
        return self._segments[place]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def place_of(self, offset: int) -> int:
        """The place of the last segment that begins at or before `offset`; -1 when all begin after it."""
        base_offsets = self._base_offsets
        if offset >= base_offsets[-1]:
            return len(base_offsets) - 1
        return bisect_right(base_offsets, offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments that hold `offset` or come after it."""
        return self._segments[max(0, self.place_of(offset)) :]

    def growing(self) -> list[Segment]:
        """The active segment and those before it that were not closed yet, oldest first."""
        place = len(self._segments) - 1
        while place > 0 and self._segments[place - 1].growing is not None:
            place -= 1
        return self._segments[place:]

    def below(self, segment: Segment) -> Segment | None:
        """The segment before this one."""
        place = self.place_of(segment.base_offset)
        return self._segments[place - 1] if place > 0 else None

    def append(self, segment: Segment) -> None:
        assert segment.base_offset > self._base_offsets[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Let `segment` be the only one; returns the others."""
        removed = self._segments
        self._segments, self._base_offsets, self.active = [segment], [segment.base_offset], segment
        return removed

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Let `segment` stand where these, which follow each other, stood; it begins where the first of them does."""
        place = self.place_of(segment.base_offset)
        end = place + len(replaced)
        assert self._segments[place:end] == list(replaced)
        assert end < len(self._segments), "the active segment is not replaced"
        self._segments[place:end] = [segment]
        self._base_offsets[place:end] = [segment.base_offset]

    def remove_first(self, count: int) -> list[Segment]:
        """Remove the oldest segments and return them."""
        assert count < len(self._segments)
        removed = self._segments[:count]
        del self._segments[:count]
        del self._base_offsets[:count]
        return removed

    def remove_after(self, offset: int) -> list[Segment]:
        """Remove the segments that begin after `offset` and return them."""
        keep = self.place_of(offset) + 1
        assert keep > 0
        removed = self._segments[keep:]
        del self._segments[keep:]
        del self._base_offsets[keep:]
        self.active = self._segments[-1]
        return removed

    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def ends(self) -> Sequence[int | None]:
        """For each segment the base offset of the next one, None for the last."""
        return [*self._base_offsets[1:], None]
