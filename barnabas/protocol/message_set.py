"""Message formats 0 and 1: the entries of a message set, each with its own offset and CRC-32 (Kafka before 0.11).

An entry is one message. A compressed message is a wrapper: its value is a message set of its own, whose messages are
the records. A wrapper's offset is that of its last record. Its messages have absolute offsets in format 0; in format 1
(KIP-31) they count from any number, and only their distances matter. Format 1 adds a timestamp and who set it (KIP-32);
a wrapper with the broker's time lends it to all within.

`read_message_header` gives an entry the shape of a batch header, as `BatchHeader` has it: the whole of storage looks at
nothing else. Of a wrapper it does not know the first offset (`base_offset` is the last) nor how many records there are.

Read strictly: every length must fit the one around it, nothing may follow, wrappers hold plain messages of their own
format. At most `max_inflated_bytes` of a wrapper's content is looked at, a piece of it held at a time.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from barnabas.protocol.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Codec,
    CrcMismatch,
    InvalidBatchSize,
    InvalidRecord,
    TruncatedBatch,
    UnsupportedMagic,
)
from barnabas.protocol.compression import DecompressionBomb, inflate, largest_record_bytes
from barnabas.protocol.legacy_lz4 import right_checksum
from barnabas.protocol.records import Record
from barnabas.protocol.steps import Steps, complete

LEAST_ENTRY_BYTES: Final = LOG_OVERHEAD_BYTES + 14
"""No entry of any format is smaller: a message of format 0 without key and value."""
HIGHEST_LEGACY_MAGIC: Final = 1
UNKNOWN_COUNT: Final = -1
MAGIC_AT: Final = 16

_MESSAGES_A_STEP: Final = 500
_BYTES_A_STEP: Final = 64 * 1024

_PREFIX: Final = Struct(">qiIbb")  # offset, length, CRC, magic, attributes
_TIMESTAMP: Final = Struct(">q")
_SIZE: Final = Struct(">i")
_OFFSET_AND_LENGTH: Final = Struct(">qi")
_CRC_COVERS_FROM: Final = 16
_KEY_AT: Final = (_PREFIX.size, _PREFIX.size + _TIMESTAMP.size)
_LEAST_LENGTHS: Final = (14, 22)
_ATTRIBUTES: Final = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME_BIT)
_NO_CRC: Final = Struct(">bb")
_NO_CRC_TIMED: Final = Struct(">bbq")
_FRAME: Final = Struct(">qiI")


def read_message_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The head of the entry at `pos`, in the shape of a batch header; see the module.

    Raises TruncatedBatch, InvalidBatchSize or UnsupportedMagic.
    """
    try:
        offset, length, crc, magic, attributes = _PREFIX.unpack_from(buf, pos)
        if not 0 <= magic <= HIGHEST_LEGACY_MAGIC:
            raise UnsupportedMagic(magic)
        if length < _LEAST_LENGTHS[magic]:
            raise InvalidBatchSize(f"a message of format {magic} does not have {length} bytes")
        timestamp = _TIMESTAMP.unpack_from(buf, pos + _PREFIX.size)[0] if magic else NO_TIMESTAMP
    except struct.error:
        raise TruncatedBatch(f"{len(buf) - pos} bytes cannot hold a message") from None
    attributes &= _ATTRIBUTES[magic]
    return BatchHeader(
        offset,
        length,
        -1,
        magic,
        crc,
        attributes,
        0,
        timestamp,
        timestamp,
        -1,
        -1,
        NO_SEQUENCE,
        UNKNOWN_COUNT if attributes & CODEC_MASK else 1,
    )


