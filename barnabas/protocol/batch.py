"""The record batch, version 2 of the message format (KIP-98): its 61-byte header, its checksum, its patching in place.

A batch is a header and record bytes, compressed or not. Base offset and leader epoch stand before the checksum, so a
broker sets them without touching the rest; whatever follows the checksum is covered by it. A `BatchHeader` that exists
was read here has magic 2 and a length that can hold a header. It says nothing of the bytes that follow:
`entries.iterate_entries` checks that a batch is whole and its counts possible, `verify_crc` its content,
`records.walk_records` its records. Entries of message formats 0 and 1 have a header of the same shape (message_set.py).

A batch may hold fewer records than its offsets span, even none: compaction leaves such batches.

Left out: the records (records.py), the codecs (compression.py) and message formats 0 and 1 (refused by
`UnsupportedMagic`; entries.py reads all three).
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from crc32c import crc32c

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12  # base offset and length, which the length does not count
CURRENT_MAGIC: Final = 2
NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_CHECKSUM: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_PLACE: Final = Struct(">qii")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_CHECKSUM_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_LEAST_LENGTH: Final = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Codec(IntEnum):
    """How the records of a batch are compressed: the three low bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final = {int(codec): codec for codec in Codec}


class CorruptBatch(Exception):
    """Bytes that are not a batch, or a batch that is not what it says."""


class TruncatedBatch(CorruptBatch):
    """The buffer ends before the batch does."""


class InvalidBatchSize(CorruptBatch):
    """The announced length cannot hold a batch."""


class UnsupportedMagic(CorruptBatch):
    """A message format other than 2."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format {magic} is not supported")
        self.magic = magic


class UnsupportedCodec(CorruptBatch):
    """A codec number that Kafka does not know."""


class CrcMismatch(CorruptBatch):
    """The content is not what the checksum was taken of."""


class InvalidRecordCount(CorruptBatch):
    """The number of records and the span of offsets do not fit each other."""


class InvalidRecord(CorruptBatch):
    """A record that cannot be read, or that contradicts its batch."""


@dataclass(slots=True, init=False)
class BatchHeader:
    """The header as it stands in front of the records; offsets and times are absolute, times in milliseconds."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    # Written out: compiled, what dataclasses would make of the fields is interpreted still.
    def __init__(  # noqa: PLR0917 - as the fields are
        self,
        base_offset: int,
        length: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        first_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.length = length
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.first_timestamp = first_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch with its header."""
        return LOG_OVERHEAD_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed; raises `UnsupportedCodec`."""
        codec = _CODECS.get(self.attributes & CODEC_MASK)
        if codec is None:
            raise UnsupportedCodec(f"codec {self.attributes & CODEC_MASK} is not known")
        return codec

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def uses_log_append_time(self) -> bool:
        """Whether every record's timestamp is the batch's `max_timestamp`, set by the broker (KIP-32)."""
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap from 2**31 - 1 to 0. -1 where there is no sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Read the header at `pos`. Raises TruncatedBatch, UnsupportedMagic or InvalidBatchSize."""
    try:
        header = BatchHeader(*_HEADER.unpack_from(buf, pos))
    except struct.error:
        raise _too_short(buf, pos) from None
    if header.magic != CURRENT_MAGIC:
        raise UnsupportedMagic(header.magic)
    if header.length < _LEAST_LENGTH:
        raise InvalidBatchSize(f"a batch of length {header.length} cannot hold its header")
    return header


def _too_short(buf: Buffer, pos: int) -> CorruptBatch:
    """Say what is wrong with fewer bytes than a header: a message of format 0 or 1 may be that short and whole."""
    if len(buf) - pos > _MAGIC_AT:
        magic = memoryview(buf).cast("B")[pos + _MAGIC_AT]
        if magic != CURRENT_MAGIC:
            return UnsupportedMagic(magic if magic < 128 else magic - 256)
    return TruncatedBatch(f"{len(buf) - pos} bytes cannot hold a batch header")


def verify_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check the batch at `pos` against its checksum, without a copy. Raises CrcMismatch or TruncatedBatch."""
    end = pos + LOG_OVERHEAD_BYTES + header.length
    if end > len(buf):
        raise TruncatedBatch(f"the batch at byte {pos} ends at {end}, after the {len(buf)} bytes there are")
    actual = crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : end])
    if actual != header.crc:
        raise CrcMismatch(f"the checksum is {actual:#010x}, the batch says {header.crc:#010x}")


def place(buf: bytearray | memoryview, pos: int, header: BatchHeader) -> None:
    """Write base offset and leader epoch of the batch at `pos` as `header`, which is its own, says them now.

    The checksum does not cover them.
    """
    _PLACE.pack_into(buf, pos, header.base_offset, header.length, header.leader_epoch)


def patch_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """Give every record of the batch at `pos` the broker's time, and renew the checksum."""
    _patch_time(buf, pos, max_timestamp=timestamp_ms, log_append_time=True)


def patch_create_time(buf: bytearray | memoryview, pos: int, max_timestamp: int) -> None:
    """Say that the timestamps of the batch at `pos` are the producer's, with the greatest; renew the checksum."""
    _patch_time(buf, pos, max_timestamp=max_timestamp, log_append_time=False)


def _patch_time(buf: bytearray | memoryview, pos: int, *, max_timestamp: int, log_append_time: bool) -> None:
    (attributes,) = _ATTRIBUTES.unpack_from(buf, pos + _ATTRIBUTES_AT)
    attributes = attributes | LOG_APPEND_TIME_BIT if log_append_time else attributes & ~LOG_APPEND_TIME_BIT
    _ATTRIBUTES.pack_into(buf, pos + _ATTRIBUTES_AT, attributes)
    _OFFSET.pack_into(buf, pos + _MAX_TIMESTAMP_AT, max_timestamp)
    seal(buf, pos)


def seal(buf: bytearray | memoryview, pos: int) -> None:
    """Renew the checksum of the whole batch at `pos` after its content was changed."""
    (length,) = _LENGTH.unpack_from(buf, pos + _LENGTH_AT)
    end = pos + LOG_OVERHEAD_BYTES + length
    assert _LEAST_LENGTH <= length <= len(buf) - pos - LOG_OVERHEAD_BYTES
    _CHECKSUM.pack_into(buf, pos + _CHECKSUM_AT, crc32c(memoryview(buf)[pos + _ATTRIBUTES_AT : end]))


def frame(header: BatchHeader, payload: Buffer) -> bytes:
    """A batch of `header` and record bytes; length and checksum are set here, whatever `header` says of them."""
    batch = bytearray(HEADER_BYTES + len(payload))
    _HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        _LEAST_LENGTH + len(payload),
        header.leader_epoch,
        CURRENT_MAGIC,
        0,
        header.attributes,
        header.last_offset_delta,
        header.first_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    batch[HEADER_BYTES:] = payload
    seal(batch, 0)
    return bytes(batch)
