"""The hash by which Kafka's clients choose a key's partition, of many keys at once. Pure.

It is murmur2 with Kafka's seed, 32 bits (`barnabas/client/partitioner.py` has it for one key). One numpy step per word
of the longest key, over those keys that have so many.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barnabas.pipeline.columns.varint_writing import bounds_of

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_WORD_BYTES: Final = 4


def partitions_of_keys(keys: pa.BinaryArray, partitions: int) -> NDArray[np.int64]:
    """The partition of each key among `partitions`; what is said of a null key means nothing."""
    return ((murmur2_of_keys(keys) & _POSITIVE) % np.uint32(partitions)).astype(np.int64)


def murmur2_of_keys(keys: pa.BinaryArray) -> NDArray[np.uint32]:
    """The hash of each key; that of a null one means nothing."""
    if not len(keys):
        return np.zeros(0, dtype=np.uint32)
    bounds = bounds_of(keys)
    starts, lengths = bounds[:-1], np.diff(bounds)
    # What is read past the last key's end is masked away.
    low, high = int(bounds[0]), int(bounds[-1])
    content = keys.buffers()[2]
    data = np.zeros(high - low + _WORD_BYTES, dtype=np.uint8)
    if content is not None:
        data[: high - low] = np.frombuffer(content, dtype=np.uint8)[low:high]
    words = np.ndarray(shape=(high - low + 1,), dtype="<u4", buffer=data, strides=(1,))
    at = starts - low
    hashes = lengths.astype(np.uint32) ^ _SEED
    whole = lengths // _WORD_BYTES
    rows = np.flatnonzero(whole)
    nth = 0
    while len(rows):
        word = words[at[rows] + nth * _WORD_BYTES] * _MULTIPLIER
        word = (word ^ word >> np.uint32(24)) * _MULTIPLIER
        hashes[rows] = (hashes[rows] * _MULTIPLIER) ^ word
        nth += 1
        rows = rows[whole[rows] > nth]
    rest = lengths % _WORD_BYTES
    rows = np.flatnonzero(rest)
    left = words[at[rows] + whole[rows] * _WORD_BYTES]
    left &= (np.uint32(1) << (rest[rows] * 8).astype(np.uint32)) - np.uint32(1)
    hashes[rows] = (hashes[rows] ^ left) * _MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)
