"""The aborted transactions of a segment and their file, `.txnindex` (KIP-98).

An entry stands in the segment that holds the transaction's abort marker: version (0) i16, producer id, first offset,
offset of the marker and the last stable offset right after it, i64 each. Entries follow their markers. The file is
made with the first abort; like the other indexes it is written when the segment is closed, and rebuilt from the log
after a crash.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from barnabas.storage.index import CorruptIndex

_VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """An aborted transaction; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedSearch(NamedTuple):
    """What one segment told of a range; `complete` when no later segment can add to it."""

    transactions: list[AbortedTxn]
    complete: bool


def encode_aborted(transactions: Iterable[AbortedTxn]) -> bytes:
    """The content of a `.txnindex` file."""
    return b"".join(_ENTRY.pack(_VERSION, *txn) for txn in transactions)


def decode_aborted(data: bytes, *, base_offset: int) -> list[AbortedTxn]:
    """Read a `.txnindex` file of the segment at `base_offset`. Raises CorruptIndex."""
    if len(data) % _ENTRY.size:
        raise CorruptIndex(f"{len(data)} bytes are not a number of entries")
    transactions: list[AbortedTxn] = []
    for version, *fields in _ENTRY.iter_unpack(data):
        if version != _VERSION:
            raise CorruptIndex(f"version {version} of an aborted transaction is not known")
        txn = AbortedTxn(*fields)
        least = transactions[-1].last_offset + 1 if transactions else base_offset
        if txn.last_offset < least or txn.first_offset > txn.last_offset:
            raise CorruptIndex(f"the entry of offsets {txn.first_offset} to {txn.last_offset} is out of order")
        transactions.append(txn)
    return transactions


def search_aborted(transactions: Iterable[AbortedTxn], *, start: int, upper: int) -> AbortedSearch:
    """The transactions with a record in [start, upper), as far as this segment's entries tell."""
    found: list[AbortedTxn] = []
    for txn in transactions:
        if txn.last_offset >= start and txn.first_offset < upper:
            found.append(txn)
        if txn.last_stable_offset >= upper:
            return AbortedSearch(found, complete=True)
    return AbortedSearch(found, complete=False)