def verify_message_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check the entry at `pos` against its checksum. Raises CrcMismatch or TruncatedBatch."""
    end = pos + LOG_OVERHEAD_BYTES + header.length
    if end > len(buf):
        raise TruncatedBatch(f"the message at byte {pos} ends at {end}, after the {len(buf)} bytes there are")
    actual = zlib.crc32(memoryview(buf)[pos + _CRC_COVERS_FROM : end])
    if actual != header.crc:
        raise CrcMismatch(f"the checksum is {actual:#010x}, the message says {header.crc:#010x}")


def read_content(buf: Buffer, pos: int, header: BatchHeader) -> tuple[memoryview | None, memoryview | None]:
    """Key and value of the entry at `pos`, without a copy. Raises InvalidRecord or TruncatedBatch."""
    end = pos + LOG_OVERHEAD_BYTES + header.length
    if end > len(buf):
        raise TruncatedBatch(f"the message at byte {pos} ends at {end}, after the {len(buf)} bytes there are")
    view = memoryview(buf)
    key, at = _sized(view, pos + _KEY_AT[header.magic], end)
    value, at = _sized(view, at, end)
    if at != end:
        raise InvalidRecord(f"{end - at} bytes follow the value of the message for offset {header.base_offset}")
    return key, value


def _sized(view: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    if at + 4 > end:
        raise InvalidRecord(f"a message's length stands at byte {at}, after its end at {end}")
    (size,) = _SIZE.unpack_from(view, at)
    at += 4
    if size == -1:
        return None, at
    if not 0 <= size <= end - at:
        raise InvalidRecord(f"{size} bytes of key or value cannot stand in {end - at} bytes")
    return view[at : at + size], at + size


def read_plain(buf: Buffer, pos: int, header: BatchHeader) -> Record:
    """The record that a plain entry is. Raises InvalidRecord or TruncatedBatch."""
    key, value = read_content(buf, pos, header)
    return Record(
        header.base_offset,
        header.max_timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
    )


def iterate_inner(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Iterator[list[Record]]:
    """The messages of the wrapper at `pos`, some at a time, with the offsets that are written within.

    Their checksums are verified. A list may be empty: it stands for a piece that held no whole message, so that a
    caller who shares the loop may share it often. Raises a CorruptBatch.
    """
    append_time = header.max_timestamp if header.uses_log_append_time else None
    magic, count = header.magic, 0
    for data, ends in _inner_messages(buf, pos, header, max_inflated_bytes):
        records: list[Record] = []
        at = 0
        for end in ends:
            inner = read_message_header(data, at)
            if inner.magic != magic:
                raise InvalidRecord(f"a wrapper of format {magic} holds a message of format {inner.magic}")
            if inner.attributes & CODEC_MASK:
                raise InvalidRecord("a message within a wrapper must not be compressed")
            verify_message_crc(data, at, inner)
            record = read_plain(data, at, inner)
            if append_time is not None:
                record.timestamp = append_time
            records.append(record)
            at = end
        count += len(records)
        yield records
    if not count:
        raise InvalidRecord("a wrapper holds no messages")


def iterate_messages(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Iterator[Record]:
    """Every record of the entry at `pos`, plain or wrapped, with its offset in the log. Raises a CorruptBatch."""
    if not header.attributes & CODEC_MASK:
        yield read_plain(buf, pos, header)
        return
    shift = complete(find_offset_shift(buf, pos, header, max_inflated_bytes))
    for records in iterate_inner(buf, pos, header, max_inflated_bytes):
        for record in records:
            record.offset += shift
            yield record


@dataclass(slots=True)
class InnerOffsets:
    """The first and last offset written in a wrapper."""

    first: int
    last: int


def find_inner_offsets(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Steps[InnerOffsets]:
    """The first and last offset that the wrapper's messages say, in steps. Raises a CorruptBatch."""
    found: InnerOffsets | None = None
    for data, ends in _inner_messages(buf, pos, header, max_inflated_bytes):
        if ends:
            if found is None:
                (offset,) = _TIMESTAMP.unpack_from(data)
                found = InnerOffsets(offset, offset)
            (found.last,) = _TIMESTAMP.unpack_from(data, ends[-2] if len(ends) > 1 else 0)
        yield
    if found is None:
        raise InvalidRecord("a wrapper holds no messages")
    return found


def offset_shift_of(header: BatchHeader, written: InnerOffsets) -> int:
    """What the offsets within a wrapper lack to those of the log. Raises InvalidRecord.

    Old versions of librdkafka produced wrappers whose own offset is 0 always; their messages count from 0.
    """
    if header.magic == 0 or header.base_offset == 0:
        return 0
    if header.base_offset < written.last:
        raise InvalidRecord(f"a wrapper for offset {header.base_offset} holds a message with offset {written.last}")
    return header.base_offset - written.last


def find_offset_shift(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Steps[int]:
    """The same of the wrapper at `pos`, in steps. Raises a CorruptBatch."""
    if header.magic == 0:
        return 0
    return offset_shift_of(header, (yield from find_inner_offsets(buf, pos, header, max_inflated_bytes)))


def find_first_offset(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Steps[int]:
    """The offset of the first record of the entry at `pos`, in steps. Raises a CorruptBatch."""
    if not header.attributes & CODEC_MASK:
        return header.base_offset
    written = yield from find_inner_offsets(buf, pos, header, max_inflated_bytes)
    return written.first + offset_shift_of(header, written)


def _inner_messages(
    buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int
) -> Iterator[tuple[memoryview, list[int]]]:
    """The inflated content of a wrapper piece by piece: bytes, and where in them each whole message ends."""
    codec = header.codec
    if codec in (Codec.NONE, Codec.ZSTD):
        raise InvalidRecord(f"message format {header.magic} does not know {codec.name.lower()}")
    _, value = read_content(buf, pos, header)
    if value is None:
        raise InvalidRecord("a wrapper without a value")
    content: Buffer = right_checksum(value) if codec is Codec.LZ4 and header.magic == 0 else value
    rest: list[Buffer] = []
    missing, allowed, largest = 0, max_inflated_bytes, largest_record_bytes(value)
    for piece in inflate(codec, content, max_inflated_bytes):
        allowed -= len(piece)
        missing -= len(piece)
        rest.append(piece)
        if missing > min(allowed, largest):
            raise DecompressionBomb(f"a message needs {missing} bytes more, {min(allowed, largest)} are allowed")
        if missing > 0:
            yield memoryview(b""), []
            continue
        data, missing = memoryview(b"".join(rest)), 0
        while not missing:
            ends, missing = _ends(data)
            yield data, ends
            data = data[ends[-1] :] if ends else data
        rest = [data]
    left_bytes = sum(map(len, rest))
    if left_bytes:
        raise InvalidRecord(f"the last {left_bytes} bytes of a wrapper are no whole message")


def _ends(data: memoryview) -> tuple[list[int], int]:
    """Where each of the first whole messages of `data` ends, and how many bytes the next one lacks.

    That is 0 where there are enough messages for one step, and as many as are known to be missing otherwise.
    """
    ends: list[int] = []
    at, size = 0, len(data)
    while at + LOG_OVERHEAD_BYTES <= size:
        if len(ends) >= _MESSAGES_A_STEP or at >= _BYTES_A_STEP:
            return ends, 0
        length = _OFFSET_AND_LENGTH.unpack_from(data, at)[1]
        if length < _LEAST_LENGTHS[0]:
            raise InvalidBatchSize(f"a message within a wrapper does not have {length} bytes")
        end = at + LOG_OVERHEAD_BYTES + length
        if end > size:
            return ends, end - size
        ends.append(end)
        at = end
    return ends, at + LOG_OVERHEAD_BYTES - size


def encode_message(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, *, magic: int, attributes: int = 0
) -> bytes:
    """One entry; the timestamp is not written in format 0."""
    head = _NO_CRC_TIMED.pack(magic, attributes, timestamp) if magic else _NO_CRC.pack(magic, attributes)
    body = b"".join(
        (
            head,
            _SIZE.pack(-1 if key is None else len(key)),
            key or b"",
            _SIZE.pack(-1 if value is None else len(value)),
            value or b"",
        )
    )
    return _FRAME.pack(offset, len(body) + 4, zlib.crc32(body)) + body


def place_message(buf: bytearray | memoryview, pos: int, offset: int) -> None:
    """Set the offset of the entry at `pos`, which its checksum does not cover."""
    _TIMESTAMP.pack_into(buf, pos, offset)


def patch_message_time(
    buf: bytearray | memoryview, pos: int, header: BatchHeader, timestamp: int, *, log_append_time: bool
) -> None:
    """Set the timestamp of the entry of format 1 at `pos` and who set it; renew its checksum if that changes it."""
    assert header.magic == 1
    attributes = header.attributes & CODEC_MASK | (LOG_APPEND_TIME_BIT if log_append_time else 0)
    if timestamp == header.max_timestamp and attributes == header.attributes:
        return
    buf[pos + MAGIC_AT + 1] = attributes
    _TIMESTAMP.pack_into(buf, pos + _PREFIX.size, timestamp)
    crc = zlib.crc32(memoryview(buf)[pos + _CRC_COVERS_FROM : pos + LOG_OVERHEAD_BYTES + header.length])
    Struct(">I").pack_into(buf, pos + LOG_OVERHEAD_BYTES, crc)
