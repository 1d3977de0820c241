"""Zigzag varints of many records at once: one numpy step per byte of the longest, not one Python step per number. Pure.

Positions point into an array of bytes that is padded: a varint that starts within the records may be read past their
end by `PADDING_BYTES` at most, and who knows where a record ends finds out afterwards that it was left.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PADDING_BYTES: Final = 64
"""A record is left by its fixed fields at most so far before its length is looked at: 1 + 1 + 10 + 5 + 5 bytes."""

_MOST_BYTES: Final = {32: 5, 64: 10}


class BadRecord(Exception):
    """The `index`th of many records cannot be read."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


def refuse(bad: NDArray[np.bool_], reason: str) -> None:
    """Raise BadRecord for the first record that is marked, if one is."""
    if bad.any():
        raise BadRecord(int(bad.argmax()), reason)


def read_varints(data: Bytes, at: Positions, bits: int) -> tuple[NDArray[np.int64], Positions]:
    """The numbers at these positions and the positions after them. Raises BadRecord for one over `bits` bits."""
    byte = data[at]
    more = byte > 127
    if not more.any():
        value = byte.astype(np.int64)
        return (value >> 1) ^ -(value & 1), at + 1
    if more.all():
        second = data[at + 1]
        if not (second > 127).any():
            value = (byte & 0x7F).astype(np.int64) | second.astype(np.int64) << 7
            return (value >> 1) ^ -(value & 1), at + 2
    return _read_mixed(data, at, byte, bits)


def _read_mixed(data: Bytes, at: Positions, first: Bytes, bits: int) -> tuple[NDArray[np.int64], Positions]:
    """Numbers of different sizes: those that go on are fewer with every byte."""
    value = (first & 0x7F).astype(np.uint64)
    after = at + 1
    longer = np.flatnonzero(first > 127)
    shift = 7
    for nth in range(2, _MOST_BYTES[bits] + 1):
        if not longer.size:
            break
        byte = data[after[longer]]
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        if nth == _MOST_BYTES[bits]:
            # The last byte of so many has room for the last bits only.
            over = longer[byte >> (bits - shift) != 0]
            if over.size:
                raise BadRecord(int(over[0]), f"a varint does not fit {bits} bits")
        longer = longer[byte > 127]
        shift += 7
    half = (value >> np.uint64(1)).astype(np.int64)
    return half ^ -(value & np.uint64(1)).astype(np.int64), after


def skip_varints(data: Bytes, at: Positions, bits: int) -> Positions:
    """The positions after the numbers at these positions, which nobody asked for. Raises BadRecord."""
    after = at + 1
    longer = np.flatnonzero(data[at] > 127)
    for _ in range(2, _MOST_BYTES[bits] + 1):
        if not longer.size:
            return after
        byte = data[after[longer]]
        after[longer] += 1
        longer = longer[byte > 127]
    if longer.size:
        raise BadRecord(int(longer[0]), f"a varint does not fit {bits} bits")
    return after
