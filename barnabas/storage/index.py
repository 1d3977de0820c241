"""The offset index and the time index of a segment (`.index`, `.timeindex`), in memory and on disk.

The index of a segment that still grows is a pair of arrays; `encode` gives the bytes that its file lacks. A closed
segment's index stays on disk and is searched by pread. An index is sparse and can always be built again from the log:
it is never a reason to lose a record. Offsets in here are relative to the segment's base offset.

An entry of the offset index holds the last offset of a batch and the position where that batch starts; one of the time
index the greatest timestamp up to a batch and the last offset of the batch that had it first. Kafka preallocates the
files of an active segment, so that after a crash their tail is zeros, which are no entries.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import ge, gt
from struct import Struct
from typing import Final

from barnabas.runtime.files import File

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")

_BLOCK_ENTRIES: Final = 64


class CorruptIndex(Exception):
    """The content cannot be an index of its segment."""


class PointsBehindEnd(CorruptIndex):
    """An entry points to a batch behind the segment's end: most likely the segment was longer once."""


class OffsetIndex:
    """From offsets to positions, in memory."""

    __slots__ = ("_positions", "offsets")

    def __init__(self) -> None:
        self.offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry; its offset is greater than that of any before."""
        self.offsets.append(relative_offset)
        self._positions.append(position)

    def lookup(self, relative_offset: int) -> int:
        """The position of the last entry at or before the offset: a scan from there meets it. 0 without an entry."""
        at = bisect_right(self.offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def position_from(self, relative_offset: int) -> int:
        """The position of the first entry at or after the offset; 0 without one."""
        at = bisect_left(self.offsets, relative_offset)
        return self._positions[at] if at < len(self._positions) else 0

    def offset_from(self, position: int) -> int | None:
        """The offset of the first entry that points at or after `position`."""
        at = bisect_left(self._positions, position)
        return self.offsets[at] if at < len(self.offsets) else None

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def truncate_to(self, relative_offset: int) -> None:
        """Remove the entries whose batch reaches to `relative_offset` or over it."""
        at = bisect_left(self.offsets, relative_offset)
        del self.offsets[at:]
        del self._positions[at:]

    def encode(self, first: int = 0) -> bytes:
        """The entries from the `first`th on, as they stand in the file."""
        entries = array("i", bytes(8 * (len(self.offsets) - first)))
        entries[0::2] = self.offsets[first:]
        entries[1::2] = self._positions[first:]
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, data: bytes, *, log_bytes: int) -> "OffsetIndex":
        """Read a file's content; a tail of zeros is dropped. Raises CorruptIndex when it cannot be true of the log."""
        entries = array("i", data[: len(data) - len(data) % OFFSET_ENTRY.size])
        if sys.byteorder == "little":
            entries.byteswap()
        index = cls()
        index.offsets, index._positions = entries[0::2], entries[1::2]
        count = len(index.offsets)
        while count > 1 and not index.offsets[count - 1] and not index._positions[count - 1]:
            count -= 1
        # The first append of a segment gets no entry, so a lone entry of zeros is padding too.
        if count == 1 and not index._positions[0]:
            count = 0
        del index.offsets[count:]
        del index._positions[count:]
        if any(map(ge, index.offsets, index.offsets[1:])) or any(map(ge, index._positions, index._positions[1:])):
            raise CorruptIndex("the entries do not rise")
        if count and (index.offsets[0] < 0 or index._positions[0] < 0 or index._positions[-1] >= log_bytes):
            raise CorruptIndex(f"an entry points to byte {index._positions[-1]} of a log of {log_bytes}")
        return index


