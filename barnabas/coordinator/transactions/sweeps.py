"""What time does to transactional ids: transactions whose time is up, ids that nobody uses any more. Pure.

All times here are monotonic. A batch of the internal topic has a limit, and many records are written at once here: an
expiry of thousands of ids must not fail for ever because it does not fit (KAFKA-13099).
"""

from collections.abc import Sequence

from barnabas.coordinator.batches import batch_size, most_bytes
from barnabas.coordinator.outcome import CoordinatorRecord
from barnabas.coordinator.transactions.states import IDLE
from barnabas.coordinator.transactions.transaction import Transaction


def is_overdue(ongoing: Transaction, *, now_ms: int) -> bool:
    """Whether an open transaction has lasted longer than its producer allowed."""
    return now_ms - ongoing.started_ms > ongoing.metadata.transaction_timeout_ms


def is_forgotten(transaction: Transaction, *, now_ms: int, expiration_ms: int) -> bool:
    """Whether nothing is open and nobody has used the id for `expiration_ms`."""
    return transaction.metadata.state in IDLE and now_ms - transaction.touched_ms >= expiration_ms


class BatchRoom:
    """How much more one batch holds. What comes first always fits: smaller it cannot be had."""

    def __init__(self, max_batch_bytes: int) -> None:
        self._max_batch_bytes = max_batch_bytes
        self._records_bytes = 0

    def takes(self, records: Sequence[CoordinatorRecord]) -> bool:
        """Whether `records`, all of them, still fit; then they count."""
        records_bytes = self._records_bytes + most_bytes(records)
        if self._records_bytes and batch_size(records_bytes) > self._max_batch_bytes:
            return False
        self._records_bytes = records_bytes
        return True
