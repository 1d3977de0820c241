"""Varints of many rows at once, written into one buffer: one numpy step per byte of the longest. Pure."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_LIMITS: Final = np.array([1 << 7 * size for size in range(1, 10)], dtype=np.uint64)
"""The first numbers that take 2, 3 ... 10 bytes."""


def zigzag(numbers: Numbers) -> NDArray[np.uint64]:
    """Signed numbers as unsigned ones, the small ones small."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def varint_sizes(encoded: NDArray[np.uint64]) -> Numbers:
    """How many bytes each varint takes: 1 to 10."""
    if not encoded.size or int(encoded.max()) < _LIMITS[0]:
        return np.ones(len(encoded), dtype=np.int64)
    return np.searchsorted(_LIMITS, encoded, side="right") + 1


def write_varints(fields: Sequence[NDArray[np.uint64]]) -> pa.BinaryArray:
    """For each row the varints of its fields one after the other, as one array of bytes."""
    sizes = [varint_sizes(field) for field in fields]
    count = len(fields[0])
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(sum(sizes), out=bounds[1:])
    data = np.empty(int(bounds[-1]), dtype=np.uint8)
    at = bounds[:-1].copy()
    for field, size in zip(fields, sizes, strict=True):
        _write(data, at, field, size)
        at += size
    return binaries(data, bounds)


def _write(data: NDArray[np.uint8], at: Numbers, field: NDArray[np.uint64], sizes: Numbers) -> None:
    longest = int(sizes.max(initial=0))
    if longest <= 1:
        data[at] = field
        return
    left, places, values = sizes, at, field
    while len(left):
        goes_on = left > 1
        data[places] = (values & np.uint64(0x7F)) | (goes_on.astype(np.uint64) << np.uint64(7))
        left, places, values = left[goes_on] - 1, places[goes_on] + 1, values[goes_on] >> np.uint64(7)


def binaries(data: NDArray[np.uint8] | pa.Buffer, bounds: Numbers) -> pa.BinaryArray:
    """The bytes between each two bounds. Nothing of them is copied."""
    assert bounds[-1] < 1 << 31, "an Arrow array of bytes ends at 2 GiB"
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)])


def bounds_of(array: pa.BinaryArray) -> Numbers:
    """Where each of its values starts in its data, and where the last one ends."""
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    _, offsets, _ = array.buffers()
    first = array.offset
    return np.frombuffer(offsets, dtype=np.int32)[first : first + len(array) + 1].astype(np.int64)


def lengths_of(array: pa.BinaryArray) -> Numbers:
    """The length of each value, -1 where it is null."""
    lengths = np.diff(bounds_of(array))
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths
