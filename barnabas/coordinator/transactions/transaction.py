"""One transactional id: what the log holds of it, and what only this life of the coordinator knows. Pure.

`Transaction.metadata` changes by `replayed` alone. The functions below give the metadata that a record is to carry
next; each asserts that the table of states allows it.
"""

from dataclasses import dataclass, field
from typing import Final

from barnabas.coordinator.transaction_records import TransactionMetadata, TransactionState
from barnabas.coordinator.transactions.producer_identity import EXHAUSTED_EPOCH
from barnabas.coordinator.transactions.states import COMPLETED, IDLE, VALID_PREVIOUS, prepared
from barnabas.protocol.ids import TopicPartition

_NO_TIME: Final = -1
_NEVER_STORED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})


@dataclass(slots=True)
class Transaction:
    """A transactional id. Times are of the monotonic clock: how far two brokers' wall clocks differ must not matter."""

    metadata: TransactionMetadata
    touched_ms: int
    """When the metadata last changed."""
    started_ms: int
    """When the open transaction began, or was loaded."""
    awaiting: set[TopicPartition] = field(default_factory=set)
    """Partitions that lack the marker; only of a transaction that completes."""

    def replayed(self, metadata: TransactionMetadata, *, now_ms: int) -> None:
        """A record with `metadata` stands in the log."""
        if metadata.state is TransactionState.ONGOING and self.metadata.state is not TransactionState.ONGOING:
            self.started_ms = now_ms
        self.awaiting = awaiting_of(metadata)
        self.metadata = metadata
        self.touched_ms = now_ms


def awaiting_of(metadata: TransactionMetadata) -> set[TopicPartition]:
    """The partitions that lack the marker when the log says `metadata`: it names none that have it already."""
    if metadata.state not in COMPLETED:
        return set()
    return {TopicPartition(topic, partition) for topic, partition in metadata.partitions}


def require_storable(metadata: TransactionMetadata) -> None:
    """Raises ValueError for what no coordinator writes."""
    if metadata.state in _NEVER_STORED:
        raise ValueError(f"a transaction in state {metadata.state.name}")
    if metadata.state is TransactionState.ONGOING and metadata.producer_epoch > EXHAUSTED_EPOCH:
        raise ValueError(f"an open transaction in epoch {metadata.producer_epoch}, which is kept for its fence")


def _next(before: TransactionMetadata, after: TransactionMetadata) -> TransactionMetadata:
    assert before.state in VALID_PREVIOUS[after.state], (before, after)
    return after


def initialised(
    before: TransactionMetadata | None, *, producer_id: int, producer_epoch: int, timeout_ms: int, wall_ms: int
) -> TransactionMetadata:
    """A producer has its id and epoch; nothing is open."""
    after = TransactionMetadata(producer_id, producer_epoch, timeout_ms, TransactionState.EMPTY, (), wall_ms, _NO_TIME)
    return after if before is None else _next(before, after)


def with_partitions(
    before: TransactionMetadata, added: frozenset[TopicPartition], *, wall_ms: int
) -> TransactionMetadata:
    """`added` join the transaction, which begins if none is open."""
    begins = before.state in IDLE
    return _next(
        before,
        before._replace(
            state=TransactionState.ONGOING,
            partitions=(*before.partitions, *sorted(added.difference(before.partitions))),
            last_update_timestamp_ms=wall_ms,
            start_timestamp_ms=wall_ms if begins else before.start_timestamp_ms,
        ),
    )


def ended(before: TransactionMetadata, *, commit: bool, wall_ms: int) -> TransactionMetadata:
    """The decision about an open transaction."""
    return _next(before, before._replace(state=prepared(commit=commit), last_update_timestamp_ms=wall_ms))


def fenced(before: TransactionMetadata, *, wall_ms: int) -> TransactionMetadata:
    """An open transaction is aborted in the epoch after its producer's, who can do nothing any more."""
    after = ended(before, commit=False, wall_ms=wall_ms)
    return after._replace(producer_epoch=before.producer_epoch + 1)


def completed(before: TransactionMetadata, *, wall_ms: int) -> TransactionMetadata:
    """All markers are written."""
    return _next(
        before, before._replace(state=COMPLETED[before.state], partitions=(), last_update_timestamp_ms=wall_ms)
    )
