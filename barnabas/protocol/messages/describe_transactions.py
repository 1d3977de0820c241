"""DescribeTransactions (API key 65): where transactional ids stand (KIP-664).

Tools send it to the ids' coordinators. Kafka has it since 3.0.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    """Which ids; none are no ids."""

    transactional_ids: list[Str] = field(default_factory=list)


@struct
class DescribeTransactionsTopicData:
    """Partitions of one topic that are part of the transaction."""

    topic: Str = ""
    partitions: list[I32] = field(default_factory=list)


@struct
class DescribeTransactionsTransactionState:
    """One id; while its transaction completes, `topics` has what lacks the marker.

    `coordinator_leader_epoch` is our own, in a tagged field that others skip: who has a marker of a later epoch knows
    by it that this coordinator has been replaced and does not know it.
    """

    error_code: I16 = 0
    transactional_id: Str = ""
    transaction_state: Str = ""
    transaction_timeout_ms: I32 = 0
    transaction_start_time_ms: I64 = 0
    producer_id: I64 = 0
    producer_epoch: I16 = 0
    topics: list[DescribeTransactionsTopicData] = field(default_factory=list)
    coordinator_leader_epoch: I32 = field(default=-1, since=0, tag=10_000, ignorable=True)


@message(versions=(0, 0), flexible=0)
class DescribeTransactionsResponse:
    """The ids, in the order in which they were asked for."""

    throttle_time_ms: I32 = 0
    transaction_states: list[DescribeTransactionsTransactionState] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, DescribeTransactionsResponse)
