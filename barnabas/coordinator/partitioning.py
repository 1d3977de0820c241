"""Which partition of an internal topic has a group or a transactional id. Pure.

Kafka's `abs(name.hashCode()) % partitions`: every broker and every tool has to agree.
"""

from typing import Final

_BITS_32: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000


def coordinator_partition(name: str, partition_count: int) -> int:
    """The partition for `name` of a topic with `partition_count` (at least 1) of them."""
    return _positive(java_hash(name)) % partition_count


def java_hash(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in signed 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _BITS_32
    return value - (_BITS_32 + 1) if value & _SIGN else value


def _positive(value: int) -> int:
    """Kafka's `Utils.abs`: the least int has no opposite, and counts as 0."""
    return 0 if value == -_SIGN else abs(value)
