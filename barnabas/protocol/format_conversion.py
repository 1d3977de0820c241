"""Down-conversion: what a log holds, in the older message format that a consumer asks for (Fetch v0 to v3).

As Kafka 2.7 does it, entry by entry: codec, offsets and timestamps stay, headers are dropped, control batches are left
out, and of an uncompressed batch so are the records below the offset that was asked for, because plain messages have no
batch around them that a client would skip them by (old versions of librdkafka depend on it). zstd is refused: the older
formats do not know it.

Up-conversion, which only an append does, is in storage: it gives offsets and validates in the same pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.protocol.batch import CODEC_MASK, CURRENT_MAGIC, NO_TIMESTAMP, BatchHeader, Buffer, Codec, InvalidRecord
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.message_set import find_offset_shift, iterate_inner, read_plain
from barnabas.protocol.record_stream import stream_records
from barnabas.protocol.records import Record
from barnabas.protocol.steps import Steps


class ConversionRefused(Exception):
    """Records that the format asked for cannot hold."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@dataclass(slots=True)
class Converted:
    """The entries that an entry became, and how many records they hold; none of a control batch."""

    data: bytes
    record_count: int


def convert_down(
    buf: Buffer, pos: int, header: BatchHeader, *, to_magic: int, first_offset: int, max_inflated_bytes: int
) -> Steps[Converted]:
    """The whole entry at `pos` in format `to_magic`, which is older than its own, in steps of at most 64 KB of records.

    `first_offset` is the one that the consumer asked for. Raises ConversionRefused or a CorruptBatch.
    """
    assert to_magic < header.magic
    if header.magic == CURRENT_MAGIC and header.is_control:
        return Converted(b"", 0)
    codec = header.codec
    if codec is Codec.ZSTD:
        raise ConversionRefused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Down-conversion of zstandard-compressed batches is not supported"
        )
    least_offset = first_offset if codec is Codec.NONE else -1
    log_append_time_ms = header.max_timestamp if header.uses_log_append_time else None
    builder = EntryBuilder(magic=to_magic, codec=codec, log_append_time_ms=log_append_time_ms)
    shift, last_offset = 0, -1
    if header.attributes & CODEC_MASK and header.magic < CURRENT_MAGIC:
        shift = yield from find_offset_shift(buf, pos, header, max_inflated_bytes)
    for records in _some_at_a_time(buf, pos, header, max_inflated_bytes):
        for record in records:
            record.offset += shift
            if record.offset <= last_offset:
                raise InvalidRecord(f"offset {record.offset} follows {last_offset}")
            last_offset = record.offset
            if record.timestamp < NO_TIMESTAMP:
                # Kafka's builder throws here, which its clients see as an unknown error.
                raise ConversionRefused(
                    ErrorCode.UNKNOWN_SERVER_ERROR, f"timestamp {record.timestamp} at offset {record.offset}"
                )
        builder.add([record for record in records if record.offset >= least_offset] if least_offset >= 0 else records)
        yield
    return Converted(builder.finish(), builder.count)


def _some_at_a_time(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Iterator[list[Record]]:
    if header.magic == CURRENT_MAGIC:
        return stream_records(buf, pos, header, max_inflated_bytes)
    if header.attributes & CODEC_MASK:
        return iterate_inner(buf, pos, header, max_inflated_bytes)
    return iter([[read_plain(buf, pos, header)]])
