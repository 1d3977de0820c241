"""Transactional ids as tools see them: DescribeTransactions and ListTransactions (KIP-664, KIP-994). Pure."""

from barnabas.coordinator.transaction_records import TransactionMetadata, TransactionState
from barnabas.coordinator.transactions.requests import Filters, TransactionDescription
from barnabas.coordinator.transactions.states import COMPLETED, NAMES
from barnabas.coordinator.transactions.transaction import Transaction
from barnabas.protocol.ids import TopicPartition


def describe(transactional_id: str, transaction: Transaction, coordinator_epoch: int) -> TransactionDescription:
    """What can be told of a transactional id."""
    metadata = transaction.metadata
    partitions = transaction.awaiting if metadata.state in COMPLETED else metadata.partitions
    return TransactionDescription(
        transactional_id=transactional_id,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        state=NAMES[metadata.state],
        timeout_ms=metadata.transaction_timeout_ms,
        start_ms=metadata.start_timestamp_ms,
        partitions=tuple(sorted(TopicPartition(*each) for each in partitions)),
        coordinator_epoch=coordinator_epoch,
    )


def is_wanted(metadata: TransactionMetadata, filters: Filters, *, wall_ms: int) -> bool:
    """Whether the filters let an id through. Only what is open has a duration."""
    if filters.states and NAMES[metadata.state] not in filters.states:
        return False
    if filters.producer_ids and metadata.producer_id not in filters.producer_ids:
        return False
    if filters.longer_than_ms < 0:
        return True
    is_open = metadata.state is TransactionState.ONGOING or metadata.state in COMPLETED
    return is_open and wall_ms - metadata.start_timestamp_ms > filters.longer_than_ms
