"""Message sets of formats 0 and 1, built and read without the product's own code for them.

An entry is offset, size, CRC-32, magic, attributes, in format 1 a timestamp, key and value. The value of an entry with
a codec is a message set of its own, compressed: in format 0 by offsets of the log, in format 1 counted from 0 with the
log's offset of the last one outside.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.protocol.batch import Codec, CorruptBatch
from barnabas.protocol.compression import compress, decompress
from tests.differential.batches import T0_MS

_ENTRY = struct.Struct(">qiIbb")
_ENTRY_HEAD_BYTES = 12
_SHORTEST_BYTES = 14
_MAX_INFLATED_BYTES = 1 << 24
_CODEC_MASK = 7


def message(
    magic: int,
    value: bytes | None,
    *,
    offset: int = 0,
    key: bytes | None = None,
    timestamp_ms: int = T0_MS,
    attributes: int = 0,
) -> bytes:
    """One entry."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp_ms)
    body += _sized(key) + _sized(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def messages(magic: int, *values: bytes | None, first_offset: int = 0) -> bytes:
    """Entries with offsets that count up and times a millisecond apart; every second one has a key."""
    return b"".join(
        message(
            magic,
            value,
            offset=first_offset + place,
            key=b"k%d" % place if place % 2 else None,
            timestamp_ms=T0_MS + place,
        )
        for place, value in enumerate(values)
    )


def wrapper(
    magic: int,
    codec: int,
    inner: bytes,
    *,
    offset: int = 0,
    timestamp_ms: int = T0_MS,
    key: bytes | None = None,
    attributes: int = 0,
) -> bytes:
    """A set under a codec as the value of one entry."""
    payload = compress(Codec(codec), inner) if codec < len(Codec) else inner
    if codec == Codec.LZ4 and magic == 0:
        payload = _with_the_old_checksum(payload)
    return message(magic, payload, offset=offset, key=key, timestamp_ms=timestamp_ms, attributes=attributes | codec)


def three_under(magic: int, codec: Codec, *, prefix: bytes = b"") -> bytes:
    """Three messages under a codec as a producer of the format sends them; without one, three entries."""
    inner = messages(magic, *(prefix + b"value-%d" % number for number in range(3)))
    if codec is Codec.NONE:
        return inner
    return wrapper(magic, codec, inner, offset=2 if magic else 0, timestamp_ms=T0_MS + 2)


def with_wrong_checksum(entry: bytes) -> bytes:
    changed = bytearray(entry)
    changed[12] ^= 1
    return bytes(changed)


@dataclass(slots=True)
class Entry:
    """An entry as it is written."""

    offset: int
    size_bytes: int
    magic: int
    attributes: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    crc: int
    is_valid: bool

    @property
    def codec(self) -> int:
        return self.attributes & _CODEC_MASK

    def inner(self) -> "list[Entry]":
        """What is under the codec."""
        payload = self.value or b""
        if self.codec == Codec.LZ4 and self.magic == 0:
            payload = _with_the_new_checksum(payload)
        return list(entries(decompress(Codec(self.codec), payload, _MAX_INFLATED_BYTES)))


def entries(data: bytes | memoryview) -> Iterator[Entry]:
    """The whole entries at the start of `data`."""
    data = bytes(data)
    position = 0
    while len(data) - position >= _ENTRY_HEAD_BYTES + _SHORTEST_BYTES:
        size = _ENTRY_HEAD_BYTES + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if not _ENTRY_HEAD_BYTES + _SHORTEST_BYTES <= size <= len(data) - position:
            return
        yield _read(data[position : position + size])
        position += size


def _read(entry: bytes) -> Entry:
    offset, _, crc, magic, attributes = _ENTRY.unpack_from(entry)
    at, timestamp_ms = _ENTRY.size, None
    if magic:
        (timestamp_ms,) = struct.unpack_from(">q", entry, at)
        at += 8
    key, at = _taken(entry, at)
    value, at = _taken(entry, at)
    if at != len(entry):
        raise CorruptBatch(f"{len(entry) - at} bytes follow the value at offset {offset}")
    is_valid = zlib.crc32(entry[16:]) == crc
    return Entry(offset, len(entry), magic, attributes, timestamp_ms, key, value, crc, is_valid)


def _taken(entry: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", entry, at)
    return (None, at + 4) if size < 0 else (entry[at + 4 : at + 4 + size], at + 4 + size)


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _with_the_old_checksum(frame: bytes) -> bytes:
    """Of lz4 in format 0: clients of that time took the checksum of the frame's head with its magic."""
    return frame[:6] + bytes([_xxh32(frame[:6]) >> 8 & 0xFF]) + frame[7:]


def _with_the_new_checksum(frame: bytes) -> bytes:
    return frame[:6] + bytes([_xxh32(frame[4:6]) >> 8 & 0xFF]) + frame[7:]


def _xxh32(data: bytes) -> int:
    """xxHash32 of fewer than 16 bytes with seed 0."""
    mask = 0xFFFFFFFF
    digest = (374_761_393 + len(data)) & mask
    at = 0
    while at + 4 <= len(data):
        digest = (digest + int.from_bytes(data[at : at + 4], "little") * 3_266_489_917) & mask
        digest = _rotated(digest, 17) * 668_265_263 & mask
        at += 4
    for byte in data[at:]:
        digest = (digest + byte * 374_761_393) & mask
        digest = _rotated(digest, 11) * 2_654_435_761 & mask
    digest = (digest ^ digest >> 15) * 2_246_822_519 & mask
    digest = (digest ^ digest >> 13) * 3_266_489_917 & mask
    return digest ^ digest >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF
