"""What a fetch gave, read anew beside the shipped client: values by which records are known, aborted ones left out."""

from typing import Final

from barnabas.protocol.batch import TruncatedBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.records import ControlRecordType, Record, read_control_record

VALUE_HEADER: Final = "value"
"""The header in which a tombstone bears the value by which it is known."""

_MAX_DECOMPRESSED_BYTES: Final = 1 << 26


def value_in(record: Record) -> bytes:
    """The value by which a record is known, wherever it stands."""
    return record.value or dict(record.headers).get(VALUE_HEADER) or b""


def decode_fetched(
    record_set: memoryview | None, position: int, aborted: list[tuple[int, int]]
) -> tuple[list[tuple[int, bytes]], int]:
    """Offset and value of the records of whole batches from `position` on, and where to go on.

    `aborted`: producer id and first offset of transactions whose records are left out, up to the producer's next
    marker that says so; a producer may have several.
    """
    found: list[tuple[int, bytes]] = []
    if not record_set:
        return found, position
    try:
        for at, header in iterate_entries(record_set):
            verify_entry(record_set, at, header)
            records = iterate_entry_records(record_set, at, header, _MAX_DECOMPRESSED_BYTES)
            if header.is_control:
                marker = next(records, None)
                if marker is not None and read_control_record(marker).kind is ControlRecordType.ABORT:
                    ended = min((each for each in aborted if each[0] == header.producer_id), default=None)
                    if ended is not None:
                        aborted.remove(ended)
            elif not (header.is_transactional and _is_aborted(header.producer_id, header.last_offset, aborted)):
                found += [(each.offset, value_in(each)) for each in records if each.offset >= position]
            # Compaction may have left less of a batch than it covers, or nothing.
            position = max(position, header.next_offset)
    except TruncatedBatch:
        # The last batch may be cut where the limit of bytes was.
        pass
    return found, position


def _is_aborted(producer_id: int, last_offset: int, aborted: list[tuple[int, int]]) -> bool:
    return any(number == producer_id and first <= last_offset for number, first in aborted)
