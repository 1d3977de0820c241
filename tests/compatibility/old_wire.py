"""A client of Kafka 0.8, 0.9 and 0.10 as bytes: its requests, each written down once, and what came back for each.

Before and between them a newer client writes a record batch to the same topic, so that each reads what the others
wrote. Nothing is compressed and all times lie in 2020: each byte of an answer is determined.
"""

from collections.abc import Iterator

from tests.support.raw_client import RawConnection

TOPIC = "old-wire"

_PRODUCE, _FETCH, _LIST_OFFSETS = 0, 1, 2

MESSAGES_V0 = bytes.fromhex(
    "0000000000000000 00000013 87a77ab2 0000 ffffffff 00000005 68656c6c6f"
    "0000000000000001 00000014 a8aa1cff 0000 00000001 6b 00000005 776f726c64"
)
"""`hello` without a key and `world` under the key `k`, in format 0."""
MESSAGE_V1 = bytes.fromhex("0000000000000000 0000001b 61df48e7 0100 00000174876e8000 ffffffff 00000005 68656c6c6f")
"""`hello` in format 1, from 2020-09-13."""
BATCH = bytes.fromhex(
    "0000000000000000 00000046 ffffffff 02 ed607beb 0000 00000001 00000174876e8000 00000174876e8001 ffffffffffffffff"
    "ffff ffffffff 00000002 0e0000000102610018000202026b02620202680276"
)
"""`a` without a key and `b` under the key `k` with the header h=v, in format 2."""


def play(bootstrap: str) -> dict[str, bytes]:
    """All the requests in order on one connection; the answers by the names of the requests."""
    host, _, port = bootstrap.rpartition(":")
    connection = RawConnection(host, int(port))
    try:
        return {name: _exchanged(connection, request) for name, request in requests()}
    finally:
        connection.close()


def exchange(bootstrap: str, request: bytes) -> bytes:
    """One request on a connection of its own."""
    host, _, port = bootstrap.rpartition(":")
    connection = RawConnection(host, int(port))
    try:
        return _exchanged(connection, request)
    finally:
        connection.close()


def requests() -> Iterator[tuple[str, bytes]]:
    """Name and frame of each."""
    yield "a batch by Produce 3", produce(3, BATCH)
    yield "two messages by Produce 0", produce(0, MESSAGES_V0)
    yield "two messages by Produce 1", produce(1, MESSAGES_V0)
    yield "a message by Produce 2", produce(2, MESSAGE_V1)
    yield "a batch by Produce 8", produce(8, BATCH)
    for version in range(5):
        for offset in (0, 1, 2, 3, 6, 8, 9):
            yield f"Fetch {version} from {offset}", fetch(version, TOPIC, offset)
        for max_bytes in (30, 100, 200):
            yield f"Fetch {version} of {max_bytes} bytes", fetch(version, TOPIC, 0, max_bytes=max_bytes)
    for version in (0, 1):
        for time in (-1, -2, 1_600_000_000_000):
            yield f"ListOffsets {version} at {time}", list_offsets(version, time)


def produce(version: int, records: bytes) -> bytes:
    transactional_id = b"\xff\xff" if version >= 3 else b""
    rest = b"\xff\xff" + (15_000).to_bytes(4, "big") + _one_topic(TOPIC) + b"\x00\x00\x00\x00" + _sized(records)
    return _head(_PRODUCE, version) + transactional_id + rest


def fetch(version: int, topic: str, offset: int, *, max_bytes: int = 1 << 16) -> bytes:
    rest = b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00" + b"\x00\x00\x00\x00"
    if version >= 3:
        rest += b"\x03\x00\x00\x00"
    if version >= 4:
        rest += b"\x00"
    rest += _one_topic(topic) + b"\x00\x00\x00\x00" + offset.to_bytes(8, "big")
    return _head(_FETCH, version) + rest + max_bytes.to_bytes(4, "big")


def list_offsets(version: int, time: int) -> bytes:
    rest = b"\xff\xff\xff\xff" + _one_topic(TOPIC) + b"\x00\x00\x00\x00" + time.to_bytes(8, "big", signed=True)
    return _head(_LIST_OFFSETS, version) + rest + (b"\x00\x00\x00\x0a" if version == 0 else b"")


def _head(api_key: int, version: int) -> bytes:
    return api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x07" + b"\x00\x03old"


def _one_topic(topic: str) -> bytes:
    return b"\x00\x00\x00\x01" + len(topic).to_bytes(2, "big") + topic.encode() + b"\x00\x00\x00\x01"


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _exchanged(connection: RawConnection, request: bytes) -> bytes:
    connection.send_frame(request)
    return connection.receive_frame()
