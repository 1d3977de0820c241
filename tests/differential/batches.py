"""Record batches of the corpus: good ones, and ones that lie about themselves.

All stamps lie in 2020, so that a time near now in an answer can only be the server's. Compressed records are literal
bytes, because a codec's next release may compress differently.
"""

import struct
import zlib
from dataclasses import replace
from typing import Any

from barnabas.protocol.batch import BatchHeader, Codec, frame, read_header, seal
from barnabas.protocol.records import Headers, Record, build_batch

T0_MS = 1_600_000_000_000

PLAIN_RECORDS = bytes.fromhex(
    "7c0000000a6b65792d306676616c7565206f66207265636f7264203076616c7565206f66207265636f7264203076616c7565206f66207265"
    "636f72642030007c0002020a6b65792d316676616c7565206f66207265636f7264203176616c7565206f66207265636f7264203176616c75"
    "65206f66207265636f72642031007c0004040a6b65792d326676616c7565206f66207265636f7264203276616c7565206f66207265636f72"
    "64203276616c7565206f66207265636f7264203200"
)
COMPRESSED_RECORDS = {
    Codec.GZIP: bytes.fromhex(
        "1f8b0800000000000003ab616060e0ca4eadd435482b4bcc294d55c84f53284a4dce2f4a5130202cc050c3c0c404d66e88a1dd90b0"
        "00503b0b0b58bb11867623c2020c00f58f1520bd000000"
    ),
    Codec.SNAPPY: bytes.fromhex(
        "82534e415050590000000001000000010000004ebd016c7c0000000a6b65792d306676616c7565206f66207265636f726420308611"
        "0010007c000202053f0031423f0000313e3f0046110010007c000404053f0032423f0000323e3f004611000000"
    ),
    Codec.LZ4: bytes.fromhex(
        "04224d186040824d000000ff0d7c0000000a6b65792d306676616c7565206f66207265636f7264203011000f51007c0002023f001d"
        "313f001c313f000e110051007c0004043f001d323f001c323f000a110050726420320000000000"
    ),
    Codec.ZSTD: bytes.fromhex(
        "28b52ffd20bd1d0200b4027c0000000a6b65792d306676616c7565206f66207265636f72642030007c0002023131007c0004043232"
        "000900c003801c4c2604e181670061308510040d39d309"
    ),
}
RAW_SNAPPY_RECORDS = COMPRESSED_RECORDS[Codec.SNAPPY][20:]


def record(
    value: bytes | None = b"value", *, key: bytes | None = None, headers: Headers = (), ms_after_t0: int = 0
) -> Record:
    return Record(0, T0_MS + ms_after_t0, key, value, headers)


def batch(*values: bytes | None, **header: Any) -> bytes:
    """A batch of values without keys, a millisecond apart from T0 on."""
    return build_batch([record(value, ms_after_t0=ms) for ms, value in enumerate(values)], **header)


def batch_at(ms_after_t0: int, *values: bytes | None) -> bytes:
    """A batch whose first record is that much after T0."""
    return build_batch([record(value, ms_after_t0=ms_after_t0 + ms) for ms, value in enumerate(values)])


def sequenced(
    producer_id: int, sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False, value: bytes = b"v"
) -> bytes:
    """A batch of an idempotent producer: `count` records from a sequence on."""
    return batch(
        *[value] * count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def compressed_batch(codec: Codec, payload: bytes | None = None) -> bytes:
    """Three records with keys under a codec, or another payload under its name."""
    header = replace(_header_of_three(), attributes=int(codec))
    if payload is None:
        payload = COMPRESSED_RECORDS.get(codec, PLAIN_RECORDS)
    return frame(header, payload)


def forged(original: bytes, **fields: int) -> bytes:
    """The batch with header fields replaced and a checksum that fits."""
    return frame(replace(read_header(original), **fields), original[61:])


def with_payload(original: bytes, payload: bytes, **fields: int) -> bytes:
    """The batch with other record bytes behind its header, and a checksum that fits."""
    return frame(replace(read_header(original), **fields), payload)


def with_bytes(original: bytes, at: int, new: bytes, *, reseal: bool = False) -> bytes:
    """The batch with bytes overwritten; the checksum stays what it was unless asked otherwise."""
    changed = bytearray(original)
    changed[at : at + len(new)] = new
    if reseal:
        seal(changed, 0)
    return bytes(changed)


def message_v0(offset: int, value: bytes | None, *, key: bytes | None = None, attributes: int = 0) -> bytes:
    """An entry of a message set of format 0: offset, size, CRC-32, magic, attributes, key, value."""
    body = struct.pack(">bb", 0, attributes) + _sized(key) + _sized(value)
    return _entry(offset, body)


def message_v1(
    offset: int, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int = T0_MS, attributes: int = 0
) -> bytes:
    """An entry of a message set of format 1, which has a timestamp."""
    body = struct.pack(">bbq", 1, attributes, timestamp_ms) + _sized(key) + _sized(value)
    return _entry(offset, body)


def _entry(offset: int, body: bytes) -> bytes:
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _header_of_three() -> BatchHeader:
    return read_header(batch(b"", b"", b""))
