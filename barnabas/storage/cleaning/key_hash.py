"""Hashes of record keys, 128 bits each, for many records at once.

Two different keys get the same hash with a chance of 2**-128, whoever chose them: the functions are drawn with a secret
for each cleaning. Up to 256 bytes a key is hashed by four strongly universal functions of 32 bits (multilinear hashing,
Lemire and Kaser, "Strongly universal string hashing is fast"): its words, with its length before them, times random
coefficients. Longer keys go through keyed BLAKE2b one by one.
"""

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Hashes = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

_WORD_BYTES: Final = 4
_CLASS_BYTES: Final = 16
_LONGEST_BYTES: Final = 256
_FUNCTIONS: Final = 4
_HIGH_HALF: Final = np.uint64(32)


class KeyHash:
    """The hash functions of one cleaning."""

    __slots__ = ("_coefficients", "_secret")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) >= 16
        self._secret = secret[:64]
        rows = 2 + _LONGEST_BYTES // _WORD_BYTES
        drawn = hashlib.shake_256(secret).digest(rows * _FUNCTIONS * 8)
        self._coefficients = np.frombuffer(drawn, "<u8").astype(np.uint64).reshape(rows, _FUNCTIONS)

    def of(self, data: Bytes, key_at: Ints, key_bytes: Ints) -> Hashes:
        """The hashes of the keys that lie in `data` at these positions, in two columns of 64 bits."""
        if len(key_at) == 0:
            return np.empty(0, np.uint64), np.empty(0, np.uint64)
        classes = (key_bytes + (_CLASS_BYTES - 1)) // _CLASS_BYTES
        shortest, longest = int(classes.min()), int(classes.max())
        if shortest == longest:
            return self._class(data, key_at, key_bytes, longest)
        high = np.empty(len(key_at), np.uint64)
        low = np.empty(len(key_at), np.uint64)
        for size_class in np.unique(classes).tolist():
            members = np.flatnonzero(classes == size_class)
            high[members], low[members] = self._class(data, key_at[members], key_bytes[members], size_class)
        return high, low

    def _class(self, data: Bytes, key_at: Ints, key_bytes: Ints, size_class: int) -> Hashes:
        width = size_class * _CLASS_BYTES
        if width > _LONGEST_BYTES:
            return self._long(data, key_at, key_bytes)
        return self._short(data, key_at, key_bytes, width)

    def _short(self, data: Bytes, key_at: Ints, key_bytes: Ints, width: int) -> Hashes:
        coefficients = self._coefficients
        sums = key_bytes.astype(np.uint64)[:, None] * coefficients[1] + coefficients[0]
        if width:
            columns = np.arange(width)
            keys = np.take(data, key_at[:, None] + columns, mode="clip")
            if (key_bytes != width).any():
                keys[columns >= key_bytes[:, None]] = 0
            words = keys.view("<u4").astype(np.uint64)
            sums += words @ coefficients[2 : 2 + width // _WORD_BYTES]
        halves = sums >> _HIGH_HALF
        return halves[:, 0] << _HIGH_HALF | halves[:, 1], halves[:, 2] << _HIGH_HALF | halves[:, 3]

    def _long(self, data: Bytes, key_at: Ints, key_bytes: Ints) -> Hashes:
        view = data.data
        digests = b"".join(
            hashlib.blake2b(view[at : at + size], digest_size=16, key=self._secret).digest()
            for at, size in zip(key_at.tolist(), key_bytes.tolist(), strict=True)
        )
        columns = np.frombuffer(digests, "<u8").astype(np.uint64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]
