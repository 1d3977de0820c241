"""What the tests of old message formats build and read with."""

from collections.abc import Iterable

from hypothesis import strategies as st

from barnabas.protocol.batch import BatchHeader, Buffer, Codec
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.format_conversion import convert_down
from barnabas.protocol.records import Record
from barnabas.protocol.steps import complete

AMPLE = 1 << 30
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
REAL_OLD_CODECS = OLD_CODECS[1:]

BYTES_OR_NONE = st.none() | st.binary(max_size=100)


@st.composite
def records_at_rising_offsets(draw: st.DrawFn) -> list[Record]:
    """Up to 12 records, with gaps between their offsets as compaction leaves them."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 12))):
        timestamp = draw(st.integers(-1, 2**62))
        records.append(Record(offset, timestamp, draw(BYTES_OR_NONE), draw(BYTES_OR_NONE)))
        offset += draw(st.integers(1, 3))
    return records


def build(
    records: Iterable[Record], *, magic: int, codec: Codec = Codec.NONE, log_append_time_ms: int | None = None
) -> bytes:
    builder = EntryBuilder(magic=magic, codec=codec, log_append_time_ms=log_append_time_ms)
    builder.add(records)
    return builder.finish()


def read(data: Buffer, max_bytes: int = AMPLE) -> list[Record]:
    """Every record of whole and sound entries."""
    found: list[Record] = []
    for pos, header in iterate_entries(data):
        verify_entry(data, pos, header)
        found += iterate_entry_records(data, pos, header, max_bytes)
    return found


def headers(data: Buffer) -> list[BatchHeader]:
    return [header for _, header in iterate_entries(data)]


def converted(data: Buffer, to_magic: int, *, first_offset: int = 0) -> bytes:
    """What a consumer of that format is given of a log: entries that are old enough stay as they are."""
    parts = []
    for pos, header in iterate_entries(data):
        if header.magic <= to_magic:
            parts.append(bytes(data[pos : pos + header.size_bytes]))
            continue
        steps = convert_down(data, pos, header, to_magic=to_magic, first_offset=first_offset, max_inflated_bytes=AMPLE)
        parts.append(complete(steps).data)
    return b"".join(parts)


def as_format(record: Record, magic: int) -> Record:
    """What is left of a record in that format."""
    return Record(record.offset, record.timestamp if magic else -1, record.key, record.value)
