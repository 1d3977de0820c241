"""The entries of a log in all three message formats: record batches (2), and messages and wrappers (0 and 1).

Whoever walks over a log or over what a broker gave asks here: an entry's header has one shape (`BatchHeader`, see
message_set.py for what it cannot say of a wrapper), and each question goes to the module of the entry's format.
"""

from collections.abc import Iterator

from barnabas.protocol.batch import (
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    Buffer,
    CorruptBatch,
    InvalidRecordCount,
    TruncatedBatch,
    read_header,
    verify_crc,
)
from barnabas.protocol.message_set import (
    HIGHEST_LEGACY_MAGIC,
    LEAST_ENTRY_BYTES,
    MAGIC_AT,
    find_first_offset,
    iterate_messages,
    read_message_header,
    verify_message_crc,
)
from barnabas.protocol.records import Record, iterate_records
from barnabas.protocol.steps import complete


def read_entry(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header of the entry at `pos`. Raises TruncatedBatch, InvalidBatchSize or UnsupportedMagic."""
    if len(buf) > pos + MAGIC_AT and buf[pos + MAGIC_AT] <= HIGHEST_LEGACY_MAGIC:
        return read_message_header(buf, pos)
    return read_header(buf, pos)


def iterate_entries(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Every entry of `buf` as (position, header), each whole and with possible counts; checksums are not looked at.

    Raises a CorruptBatch at the first entry that is not; those before it have been given by then.
    """
    pos, size = 0, len(buf)
    while pos < size:
        header = read_entry(buf, pos)
        end = pos + LOG_OVERHEAD_BYTES + header.length
        if end > size:
            raise TruncatedBatch(f"the entry at byte {pos} ends at {end}, after the {size} bytes there are")
        check_count(header)
        yield pos, header
        pos = end


def check_count(header: BatchHeader) -> None:
    """Refuse more records than offsets. Raises InvalidRecordCount.

    A count of 0 and gaps in the offsets are what compaction leaves; a wrapper does not say its count.
    """
    if header.magic <= HIGHEST_LEGACY_MAGIC:
        return
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or header.last_offset_delta < 0:
        raise InvalidRecordCount(
            f"{header.record_count} records cannot have offset deltas up to {header.last_offset_delta}"
        )


def holds_entry(buf: Buffer) -> bool:
    """Whether a whole entry may stand at the start, by its length alone: a record set without one is empty."""
    if len(buf) < LEAST_ENTRY_BYTES:
        return False
    return LOG_OVERHEAD_BYTES + int.from_bytes(buf[8:12], "big", signed=True) <= len(buf)


def verify_entry(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Check the entry at `pos` against the checksum of its format. Raises CrcMismatch or TruncatedBatch."""
    if header.magic <= HIGHEST_LEGACY_MAGIC:
        verify_message_crc(buf, pos, header)
    else:
        verify_crc(buf, pos, header)


def find_bad_offset(buf: Buffer, offset: int, *, end_offset: int) -> int | None:
    """Where what was read from `offset` on does not match its checksums, goes back or reaches above `end_offset`.

    None where all is good. The first entry may begin before `offset`; the last one may be cut, unless it is the first.
    A base offset is outside of the checksum: of one that is too high the next entry tells, or the end where none comes.
    """
    is_first = True
    try:
        for pos, header in iterate_entries(buf):
            verify_entry(buf, pos, header)
            if (header.next_offset <= offset) if is_first else header.base_offset < offset:
                return offset
            if header.next_offset > end_offset:
                return offset
            offset, is_first = header.next_offset, False
    except TruncatedBatch:
        return offset if is_first else None
    except CorruptBatch:
        return offset
    return None


def iterate_entry_records(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> Iterator[Record]:
    """Every record of the entry at `pos`. Raises a CorruptBatch where the entry stops making sense."""
    if header.magic <= HIGHEST_LEGACY_MAGIC:
        return iterate_messages(buf, pos, header, max_inflated_bytes)
    return iterate_records(buf, pos, header, max_inflated_bytes)


def first_entry_offset(buf: Buffer, pos: int, header: BatchHeader, max_inflated_bytes: int) -> int:
    """Where the entry at `pos` begins; a wrapper must be looked into for that. Raises a CorruptBatch."""
    return (
        complete(find_first_offset(buf, pos, header, max_inflated_bytes))
        if header.magic <= HIGHEST_LEGACY_MAGIC
        else header.base_offset
    )
