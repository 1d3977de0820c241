"""Pre-encoded requests, so that a load generator does no work that could be the limit of what it measures."""

import random
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from barnabas.protocol.batch import Codec
from barnabas.protocol.records import Record, build_batch

PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 4
_CLIENT: Final = b"bench"
_LETTERS: Final = "etaoinshr"


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


@lru_cache
def values(count: int, record_bytes: int) -> list[bytes]:
    """So many of few letters, so that a codec finds about as much as in text, and the same in every run."""
    chance = random.Random(1)
    return ["".join(chance.choices(_LETTERS, k=record_bytes)).encode() for _ in range(count)]


def produce(
    topic: str, partition: int, *, records: int, record_bytes: int, acks: int = 1, codec: Codec = Codec.NONE
) -> ProduceLoad:
    """A Produce of one batch of records; without a producer id, so it may be sent again and again.

    Its values are `values`, up to a hundred of them, round and round. The records' time is the present: what is older
    than `log.retention.hours` would be deleted while it is measured.
    """
    drawn = values(min(records, 100), record_bytes)
    now_ms = int(time.time() * 1000)
    told = [Record(index, now_ms, None, drawn[index % len(drawn)], ()) for index in range(records)]
    batch = build_batch(told, codec=codec)
    body = struct.pack(">hhi", -1, acks, 30_000) + struct.pack(">i", 1) + _text(topic.encode())
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return ProduceLoad(_framed(0, PRODUCE_VERSION, body), records, record_bytes)


def api_versions() -> bytes:
    """The cheapest question that every broker answers."""
    return _framed(18, 0, b"")


def produce_error(answer: bytes | bytearray, topic: str) -> int:
    """The error that a Produce of one partition got; `answer` is without its size."""
    # Before it: the correlation id, one topic with its name, one partition with its number.
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(error)


def fetch_error(answer: bytes | bytearray, topic: str) -> int:
    """The error that a Fetch of one partition got; `answer` is without its size."""
    # Before it: correlation id, throttle time, one topic with its name, one partition with its number.
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(topic) + 4 + 4)
    return int(error)


def fetch_overhead(topic: str) -> int:
    """Bytes of the answer to a Fetch of one partition that are not records, less the size in front."""
    # Correlation id, throttle time; one topic with its name; one partition: its number, error, high watermark, last
    # stable offset, aborted transactions (none), the records' length.
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8 + 8 + 4 + 4


def fetch(
    topic: str, partitions: Iterable[tuple[int, int]], *, max_bytes: int, max_wait_ms: int = 0, min_bytes: int = 0
) -> bytes:
    """A Fetch of (partition, offset) pairs that waits for `min_bytes`, unless told otherwise not at all."""
    wanted = list(partitions)
    body = (
        struct.pack(">iiiib", -1, max_wait_ms, min_bytes, max_bytes, 0) + struct.pack(">i", 1) + _text(topic.encode())
    )
    body += struct.pack(">i", len(wanted))
    for partition, offset in wanted:
        body += struct.pack(">iqi", partition, offset, max_bytes)
    return _framed(1, FETCH_VERSION, body)
