"""What is asked of a transaction coordinator and what it answers, apart from the wire's versions. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from barnabas.coordinator.transactions.producer_identity import ProducerIdentity
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition


class Producer(NamedTuple):
    """Who asks: a transactional id and the identity that the producer has for it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Initialise:
    """A producer begins, or with `expected` goes on (KIP-360).

    `fresh_producer_id` is an id that was never used, None if none has been fetched yet.
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdentity | None = None
    fresh_producer_id: int | None = None


class Initialised(NamedTuple):
    """The answer to `Initialise`: an identity where there is no error."""

    error: ErrorCode
    identity: ProducerIdentity


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id as DescribeTransactions and ListTransactions tell of it (KIP-664).

    `partitions` are those of the open transaction; of one that completes, those that still lack the marker.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    """The leader epoch in which this coordinator has its partition of the log."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Which ids ListTransactions wants. Empty sets and a negative duration leave nothing out."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
