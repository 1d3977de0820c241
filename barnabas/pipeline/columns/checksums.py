"""A 64-bit checksum of each record, and of many whatever their order. Pure.

Producers, topics and tables are compared by the sum of their records' checksums modulo 2**64: it does not depend on
the order, it can be added up from parts, and a record that is there twice counts twice, which xor would not notice.

The checksum of some bytes is the sum over their 8-byte words of `mix(word ^ salt of its position)`, mixed with their
length; one that is null has another than one that is empty. `mix` is the finaliser of SplitMix64 (Steele, Lea, Flood:
Fast Splittable Pseudorandom Number Generators, 2014). It finds mistakes, not malice: whoever wants to may make two
records of one checksum. What it gives for some bytes stands in tables and topics, and must stay as it is.

The work is done by numpy for thousands of records at once, without an object for each. PyArrow is used where arrays of
it come and is not imported, so that a producer needs none.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Checksums = NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR: Final = np.uint64(0x94D049BB133111EB)
_NULL: Final = np.uint64(0xA0761D6478BD642F)
_WORD_BYTES: Final = 8
_WORDS_AT_ONCE: Final = 1 << 14
"""128 KiB of words: what is computed on stays in the processor's cache."""


def content_checksums(keys: Any, values: Any) -> Checksums:
    """The checksum of key and value of each record, from two Arrow arrays of binaries (or texts) of one length."""
    assert len(keys) == len(values)
    return _of_pairs(_of_arrow(keys), _of_arrow(values))


def content_checksums_of(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Checksums:
    """The same of bytes objects."""
    assert len(keys) == len(values)
    return _of_pairs(_of_bytes(keys), _of_bytes(values))


def place_checksums(offsets: NDArray[np.int64], timestamps_ms: NDArray[np.int64]) -> Checksums:
    """The checksum of where a record stands in its partition and of its time."""
    return _mixed(_mixed(offsets.view(np.uint64) + _GOLDEN) + timestamps_ms.view(np.uint64))


def total(checksums: Checksums) -> int:
    """Their sum modulo 2**64."""
    return int(checksums.sum(dtype=np.uint64))


def sums_by_group(checksums: Checksums, groups: NDArray[np.int64], count: int) -> Checksums:
    """The sum modulo 2**64 for each of the groups 0 to `count`; `groups` says whose each checksum is."""
    sums = np.zeros(count, dtype=np.uint64)
    np.add.at(sums, groups, checksums)
    return sums


def as_signed(checksums: Checksums) -> NDArray[np.int64]:
    """The same bits as signed numbers, which tables have."""
    return checksums.view(np.int64)


def _of_pairs(keys: Checksums, values: Checksums) -> Checksums:
    return _mixed(keys * _FIRST_FACTOR + values + _GOLDEN)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, of each word."""
    mixed = words >> np.uint64(30)
    mixed ^= words
    mixed *= _FIRST_FACTOR
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _of_arrow(array: Any) -> Checksums:
    if array.type != "binary":
        array = array.cast("binary")
    if array.null_count == len(array):
        return np.full(len(array), _NULL, dtype=np.uint64)
    _, bounds, content = array.buffers()
    ends = np.frombuffer(bounds, dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.empty(0, dtype=np.uint8)
    checksums = _of_spans(data, ends[:-1], ends[1:] - ends[:-1])
    if array.null_count:
        checksums[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return checksums


def _of_bytes(each: Sequence[bytes | None]) -> Checksums:
    parts: Iterable[bytes] = (one or b"" for one in each)
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    sizes = np.fromiter((len(one or b"") for one in each), dtype=np.int64, count=len(each))
    checksums = _of_spans(data, np.cumsum(sizes) - sizes, sizes)
    checksums[[one is None for one in each]] = _NULL
    return checksums


def _of_spans(data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Checksums:
    """The checksum of each span of the bytes; `starts` rise."""
    sums = np.zeros(len(starts), dtype=np.uint64)
    words_before = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum((sizes + _WORD_BYTES - 1) // _WORD_BYTES, out=words_before[1:])
    for first in range(0, int(words_before[-1]), _WORDS_AT_ONCE):
        end = min(first + _WORDS_AT_ONCE, int(words_before[-1]))
        _add_words(sums, data, starts, sizes, words_before, first=first, end=end)
    return _mixed(sums + sizes.view(np.uint64) * _GOLDEN)


def _add_words(
    sums: Checksums,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    words_before: NDArray[np.int64],
    *,
    first: int,
    end: int,
) -> None:
    """Add what the words `[first, end)`, counted over all spans, contribute to their spans."""
    head = int(np.searchsorted(words_before, first, side="right")) - 1
    tail = int(np.searchsorted(words_before, end, side="left"))
    before = words_before[head:tail]
    begins = np.maximum(before, first)
    counts = np.minimum(words_before[head + 1 : tail + 1], end) - begins
    numbers = np.arange(first, end, dtype=np.int64)
    words = _load(data, np.repeat(starts[head:tail] - before * _WORD_BYTES, counts) + numbers * _WORD_BYTES)
    # What a span's last word holds of the bytes behind it does not count.
    cut = (sizes[head:tail] % _WORD_BYTES != 0) & (words_before[head + 1 : tail + 1] <= end)
    bits = (sizes[head:tail][cut] % _WORD_BYTES * _WORD_BYTES).astype(np.uint64)
    words[words_before[head + 1 : tail + 1][cut] - 1 - first] &= (np.uint64(1) << bits) - np.uint64(1)
    words ^= (numbers - np.repeat(before, counts) + 1).view(np.uint64) * _GOLDEN
    occupied = counts > 0
    sums[head:tail][occupied] += np.add.reduceat(_mixed(words), (begins - first)[occupied], dtype=np.uint64)


def _load(data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The 8 bytes from each place on, the first one lowest; past the end stand zeros."""
    low, high = int(at[0]), min(int(at[-1]) + _WORD_BYTES, len(data))
    piece = np.zeros(high - low + _WORD_BYTES, dtype=np.uint8)
    piece[: high - low] = data[low:high]
    windows = np.ndarray(shape=(len(piece) - _WORD_BYTES + 1,), dtype="<u8", buffer=piece, strides=(1,))
    return windows[at - low].astype(np.uint64, copy=False)
