"""Which batches of a log are of aborted transactions, and which markers have nothing left that they would end (KIP-98).

It is told of every transactional batch and every marker of a log in their order, from wherever a walk over it begins.
A marker may go when no batch of its transaction was met: then earlier cleanings have removed them all. A batch that
was met keeps the marker this time, whatever becomes of its records.

An aborted transaction is believed in only up to its own marker, so that an entry too many costs no later record.
"""

from collections import deque
from collections.abc import Iterable
from operator import attrgetter

from barnabas.storage.txn_index import AbortedTxn


class CleanedTransactions:
    """The transactions that are open at a point of the walk."""

    __slots__ = ("_aborted", "_met", "_open_aborted", "kept_aborted")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = deque(sorted(aborted, key=attrgetter("first_offset")))
        self._open_aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()
        self.kept_aborted: list[AbortedTxn] = []
        """The aborted transactions whose marker stays, as the index of the cleaned segment must list them."""

    def is_aborted(self, producer_id: int, *, base_offset: int, last_offset: int) -> bool:
        """Note a transactional data batch; whether it is of an aborted transaction."""
        self._met.add(producer_id)
        self._open_up_to(last_offset)
        txn = self._open_aborted.get(producer_id)
        return txn is not None and txn.first_offset <= base_offset and last_offset < txn.last_offset

    def may_remove_marker(self, producer_id: int, *, offset: int) -> bool:
        """Note the marker of a producer; whether no batch of its transaction was met."""
        self._open_up_to(offset)
        txn = self._open_aborted.pop(producer_id, None)
        if producer_id not in self._met:
            return True
        self._met.remove(producer_id)
        if txn is not None and txn.last_offset == offset:
            self.kept_aborted.append(txn)
        return False

    def _open_up_to(self, offset: int) -> None:
        aborted = self._aborted
        while aborted and aborted[0].first_offset <= offset:
            txn = aborted.popleft()
            self._open_aborted[txn.producer_id] = txn
