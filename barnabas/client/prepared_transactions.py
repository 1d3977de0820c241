"""Transactions that one producer prepares and somebody else ends, as in a two-phase commit (in the manner of KIP-939).

`Producer.prepare_transaction` writes all there is and leaves the transaction open; the producer may be closed then. Who
has its `PreparedTransaction` ends it from any process, as often as it takes: the coordinator knows what it decided.
Until then it is open for all that Kafka knows: a producer that takes the transactional id over aborts it, as does its
coordinator after `ProducerOptions.transaction_timeout_ms`, which therefore bounds how long the decision may take.
"""

from typing import Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.outgoing import Identity
from barnabas.client.transactions import Transactions


class PreparedTransaction(NamedTuple):
    """An open transaction in which all is written; the producer's id and epoch are those that wrote it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


async def complete_transaction(cluster: Cluster, prepared: PreparedTransaction, *, commit: bool) -> None:
    """Commit or abort it. Returns as well where it ended so before. Raises ClientError.

    After ProducerFenced it was aborted, by its successor or its time-out, unless an attempt of ours that was not
    answered committed it before; KafkaError with INVALID_TXN_STATE: it ended the other way. After RequestTimedOut it is
    not known: call it again.
    """
    transactions = Transactions(
        cluster,
        prepared.transactional_id,
        timeout_ms=_NO_TIMEOUT,
        on_partitions_added=lambda: None,
        on_failed=lambda _: None,
    )
    await transactions.complete(Identity(prepared.producer_id, prepared.producer_epoch), commit=commit)


_NO_TIMEOUT: Final = 0
"""It begins none."""
