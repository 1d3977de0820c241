"""Where the records of a batch begin: a walk over their length prefixes. Pure.

Of a record only its length is read here. Records of one size, which activity streams are full of, are found many at a
time: where the prefix of the first stands again after each stride, there is a record. Where the sizes differ the walk
goes from record to record in Python, which takes 0.2 µs each, and tries the other way again less and less often.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from barnabas.pipeline.columns.varints import Bytes, Positions
from barnabas.protocol.batch import InvalidRecord

_LEAST_RUN: Final = 16
_LEAST_SINGLE_STEPS: Final = 64
_MOST_SINGLE_STEPS: Final = 1 << 20
_MOST_LENGTH_BYTES: Final = 5


class Walked(NamedTuple):
    """Whole records: where each begins, where the last one ends, and how many bytes the next one lacks at least.

    `missing_bytes` is 0 where the bytes end with a record or all records were found.
    """

    starts: Positions
    end: int
    missing_bytes: int


class RecordWalker:
    """Finds records; remembers between batches whether their sizes were the same."""

    __slots__ = ("_single_steps",)

    def __init__(self) -> None:
        self._single_steps = _LEAST_SINGLE_STEPS

    def walk(self, content: bytes, array: Bytes, begin: int, *, end: int, count: int) -> Walked:
        """The records between `begin` and `end`, `count` of them at most. `array` is `content`. Raises InvalidRecord.

        A length below 0 is not noticed here; the walk goes on by its amount.
        """
        found: list[NDArray[np.int64]] = []
        at, left, missing = begin, count, 0
        while left and at < end and not missing:
            run = self._run(content, array, at, end=end, most=left)
            if run is not None:
                found.append(run[0])
                at = run[1]
                left -= len(run[0])
                self._single_steps = _LEAST_SINGLE_STEPS
                continue
            starts, at, missing = _walk_singly(content, at, end, min(left, self._single_steps))
            found.append(np.array(starts, dtype=np.int64))
            left -= len(starts)
            self._single_steps = min(2 * self._single_steps, _MOST_SINGLE_STEPS)
        starts_found = found[0] if len(found) == 1 else np.concatenate(found) if found else _NONE
        return Walked(starts_found, at, missing)

    def _run(self, content: bytes, array: Bytes, at: int, *, end: int, most: int) -> tuple[Positions, int] | None:
        """The records from `at` on that have the prefix of the first, and where the last ends; None for few."""
        first = content[at]
        if first < 128:
            width, stride = 1, 1 + (first >> 1)
        else:
            second = content[at + 1]
            if second > 127:
                return None  # records of 8 KB: few fit a batch
            width, stride = 2, 2 + ((first & 0x7F | second << 7) >> 1)
        fitting = min(most, (end - at) // stride)
        if fitting < _LEAST_RUN:
            return None
        last = at + (fitting - 1) * stride + 1
        same = array[at:last:stride] == first
        if width == 2:
            same &= array[at + 1 : last + 1 : stride] == content[at + 1]
        length = fitting if same.all() else int(same.argmin())
        if length < _LEAST_RUN:
            return None
        return np.arange(at, at + length * stride, stride, dtype=np.int64), at + length * stride


_NONE: Final = np.empty(0, dtype=np.int64)


def _walk_singly(content: bytes, at: int, end: int, most: int) -> tuple[list[int], int, int]:
    """Some records one by one: where they begin, where the last one ends, how many bytes the next one lacks."""
    starts: list[int] = []
    add = starts.append
    start = at
    for _ in range(most):
        if at >= end:
            break
        start = at
        byte = content[at]
        if byte < 128:
            at += 1 + (byte >> 1)
        else:
            second = content[at + 1]
            if second < 128:
                at += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                at = _after_long(content, at, end)
        add(start)
    if at > end:
        starts.pop()
        return starts, start, at - end
    return starts, at, 0


def _after_long(content: bytes, at: int, end: int) -> int:
    """Where the record ends whose length takes more than two bytes; past `end` where the length itself does."""
    length = 0
    for nth in range(_MOST_LENGTH_BYTES):
        if at + nth >= end:
            return end + 1
        byte = content[at + nth]
        length |= (byte & 0x7F) << 7 * nth
        if byte < 128:
            return at + nth + 1 + (length >> 1)
    raise InvalidRecord("a varint does not fit 32 bits")
