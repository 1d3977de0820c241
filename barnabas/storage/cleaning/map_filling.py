"""Filling the offset map from the dirty part of a log, batch by batch, until it is full or the part ends.

The records of aborted transactions, markers and records without a key are not in it. Whatever lies below `end_offset`
and may be superseded is: where the map is full inside of a batch, its later records count as not mapped.
"""

from collections.abc import Iterable

import numpy as np

from barnabas.storage.cleaning.batch_table import BatchTable, Bools
from barnabas.storage.cleaning.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaning.key_hash import KeyHash
from barnabas.storage.cleaning.offset_map import OffsetMap
from barnabas.storage.cleaning.record_columns import read_columns
from barnabas.storage.txn_index import AbortedTxn


class MapFilling:
    """The state of the walk: up to `end_offset` the log is in the map."""

    __slots__ = ("_first_dirty_offset", "_key_hash", "_max_decompressed_bytes", "_transactions", "end_offset", "map")

    def __init__(
        self,
        offset_map: OffsetMap,
        key_hash: KeyHash,
        aborted: Iterable[AbortedTxn],
        *,
        first_dirty_offset: int,
        max_decompressed_bytes: int,
    ) -> None:
        self.map = offset_map
        self.end_offset = self._first_dirty_offset = first_dirty_offset
        self._key_hash = key_hash
        self._transactions = CleanedTransactions(aborted)
        self._max_decompressed_bytes = max_decompressed_bytes

    def add(self, table: BatchTable) -> bool:
        """Take in the table's batches; False when the map was full before their end. Raises a CorruptBatch."""
        first_dirty = self._first_dirty_offset
        is_wanted = ~table.is_control & (table.record_count != 0) & (table.last_offset >= first_dirty)
        is_wanted &= ~find_aborted(table, self._transactions)
        for columns in read_columns(table, np.flatnonzero(is_wanted), self._max_decompressed_bytes):
            chosen = np.flatnonzero((columns.key_bytes >= 0) & (columns.offset >= first_dirty))
            offset = columns.offset[chosen]
            hashes = self._key_hash.of(columns.data, columns.key_at[chosen], columns.key_bytes[chosen])
            taken = self.map.insert(hashes, offset)
            if taken < len(chosen):
                self.end_offset = int(offset[taken])
                return False
            del columns
        self.end_offset = max(self.end_offset, int(table.last_offset[-1]) + 1)
        return True

    def pass_segment(self, next_base_offset: int) -> None:
        """Say that a segment is mapped to its end: offsets that are missing there are mapped too."""
        self.end_offset = max(self.end_offset, next_base_offset)


def find_aborted(table: BatchTable, transactions: CleanedTransactions) -> Bools:
    """Which of the table's data batches are of aborted transactions; markers are not looked at."""
    is_aborted = np.zeros(len(table), bool)
    rows = np.flatnonzero(table.is_transactional & ~table.is_control)
    if len(rows) == 0:
        return is_aborted
    columns = (rows, table.producer_id[rows], table.base_offset[rows], table.last_offset[rows])
    for row, producer_id, base_offset, last_offset in zip(*(column.tolist() for column in columns), strict=True):
        is_aborted[row] = transactions.is_aborted(producer_id, base_offset=base_offset, last_offset=last_offset)
    return is_aborted
