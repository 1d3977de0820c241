"""Which records and batches of a segment stay, and the bytes that they become (KIP-58, KIP-98).

A record stays when the offset map ends before it, or when it is the newest of its key and has a value, or is a
tombstone whose time has not come. A record without a key goes. So does all of an aborted transaction, at once. A marker
goes when its time has come and nothing of its transaction was met; keys of markers have nothing to do with keys of
records. Of an active producer the last batch stays, without records if need be, as it has the last sequence, and so
does the last committed one; where the log knows of a producer only by its marker, that stays.

A batch that keeps all of its records keeps all of its bytes. One that loses some keeps its offsets, sequences, first
timestamp and codec, so that the others stay as they are within it; only its greatest timestamp, its record count and
its checksum change. Offsets never change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from barnabas.protocol.batch import CODEC_MASK, NO_TIMESTAMP, Codec, frame
from barnabas.protocol.compression import compress
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.storage.cleaning.batch_table import BatchTable, Bools
from barnabas.storage.cleaning.clean_job import LastOfProducer
from barnabas.storage.cleaning.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaning.key_hash import Ints, KeyHash
from barnabas.storage.cleaning.offset_map import OffsetMap
from barnabas.storage.cleaning.record_columns import RecordColumns, read_columns
from barnabas.storage.scan import read_end_txn
from barnabas.storage.txn_index import AbortedTxn

_COPY: Final = 0
_DROP: Final = 1
_REPLACE: Final = 2


@dataclass(slots=True)
class KeptBatches:
    """What is left of a table: the bytes of its batches, one after the other, and what an index asks of each."""

    data: bytearray
    size_bytes: Ints
    last_offset: Ints
    max_timestamp: Ints

    def __len__(self) -> int:
        return len(self.size_bytes)


@dataclass(slots=True)
class FilterCounts:
    """Of the records that were looked at. Those of aborted transactions and markers are not among them."""

    read: int = 0
    kept: int = 0
    without_key: int = 0
    buffer_bytes: int = 0
    """The most that the records of one table took, as they lay in memory."""


class RecordFilter:
    """Goes through the batches of a log in order, from its first to the last of the segments to be cleaned."""

    __slots__ = (
        "_end_offset",
        "_key_hash",
        "_last_batches",
        "_last_markers",
        "_last_offsets",
        "_map",
        "_max_decompressed_bytes",
        "_transactions",
        "counts",
    )

    def __init__(
        self,
        offset_map: OffsetMap,
        key_hash: KeyHash,
        transactions: CleanedTransactions,
        producers: Iterable[LastOfProducer],
        *,
        end_offset: int,
        max_decompressed_bytes: int,
    ) -> None:
        self._map = offset_map
        self._key_hash = key_hash
        self._transactions = transactions
        self._end_offset = end_offset
        self._max_decompressed_bytes = max_decompressed_bytes
        self._last_batches: dict[int, int] = {}
        self._last_markers: dict[int, int] = {}
        for last in producers:
            if last.last_data_offset >= 0:
                self._last_batches[last.last_data_offset] = last.producer_id
            else:
                self._last_markers[last.producer_id] = last.epoch
        self._last_offsets = np.array(sorted(self._last_batches), np.int64)
        self.counts = FilterCounts()

    def apply(self, table: BatchTable, *, keeps_deletes: bool) -> KeptBatches:
        """What is left of the table. Raises a CorruptBatch."""
        action = np.full(len(table), _COPY)
        is_aborted = self._note_transactions(table, action, keeps_deletes)
        is_data = ~table.is_control
        action[is_data & (is_aborted | (table.record_count == 0))] = _DROP
        replacements: dict[int, bytes] = {}
        size_bytes = table.end - table.start
        last_offset, max_timestamp = table.last_offset.copy(), table.max_timestamp.copy()
        wanted = np.flatnonzero(is_data & (action == _COPY))
        held = 0
        for columns in read_columns(table, wanted, self._max_decompressed_bytes):
            held = max(held, columns.memory_bytes)
            keep = self._keep(columns, keeps_deletes=keeps_deletes)
            present = np.bincount(columns.row, minlength=len(table))
            kept = np.bincount(columns.row[keep], minlength=len(table))
            action[(present > 0) & (kept == 0)] = _DROP
            is_part = (kept > 0) & (kept < present)
            if is_part.any():
                chosen = np.flatnonzero(keep & is_part[columns.row])
                for batch in _rebuild(table, columns, chosen):
                    row = batch.row
                    action[row], replacements[row] = _REPLACE, batch.data
                    last_offset[row], max_timestamp[row] = batch.last_offset, batch.max_timestamp
            del columns
        self.counts.buffer_bytes = max(self.counts.buffer_bytes, held + 2 * len(table.data))
        for row in self._lasts_of_producers(table, action):
            action[row], replacements[row] = _REPLACE, _emptied(table, row)
        for row, batch_bytes in replacements.items():
            size_bytes[row] = len(batch_bytes)
        stays = action != _DROP
        data = _join(table, action, replacements)
        return KeptBatches(data, size_bytes[stays], last_offset[stays], max_timestamp[stays])

    def take_aborted(self) -> list[AbortedTxn]:
        """The aborted transactions whose marker stayed since this was asked last, for the index of the segment."""
        aborted = self._transactions.kept_aborted
        self._transactions.kept_aborted = []
        return aborted

    def _note_transactions(self, table: BatchTable, action: Ints, keeps_deletes: bool) -> Bools:
        """Walk over the transactional batches in order; which data is aborted, and in `action` which markers go."""
        is_aborted = np.zeros(len(table), bool)
        is_control = table.is_control
        rows = np.flatnonzero(table.is_transactional | is_control)
        if len(rows) == 0:
            return is_aborted
        columns = (rows, table.producer_id[rows], table.base_offset[rows], table.last_offset[rows])
        for row, producer_id, base_offset, last_offset in zip(*(column.tolist() for column in columns), strict=True):
            if not is_control[row]:
                is_aborted[row] = self._transactions.is_aborted(
                    producer_id, base_offset=base_offset, last_offset=last_offset
                )
            elif self._may_remove(table, row, producer_id, base_offset) and not keeps_deletes:
                action[row] = _DROP
        return is_aborted

    def _may_remove(self, table: BatchTable, row: int, producer_id: int, offset: int) -> bool:
        if table.record_count[row] > 0:
            # A control record that ends no transaction is none of ours.
            if read_end_txn(table.content(row), table.header(row)) is None:
                return False
            if not self._transactions.may_remove_marker(producer_id, offset=offset):
                return False
        return self._last_markers.get(producer_id) != int(table.producer_epoch[row])

    def _keep(self, columns: RecordColumns, *, keeps_deletes: bool) -> Bools:
        """Which of these records stay."""
        has_key = columns.key_bytes >= 0
        keep = columns.offset >= self._end_offset
        judged = np.flatnonzero(has_key & ~keep)
        if len(judged):
            hashes = self._key_hash.of(columns.data, columns.key_at[judged], columns.key_bytes[judged])
            is_newest = columns.offset[judged] >= self._map.find(hashes)
            keep[judged] = is_newest if keeps_deletes else is_newest & columns.has_value[judged]
        counts = self.counts
        counts.read += len(columns)
        counts.kept += int(np.count_nonzero(keep))
        counts.without_key += int(np.count_nonzero(~has_key & ~keep))
        return keep

    def _lasts_of_producers(self, table: BatchTable, action: Ints) -> list[int]:
        """The batches that would go and are the last of their producers."""
        if not self._last_batches:
            return []
        dropped = np.flatnonzero((action == _DROP) & ~table.is_control)
        places = np.searchsorted(self._last_offsets[:-1], table.last_offset[dropped])
        found = dropped[self._last_offsets[places] == table.last_offset[dropped]]
        columns = (found, table.last_offset[found], table.producer_id[found])
        return [
            row
            for row, last_offset, producer_id in zip(*(column.tolist() for column in columns), strict=True)
            if self._last_batches[last_offset] == producer_id
        ]


@dataclass(slots=True)
class _Rebuilt:
    row: int
    data: bytes
    last_offset: int
    max_timestamp: int


def _rebuild(table: BatchTable, columns: RecordColumns, chosen: Ints) -> list[_Rebuilt]:
    """The batches of which only the chosen records stay, some of each."""
    row = columns.row[chosen]
    begins = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    newest = np.maximum.reduceat(columns.timestamps(table, chosen), begins).tolist()
    if columns.old_records is not None:
        return [
            _rewrap(table, int(row[begin]), columns, chosen[begin:end], max_timestamp)
            for begin, end, max_timestamp in zip(
                begins.tolist(), [*begins[1:].tolist(), len(chosen)], newest, strict=True
            )
        ]
    # Neighbours that stay are copied as one.
    is_run = np.append(True, (chosen[1:] != chosen[:-1] + 1) | (row[1:] != row[:-1]))
    firsts = np.flatnonzero(is_run)
    lasts = np.append(firsts[1:], len(chosen)) - 1
    data = columns.data.data
    runs = [
        data[start:end]
        for start, end in zip(columns.start[chosen[firsts]].tolist(), columns.end[chosen[lasts]].tolist(), strict=True)
    ]
    run_begins = np.searchsorted(firsts, begins).tolist()
    counts = np.diff(np.append(begins, len(chosen))).tolist()
    rebuilt: list[_Rebuilt] = []
    for place, at in enumerate(row[begins].tolist()):
        run_end = run_begins[place + 1] if place + 1 < len(run_begins) else len(runs)
        header = table.header(at)
        header.max_timestamp = newest[place]
        header.record_count = counts[place]
        stays = runs[run_begins[place] : run_end]
        # What is one piece may be large, and is not copied.
        batch = frame(header, compress(header.codec, stays[0] if len(stays) == 1 else b"".join(stays)))
        rebuilt.append(_Rebuilt(at, batch, header.last_offset, header.max_timestamp))
    return rebuilt


def _rewrap(table: BatchTable, row: int, columns: RecordColumns, chosen: Ints, max_timestamp: int) -> _Rebuilt:
    """A wrapper of format 0 or 1 around the records that stay; its offset is that of the last of them."""
    assert columns.old_records is not None
    records = [columns.old_records[place] for place in chosen.tolist()]
    append_time = int(table.max_timestamp[row]) if table.uses_log_append_time[row] else None
    codec = Codec(int(table.attributes[row]) & CODEC_MASK)
    builder = EntryBuilder(magic=int(table.magic[row]), codec=codec, log_append_time_ms=append_time)
    builder.add(records)
    return _Rebuilt(row, builder.finish(), records[-1].offset, max_timestamp)


def _emptied(table: BatchTable, row: int) -> bytes:
    """The batch without its records; Kafka leaves the same."""
    header = table.header(row)
    header.attributes &= ~CODEC_MASK
    header.first_timestamp = NO_TIMESTAMP
    header.record_count = 0
    return frame(header, b"")


def _join(table: BatchTable, action: Ints, replacements: dict[int, bytes]) -> bytearray:
    """The bytes of what stays: stretches as they are, and replacements between them."""
    data = bytearray()
    view = memoryview(table.data)
    changed = np.flatnonzero(action != _COPY)
    copied_to = 0
    for row, start, end in zip(
        changed.tolist(), table.start[changed].tolist(), table.end[changed].tolist(), strict=True
    ):
        if copied_to < start:
            data += view[copied_to:start]
        replacement = replacements.get(row)
        if replacement is not None:
            data += replacement
        copied_to = end
    data += view[copied_to : table.size_bytes]
    return data
