"""What becomes of fetched batches: passed on as they are, as records of their own, or not at all.

A batch is passed on whole, its compressed records untouched, where all of it goes to one partition and it has no gaps
(compaction leaves such), is not tiny, and its timestamps are its producer's. Otherwise its records are given singly.
Checksums are looked at here: what is passed on gets a new one, which must not make damage look sound.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.client.fetched_records import AbortedRange
from barnabas.client.outgoing import EncodedRecords
from barnabas.pipeline.columns.visibility import Visibility
from barnabas.pipeline.source.offsets import Stamp
from barnabas.protocol.batch import CURRENT_MAGIC, HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.records import Record

LEAST_WHOLE_BYTES: Final = 4096
LEAST_WHOLE_RECORDS: Final = 100
"""Batches that are smaller in both are put together to larger ones: each costs a broker as much as a large one."""
MAX_INFLATED_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """A batch that goes on as it is; its records have offsets from `base_offset` on, without a gap."""

    base_offset: int
    records: EncodedRecords


@dataclass(frozen=True, slots=True)
class LooseRecords:
    """Records that are written into new batches, with the bytes that they took."""

    records: list[Record]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Records that came from the target."""

    count: int


Passed = WholeBatch | LooseRecords | Dropped


def producer_ids(record_set: memoryview) -> set[int]:
    """Whose batches there are. Raises a CorruptBatch."""
    return {header.producer_id for _, header in iterate_entries(record_set) if _has_producer(header)}


def last_stamp(record_set: memoryview) -> Stamp | None:
    """What the log is known again by behind these batches. Raises a CorruptBatch."""
    headers = deque((header for _, header in iterate_entries(record_set)), maxlen=1)
    return Stamp(headers[0].base_offset, headers[0].leader_epoch, headers[0].crc) if headers else None


def pass_on(
    record_set: memoryview,
    *,
    start: int,
    end: int | None,
    aborted: Collection[AbortedRange],
    foreign: Collection[int],
    keeps_batches: bool,
) -> Iterator[Passed]:
    """What is sent of whole batches, in order: the records from `start` on and before `end`.

    What the producers `foreign` wrote is dropped. With `keeps_batches` all goes to one partition. Raises CorruptBatch.
    """
    visibility = Visibility(aborted)
    for pos, header in iterate_entries(record_set):
        verify_entry(record_set, pos, header)
        if not visibility.shows(record_set, pos, header) or header.last_offset < start:
            continue
        tells_first = header.magic == CURRENT_MAGIC
        if tells_first and (not header.record_count or (end is not None and header.base_offset >= end)):
            continue
        if _has_producer(header) and header.producer_id in foreign:
            yield Dropped(header.record_count)
            continue
        is_inside = tells_first and header.base_offset >= start and (end is None or header.last_offset < end)
        if keeps_batches and is_inside and _may_stay_whole(header):
            payload = record_set[pos + HEADER_BYTES : pos + LOG_OVERHEAD_BYTES + header.length]
            encoded = EncodedRecords(
                payload, header.codec, header.record_count, header.first_timestamp, header.max_timestamp
            )
            yield WholeBatch(header.base_offset, encoded)
            continue
        records = iterate_entry_records(record_set, pos, header, MAX_INFLATED_BYTES)
        kept = [each for each in records if start <= each.offset and (end is None or each.offset < end)]
        if kept:
            yield LooseRecords(kept, header.size_bytes)


def _has_producer(header: BatchHeader) -> bool:
    return header.magic == CURRENT_MAGIC and header.producer_id >= 0


def _may_stay_whole(header: BatchHeader) -> bool:
    return (
        (header.size_bytes >= LEAST_WHOLE_BYTES or header.record_count >= LEAST_WHOLE_RECORDS)
        and header.record_count == header.last_offset_delta + 1
        and not header.uses_log_append_time
    )
