"""Building entries of any message format, compressed or not, some records at a time.

What comes out is what Kafka's own builder writes: plain messages one after the other, or one wrapper, or one batch.
A wrapper's messages count from 0 in format 1 and have absolute offsets in format 0; wrapper and batch have the
greatest timestamp. With the broker's time (`log_append_time_ms`) messages of format 1 all bear it; records of a batch
keep theirs, and the batch's header says that it counts for all.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.protocol.batch import (
    CURRENT_MAGIC,
    LOG_APPEND_TIME_BIT,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    frame,
)
from barnabas.protocol.compression import Compressor
from barnabas.protocol.legacy_lz4 import wrong_checksum
from barnabas.protocol.message_set import encode_message
from barnabas.protocol.records import Record, encode_record

_PIECE_BYTES: Final = 64 * 1024


class EntryBuilder:
    """Takes records in the order of their offsets, then gives the entry or entries that hold them."""

    __slots__ = (
        "_attributes",
        "_buffer",
        "_compressor",
        "_first_offset",
        "_first_timestamp",
        "_last_offset",
        "_log_append_time_ms",
        "codec",
        "count",
        "magic",
        "max_timestamp",
    )

    def __init__(self, *, magic: int, codec: Codec, log_append_time_ms: int | None = None) -> None:
        assert 0 <= magic <= CURRENT_MAGIC
        assert magic == CURRENT_MAGIC or codec is not Codec.ZSTD, "older formats do not know zstd"
        self.magic = magic
        self.codec = codec
        self.count = 0
        self.max_timestamp = NO_TIMESTAMP
        self._log_append_time_ms = log_append_time_ms
        self._attributes = LOG_APPEND_TIME_BIT if log_append_time_ms is not None and magic else 0
        self._compressor = Compressor(codec)
        self._buffer = bytearray()
        self._first_offset = self._last_offset = -1
        self._first_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """How much there is of the entries so far, as they will be written; a codec holds some back until the end."""
        return self._compressor.size_bytes + (len(self._buffer) if self.codec is Codec.NONE else 0)

    def add(self, records: Iterable[Record]) -> None:
        """Take in the next records, with their own offsets, which must rise. Headers have no place in old formats."""
        if self.magic == CURRENT_MAGIC:
            for record in records:
                self._count(record, record.timestamp)
                self._buffer += encode_record(
                    record,
                    timestamp_delta=record.timestamp - self._first_timestamp,
                    offset_delta=record.offset - self._first_offset,
                )
        else:
            wraps_relative = self.magic == 1 and self.codec is not Codec.NONE
            for record in records:
                append_time = self._log_append_time_ms
                timestamp = record.timestamp if append_time is None else append_time
                self._count(record, timestamp)
                self._buffer += encode_message(
                    record.offset - self._first_offset if wraps_relative else record.offset,
                    timestamp,
                    record.key,
                    record.value,
                    magic=self.magic,
                    attributes=self._attributes,
                )
        if len(self._buffer) >= _PIECE_BYTES:
            self._compress()

    def _count(self, record: Record, timestamp: int) -> None:
        assert record.offset > self._last_offset, f"offset {record.offset} follows {self._last_offset}"
        if not self.count:
            self._first_offset, self._first_timestamp = record.offset, record.timestamp
        self._last_offset = record.offset
        self.count += 1
        if self.magic and timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def _compress(self) -> None:
        self._compressor.add(bytes(self._buffer))
        self._buffer.clear()

    def finish(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        leader_epoch: int = -1,
    ) -> bytes:
        """The entries; nothing if there was no record. Only batches have what is said here."""
        if not self.count:
            return b""
        self._compress()
        content = self._compressor.finish()
        append_time = self._log_append_time_ms
        max_timestamp = self.max_timestamp if append_time is None else append_time
        if self.magic < CURRENT_MAGIC:
            if self.codec is Codec.NONE:
                return content
            if self.magic == 0 and self.codec is Codec.LZ4:
                content = bytes(wrong_checksum(content))
            attributes = self._attributes | self.codec
            return encode_message(
                self._last_offset, max_timestamp, None, content, magic=self.magic, attributes=attributes
            )
        header = BatchHeader(
            base_offset=self._first_offset,
            length=0,
            leader_epoch=leader_epoch,
            magic=CURRENT_MAGIC,
            crc=0,
            attributes=self._attributes | self.codec | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self._last_offset - self._first_offset,
            first_timestamp=self._first_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        )
        return frame(header, content)