class TimeIndex:
    """From timestamps to offsets, in memory."""

    __slots__ = ("_timestamps", "offsets")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last(self) -> tuple[int, int] | None:
        """The last entry: (timestamp, relative offset)."""
        return (self._timestamps[-1], self.offsets[-1]) if self.offsets else None

    def maybe_append(self, timestamp: int, relative_offset: int) -> bool:
        """Add an entry if its timestamp is greater than any before."""
        timestamps = self._timestamps
        if timestamp < 0 or (timestamps and timestamp <= timestamps[-1]):
            return False
        timestamps.append(timestamp)
        self.offsets.append(relative_offset)
        return True

    def lookup(self, timestamp: int) -> int:
        """The relative offset up to which no record but that entry's own reaches `timestamp`; 0 without an entry."""
        at = bisect_right(self._timestamps, timestamp)
        return self.offsets[at - 1] if at else 0

    def last_below(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry before `relative_offset`: (timestamp, relative offset)."""
        at = bisect_left(self.offsets, relative_offset)
        return (self._timestamps[at - 1], self.offsets[at - 1]) if at else None

    def truncate_to(self, relative_offset: int) -> None:
        """Remove the entries at or after `relative_offset`."""
        at = bisect_left(self.offsets, relative_offset)
        del self.offsets[at:]
        del self._timestamps[at:]

    def encode(self, first: int = 0) -> bytes:
        """The entries from the `first`th on, as they stand in the file."""
        timestamps, offsets = self._timestamps[first:], self.offsets[first:]
        if sys.byteorder == "little":
            timestamps.byteswap()
            offsets.byteswap()
        entries = bytearray(TIME_ENTRY.size * len(offsets))
        # Column by column: a loop over the entries would take a hundred times longer.
        for column, data in ((range(8), timestamps.tobytes()), (range(8, 12), offsets.tobytes())):
            for byte in column:
                entries[byte :: TIME_ENTRY.size] = data[byte - column.start :: len(column)]
        return bytes(entries)

    @classmethod
    def decode(cls, data: bytes) -> "TimeIndex":
        """Read a file's content; a tail of zeros is dropped. Raises CorruptIndex."""
        end = len(data) - len(data) % TIME_ENTRY.size
        while end and not any(data[end - TIME_ENTRY.size : end]):
            end -= TIME_ENTRY.size
        index = cls()
        index._timestamps.frombytes(_columns(data[:end], range(8)))
        index.offsets.frombytes(_columns(data[:end], range(8, 12)))
        if sys.byteorder == "little":
            index._timestamps.byteswap()
            index.offsets.byteswap()
        if (
            (end and (index._timestamps[0] < 0 or index.offsets[0] < 0))
            or any(map(ge, index._timestamps, index._timestamps[1:]))
            or any(map(gt, index.offsets, index.offsets[1:]))
        ):
            raise CorruptIndex("the entries do not rise")
        return index


def _columns(data: bytes, column: range) -> bytes:
    taken = bytearray(len(data) // TIME_ENTRY.size * len(column))
    for byte in column:
        taken[byte - column.start :: len(column)] = data[byte :: TIME_ENTRY.size]
    return bytes(taken)


class StoredIndex:
    """A closed segment's index of either kind, searched in its file.

    `keys` says which of an entry's two numbers is searched: both rise from entry to entry.
    """

    __slots__ = ("_count", "_entry", "_file")

    def __init__(self, file: File, entry: Struct) -> None:
        self._file = file
        self._entry = entry
        self._count = self._count_entries(file.size() // entry.size)

    def __len__(self) -> int:
        return self._count

    @property
    def last(self) -> tuple[int, int] | None:
        return self.entry(self._count - 1) if self._count else None

    def close(self) -> None:
        self._file.close()

    def entry(self, slot: int) -> tuple[int, int]:
        """The two numbers of an entry. Raises CorruptIndex when the file became shorter."""
        size = self._entry.size
        data = self._file.pread(size, slot * size)
        if len(data) < size:
            raise CorruptIndex(f"entry {slot} of {self._count} is not there")
        first, second = self._entry.unpack(data)
        return first, second

    def last_at_most(self, key: int) -> tuple[int, int] | None:
        """The last entry whose first number is at most `key`."""
        slot = self._first_slot_over(key, field=0)
        return self.entry(slot - 1) if slot else None

    def first_at_least(self, value: int) -> tuple[int, int] | None:
        """The first entry whose second number is at least `value`."""
        slot = self._first_slot_over(value - 1, field=1)
        return self.entry(slot) if slot < self._count else None

    def _first_slot_over(self, target: int, *, field: int) -> int:
        low, high = 0, self._count
        while high - low > _BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        size = self._entry.size
        data = self._file.pread((high - low) * size, low * size)
        for slot, entry in enumerate(self._entry.iter_unpack(data[: len(data) - len(data) % size]), low):
            if entry[field] > target:
                return slot
        return high

    def _count_entries(self, slots: int) -> int:
        """How many of the file's slots come before its tail of zeros."""
        self._count = slots
        low, high = 0, slots
        if slots and any(self.entry(slots - 1)):
            return slots
        while low < high:
            middle = (low + high) // 2
            if any(self.entry(middle)):
                low = middle + 1
            else:
                high = middle
        return low
