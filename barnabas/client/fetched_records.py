"""From the bytes of a fetch to records: whole batches, ranges of offsets, aborted transactions. Pure."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.protocol.batch import CURRENT_MAGIC, BatchHeader, Buffer, TruncatedBatch
from barnabas.protocol.entries import iterate_entries, iterate_entry_records, verify_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import ControlRecordType, Record, read_control_record

_CONTROL_BATCH_BYTES: Final = 64 * 1024
"""The most that a control batch may inflate to; its one record has some ten bytes."""


@dataclass(slots=True)
class FetchedRecords:
    """Records of one partition in the order of their offsets, with the high watermark when they were read."""

    topic_partition: TopicPartition
    records: list[Record]
    high_watermark: int


class WholeEntries(NamedTuple):
    """What a record set holds of whole batches: their bytes, the offset after them, the last one's leader epoch."""

    size_bytes: int
    next_offset: int
    leader_epoch: int


class AbortedRange(NamedTuple):
    """A producer's records from `first_offset` on are void, up to its next abort marker."""

    producer_id: int
    first_offset: int


def find_whole_entries(record_set: Buffer, offset: int) -> WholeEntries:
    """Measure the whole batches of what was fetched at `offset`; the last one may be cut. Raises a CorruptBatch."""
    size, leader_epoch = 0, -1
    try:
        for pos, header in iterate_entries(record_set):
            size = pos + header.size_bytes
            offset = max(offset, header.next_offset)
            # Messages of the old formats have no epoch.
            leader_epoch = header.leader_epoch if header.magic == CURRENT_MAGIC else -1
    except TruncatedBatch:
        pass  # it comes with the next fetch
    return WholeEntries(size, offset, leader_epoch)


def decode_records(
    record_set: Buffer,
    *,
    start: int,
    end: int | None = None,
    aborted: Sequence[AbortedRange] = (),
    max_decompressed_bytes: int,
) -> list[Record]:
    """The records of whole batches from `start` on, before `end` where there is one; without control records.

    The records of `aborted` transactions are left out. Raises a CorruptBatch.
    """
    records: list[Record] = []
    ahead = deque(sorted(aborted, key=lambda each: each.first_offset))
    void_producers: set[int] = set()
    for pos, header in iterate_entries(record_set):
        verify_entry(record_set, pos, header)
        while ahead and ahead[0].first_offset <= header.last_offset:
            void_producers.add(ahead.popleft().producer_id)
        if header.is_control:
            if void_producers and _is_abort(record_set, pos, header):
                void_producers.discard(header.producer_id)
            continue
        # The messages of older formats do not say where a compressed set of them begins.
        tells_first = header.magic == CURRENT_MAGIC
        if header.last_offset < start or (tells_first and end is not None and header.base_offset >= end):
            continue
        if header.is_transactional and header.producer_id in void_producers:
            continue
        batch = iterate_entry_records(record_set, pos, header, max_decompressed_bytes)
        if tells_first and header.base_offset >= start and (end is None or header.last_offset < end):
            records += batch
        else:
            records += [each for each in batch if start <= each.offset and (end is None or each.offset < end)]
    return records


def _is_abort(record_set: Buffer, pos: int, header: BatchHeader) -> bool:
    first = next(iterate_entry_records(record_set, pos, header, _CONTROL_BATCH_BYTES), None)
    return first is not None and read_control_record(first).kind is ControlRecordType.ABORT
