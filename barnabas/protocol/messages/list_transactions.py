"""ListTransactions (API key 66): the transactional ids that a broker coordinates (KIP-664).

Tools send it to every broker. Kafka has it since 3.0.

Version 0 is flexible.
Version 1 adds a filter by duration (KIP-994).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@message(versions=(0, 1), flexible=0)
class ListTransactionsRequest:
    """Which ids; filters that are empty, or below 0, leave nothing out."""

    state_filters: list[Str] = field(default_factory=list)
    producer_id_filters: list[I64] = field(default_factory=list)
    duration_filter: I64 = field(default=-1, since=1)


@struct
class ListTransactionsTransactionState:
    """One id."""

    transactional_id: Str = ""
    producer_id: I64 = 0
    transaction_state: Str = ""


@message(versions=(0, 1), flexible=0)
class ListTransactionsResponse:
    """The ids; `unknown_state_filters` are names that no state has."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    unknown_state_filters: list[Str] = field(default_factory=list)
    transaction_states: list[ListTransactionsTransactionState] = field(default_factory=list)


API: Final = Api(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest, ListTransactionsResponse)
