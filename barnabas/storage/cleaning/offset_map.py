"""From the hash of a key to the last offset at which the dirty part of a log has it.

An open hash table in three columns, 24 bytes a slot, of a size that is fixed when it is made. It never drops an entry:
`insert` stops before the first record that would pass the bound, and what lies below that record is all in the map.
Slots are probed by double hashing over a prime number of them, for many keys at once.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from barnabas.storage.cleaning.key_hash import Hashes, Ints

SLOT_BYTES: Final = 24
_FREE: Final = -1
_FULLEST: Final = 0.75
"""How full a table is made to get, where the bound on its memory does not ask for more."""


class OffsetMap:
    """The map of one cleaning: at most `capacity` keys."""

    __slots__ = ("_count", "_high", "_low", "_newest", "_offsets", "_slots", "_steps", "capacity")

    def __init__(self, *, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """Take at most `max_bytes`, of which `load_factor` gets filled, and no more than `expected_keys` may need."""
        most_slots = _prime_at_most(max(max_bytes // SLOT_BYTES, 3))
        most_keys = min(max(int(most_slots * load_factor), 1), most_slots - 1)
        self.capacity = max(min(most_keys, expected_keys), 1)
        slots = min(most_slots, _prime_at_most(max(int(self.capacity / _FULLEST) + 64, 3)))
        assert self.capacity < slots
        self._slots = np.uint64(slots)
        self._steps = np.uint64(slots - 1)
        self._high = np.zeros(slots, np.uint64)
        self._low = np.zeros(slots, np.uint64)
        self._offsets = np.full(slots, _FREE, np.int64)
        self._count = 0
        self._newest = -1

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        return int(self._slots) * SLOT_BYTES

    def insert(self, hashes: Hashes, offsets: Ints) -> int:
        """Note where keys are, in the order of their offsets, which rise from call to call too.

        Returns how many of the records the map has taken in: all of them, or those before the one that has no room.
        """
        if len(offsets) == 0:
            return 0
        assert offsets[0] > self._newest
        assert (offsets[1:] > offsets[:-1]).all()
        taken = self._room_for(hashes, len(offsets))
        self._put(hashes[0][:taken], hashes[1][:taken], offsets[:taken])
        if taken:
            self._newest = int(offsets[taken - 1])
        return taken

    def find(self, hashes: Hashes) -> Ints:
        """The offsets of these keys; -1 for a key that is not in the map."""
        high, low = hashes
        found = np.full(len(high), _FREE, np.int64)
        pending = np.arange(len(high))
        slot, step = self._first_slot(high), self._step(low)
        while len(pending):
            offsets = self._offsets[slot]
            is_match = (self._high[slot] == high) & (self._low[slot] == low)
            found[pending[is_match]] = offsets[is_match]
            rest = np.flatnonzero(~is_match & (offsets != _FREE))
            pending, high, low, step = pending[rest], high[rest], low[rest], step[rest]
            slot = (slot[rest] + step) % self._slots
        return found

    def _room_for(self, hashes: Hashes, count: int) -> int:
        room = self.capacity - self._count
        if count <= room:
            return count
        new = np.flatnonzero(self.find(hashes) == _FREE)
        keys = np.stack((hashes[0][new], hashes[1][new]), axis=1).view("V16")[:, 0]
        firsts = np.sort(new[np.unique(keys, return_index=True)[1]])
        return count if len(firsts) <= room else int(firsts[room])

    def _put(self, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64], offsets: Ints) -> None:
        slot, step = self._first_slot(high), self._step(low)
        while len(offsets):
            # Where several records want one slot the last of them gets it, which is the newest of its key, too.
            free = np.flatnonzero(self._offsets[slot] == _FREE)
            wanted = slot[free]
            self._offsets[wanted] = offsets[free]
            self._high[wanted], self._low[wanted] = high[free], low[free]
            self._count += int(np.count_nonzero(self._offsets[wanted] == offsets[free]))
            is_match = (self._high[slot] == high) & (self._low[slot] == low)
            self._offsets[slot[is_match]] = offsets[is_match]
            rest = np.flatnonzero(~is_match)
            high, low, offsets, step = high[rest], low[rest], offsets[rest], step[rest]
            slot = (slot[rest] + step) % self._slots

    def _first_slot(self, high: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return high % self._slots

    def _step(self, low: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return low % self._steps + np.uint64(1)


def _prime_at_most(number: int) -> int:
    while not _is_prime(number):
        number -= 1
    return number


def _is_prime(number: int) -> bool:
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return number > 1
