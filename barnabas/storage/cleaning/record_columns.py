"""The records of many batches at once, as columns: where each lies, its key, offset and time, whether it has a value.

Records of format 2 are found by one step a record, from length to length, and decoded column by column. Plain batches
are read where they are; compressed ones are inflated, some at a time, into a buffer of their own. Wrappers and messages
of formats 0 and 1 are read one by one: they are few, and nobody writes new ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from barnabas.protocol.batch import CODEC_MASK, CURRENT_MAGIC, HEADER_BYTES, InvalidRecord
from barnabas.protocol.compression import inflate
from barnabas.protocol.entries import iterate_entry_records
from barnabas.protocol.records import Record
from barnabas.storage.cleaning.batch_table import BatchTable, Bools
from barnabas.storage.cleaning.key_hash import Bytes, Ints

_INFLATED_BYTES: Final = 1024 * 1024
_LONGEST_VARINT: Final = 10
_PLAIN, _COMPRESSED, _OLD = 0, 1, 2


@dataclass(slots=True)
class RecordColumns:
    """The records of some batches of one table, in order. `row` is each record's batch.

    `key_bytes` is -1 where there is no key. A record of format 2 lies in `data` from `start` to `end`, with its length;
    its timestamp's delta is at `time_at`. Those of formats 0 and 1 are in `old_records` instead, only their keys lie
    in `data`.
    """

    data: Bytes
    row: Ints
    offset: Ints
    time_at: Ints
    key_at: Ints
    key_bytes: Ints
    has_value: Bools
    start: Ints
    end: Ints
    old_records: list[Record] | None = None

    def __len__(self) -> int:
        return len(self.row)

    @property
    def memory_bytes(self) -> int:
        return self.data.nbytes + 7 * self.row.nbytes + self.has_value.nbytes

    def timestamps(self, table: BatchTable, chosen: Ints) -> Ints:
        """The times of these records. Raises InvalidRecord."""
        if self.old_records is not None:
            return np.array([self.old_records[place].timestamp for place in chosen.tolist()], np.int64)
        row = self.row[chosen]
        created = table.first_timestamp[row] + _varints(self.data, self.time_at[chosen])[0]
        return np.where(table.uses_log_append_time[row], table.max_timestamp[row], created)


def read_columns(table: BatchTable, rows: Ints, max_decompressed_bytes: int) -> Iterator[RecordColumns]:
    """The records of these batches of the table, in order. Raises a CorruptBatch.

    Who lets go of the columns before it asks for the next ones holds one of them at a time.
    """
    if len(rows) == 0:
        return
    is_compressed = (table.attributes[rows] & CODEC_MASK) != 0
    kinds = np.where(table.magic[rows] != CURRENT_MAGIC, _OLD, np.where(is_compressed, _COMPRESSED, _PLAIN))
    changes = np.flatnonzero(kinds[1:] != kinds[:-1]) + 1
    for stretch in np.split(rows, changes):
        first = int(stretch[0])
        if table.magic[first] != CURRENT_MAGIC:
            yield _read_old(table, stretch, max_decompressed_bytes)
        elif table.attributes[first] & CODEC_MASK:
            yield from _read_compressed(table, stretch, max_decompressed_bytes)
        else:
            starts = table.start[stretch] + HEADER_BYTES
            yield _decode(table, stretch, table.data, starts, table.end[stretch])


def _read_compressed(table: BatchTable, rows: Ints, max_decompressed_bytes: int) -> Iterator[RecordColumns]:
    # A few bytes may inflate to hundreds of megabytes, which are held once: no piece is kept beside the whole.
    data, ends, begun = bytearray(), list[int](), 0
    for place, row in enumerate(rows.tolist()):
        for piece in inflate(table.header(row).codec, table.content(row)[HEADER_BYTES:], max_decompressed_bytes):
            data += piece
        ends.append(len(data))
        if len(data) >= _INFLATED_BYTES or place == len(rows) - 1:
            yield _decode(table, rows[begun : place + 1], data, np.array([0, *ends[:-1]]), np.array(ends))
            data, ends, begun = bytearray(), [], place + 1


def _decode(table: BatchTable, rows: Ints, data: bytes | bytearray, starts: Ints, ends: Ints) -> RecordColumns:
    """The columns of the records that lie in `data`, batch by batch, from these starts to these ends."""
    counts = table.record_count[rows]
    try:
        start = np.array(_follow(data, starts.tolist(), ends.tolist(), counts.tolist()), np.int64)
        end = np.empty_like(start)
        end[:-1] = start[1:]
        lasts = np.cumsum(counts) - 1
        end[lasts[counts > 0]] = ends[counts > 0]
        array = np.frombuffer(data, np.uint8)
        time_at = _after_varints(array, start) + 1
        offset_delta, at = _varints(array, _after_varints(array, time_at))
        key_bytes, key_at = _varints(array, at)
        key_end = key_at + np.maximum(key_bytes, 0)
        # A missing value has length -1, which is written as one byte.
        has_value = array[key_end] != 1
    except IndexError:
        raise InvalidRecord("the records end inside a record") from None
    row = np.repeat(rows, counts)
    offset = table.base_offset[row] + offset_delta
    is_wrong = (key_bytes < -1) | (key_end >= end) | (offset > table.last_offset[row])
    is_wrong[1:] |= offset[1:] <= offset[:-1]
    if is_wrong.any() or offset_delta[0] < 0:
        raise InvalidRecord(f"the record at offset {offset[np.argmax(is_wrong)]} contradicts itself or its batch")
    return RecordColumns(array, row, offset, time_at, key_at, key_bytes, has_value, start, end)


def _follow(data: bytes | bytearray, starts: list[int], ends: list[int], counts: list[int]) -> list[int]:
    """Where each record begins. Raises InvalidRecord where a batch's records do not end with it, or IndexError."""
    found: list[int] = []
    add = found.append
    for at, end, count in zip(starts, ends, counts, strict=True):
        for _ in range(count):
            add(at)
            byte = data[at]
            if byte < 128:
                at += 1 + (byte >> 1)
                continue
            more = data[at + 1]
            if more < 128:
                # The usual case: 64 to 8191 bytes.
                at += 2 + ((byte & 0x7F | more << 7) >> 1)
                continue
            length, shift, at = byte & 0x7F | (more & 0x7F) << 7, 14, at + 2
            while shift < 35:
                byte = data[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 128:
                    break
            at += length >> 1
        if at != end:
            raise InvalidRecord(f"{count} records do not end where their batch does")
    return found


def _varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The zigzag varints at these positions, and where what follows them begins. Raises IndexError or InvalidRecord."""
    byte = data[at]
    following = at + 1
    value = byte.astype(np.int64)
    more = np.flatnonzero(byte > 127)
    if len(more) == 0:
        return (value >> 1) ^ -(value & 1), following
    value &= 0x7F
    shift = 7
    while len(more):
        if shift >= _LONGEST_VARINT * 7:
            raise InvalidRecord("a number does not end")
        byte = data[following[more]]
        value[more] |= (byte & 0x7F).astype(np.int64) << shift
        following[more] += 1
        more = more[byte > 127]
        shift += 7
    # The sign bit of a 64-bit number needs the shift without it.
    unsigned = value.view(np.uint64) >> np.uint64(1)
    return unsigned.astype(np.int64) ^ -(value & 1), following


def _after_varints(data: Bytes, at: Ints) -> Ints:
    """Where what follows the varints at these positions begins. Raises IndexError."""
    following = at + 1
    more = data[at] > 127
    while more.any():
        at = following
        following = at + more
        more &= data[at] > 127
    return following


def _read_old(table: BatchTable, rows: Ints, max_decompressed_bytes: int) -> RecordColumns:
    records: list[Record] = []
    counts: list[int] = []
    for row in rows.tolist():
        before = len(records)
        records += iterate_entry_records(table.content(row), 0, table.header(row), max_decompressed_bytes)
        counts.append(len(records) - before)
    keys = [record.key for record in records]
    key_bytes = np.array([-1 if key is None else len(key) for key in keys], np.int64)
    key_end = np.cumsum(np.maximum(key_bytes, 0))
    none = np.zeros(len(records), np.int64)
    offset = np.array([record.offset for record in records], np.int64)
    if (offset[1:] <= offset[:-1]).any():
        raise InvalidRecord("the offsets of old messages go back")
    return RecordColumns(
        np.frombuffer(b"".join(key or b"" for key in keys), np.uint8),
        np.repeat(rows, counts),
        offset,
        none,
        key_end - np.maximum(key_bytes, 0),
        key_bytes,
        np.array([record.value is not None for record in records], bool),
        none,
        none,
        records,
    )
