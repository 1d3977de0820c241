"""Which partition a record goes to: by its key as Kafka's own clients choose, or by chance where it has none.

A key's partition is murmur2 of its bytes, without its sign bit, modulo the number of partitions. Records without a key
stick to one partition until its batch is closed (KIP-480), so that batches are large.
"""

import random
from struct import Struct
from typing import Final, Protocol

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
_WORD: Final = Struct("<I")

_KEYS_KEPT: Final = 4096
_LONGEST_KEY_KEPT: Final = 128


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with Kafka's seed, unsigned."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for (word,) in _WORD.iter_unpack(memoryview(data)[:whole]):
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a key among `partitions`."""
    return (murmur2(key) & _POSITIVE) % partitions


class Partitioner(Protocol):
    """Chooses a partition for each record; a producer may be given one."""

    def choose(self, topic: str, key: bytes | None, partitions: int) -> int:
        """The partition for a record, 0 to `partitions` - 1."""
        ...

    def on_batch_closed(self, topic: str, partition: int, partitions: int) -> None:
        """A batch for a partition takes no more records."""
        ...


class DefaultPartitioner:
    """Chooses partitions of topics; remembers where records without a key go at the moment."""

    __slots__ = ("_hashes", "_random", "_sticking")

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self._sticking: dict[str, int] = {}
        # Keys come again, and hashing one takes as long as the rest of sending its record.
        self._hashes: dict[bytes, int] = {}

    def choose(self, topic: str, key: bytes | None, partitions: int) -> int:
        """The partition for a record."""
        if key is not None:
            hashed = self._hashes.get(key)
            if hashed is None:
                hashed = murmur2(key) & _POSITIVE
                if len(self._hashes) >= _KEYS_KEPT:
                    self._hashes.clear()
                if len(key) <= _LONGEST_KEY_KEPT:
                    self._hashes[key] = hashed
            return hashed % partitions
        chosen = self._sticking.get(topic, partitions)
        if chosen >= partitions:
            chosen = self._sticking[topic] = self._random.randrange(partitions)
        return chosen

    def on_batch_closed(self, topic: str, partition: int, partitions: int) -> None:
        """A partition's batch takes no more: records without a key that went there go to another one, if there is."""
        if self._sticking.get(topic) == partition and partitions > 1:
            self._sticking[topic] = (partition + 1 + self._random.randrange(partitions - 1)) % partitions
