"""Which topics a consumer subscribes to, read from its metadata in the protocol type "consumer". Pure.

Only the part that all versions of the consumer protocol begin with is read: a version of two bytes and the topics.
Numbers are big endian. Other protocol types keep what they like in their metadata, and nobody here looks into it.
"""

import struct
from typing import Final

CONSUMER: Final = "consumer"
_HEAD: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics, or None where this is no subscription."""
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics: list[str] = []
        at = _HEAD.size
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if not 0 <= size <= len(metadata) - at:
                return None
            topics.append(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
