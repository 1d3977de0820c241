"""Pre-encoded requests, so that a load generator does no work that could be the limit of what it measures."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.records import Record, build_batch

PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 4
_CLIENT: Final = b"bench"


@dataclass(frozen=True, slots=True)
class ProduceLoad:
    """One Produce request as bytes with its size, and what it carries."""

    frame: bytes
    records: int
    record_bytes: int

    @property
    def payload_bytes(self) -> int:
        return self.records * self.record_bytes


def _text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def _framed(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhi", api_key, version, 1) + _text(_CLIENT)
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce(topic: str, partition: int, *, records: int, record_bytes: int, acks: int = 1) -> ProduceLoad:
    """A Produce of one batch of equal records; without a producer id, so it may be sent again and again."""
    batch = build_batch([Record(index, 1_700_000_000_000, None, b"x" * record_bytes, ()) for index in range(records)])
    body = struct.pack(">hhi", -1, acks, 30_000) + struct.pack(">i", 1) + _text(topic.encode())
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return ProduceLoad(_framed(0, PRODUCE_VERSION, body), records, record_bytes)


def fetch(topic: str, partitions: Iterable[tuple[int, int]], *, max_bytes: int) -> bytes:
    """A Fetch of (partition, offset) pairs that does not wait."""
    wanted = list(partitions)
    body = struct.pack(">iiiib", -1, 0, 0, max_bytes, 0) + struct.pack(">i", 1) + _text(topic.encode())
    body += struct.pack(">i", len(wanted))
    for partition, offset in wanted:
        body += struct.pack(">iqi", partition, offset, max_bytes)
    return _framed(1, FETCH_VERSION, body)
