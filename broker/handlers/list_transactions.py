"""ListTransactions, versions 0 and 1: the transactional ids that this broker coordinates (KIP-664).

While one of its coordinators is loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, and nothing else, as in Kafka. Names
that no state has are told; where all filters are such names nothing is found. Only what is open has a duration.

1 filter by duration (KIP-994)
"""

from typing import Final

from barnabas.coordinator.transactions.requests import Filters, TransactionDescription
from barnabas.coordinator.transactions.states import STATE_BY_NAME
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import list_transactions
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)
from broker.registry import Handler
from broker.request_context import RequestContext


async def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    """Ask each coordinator of this broker."""
    filters = Filters(frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter)
    found: list[TransactionDescription] = []
    for shard in tuple(context.broker.coordination.transactions.values()):
        listed: list[TransactionDescription] | ErrorCode = await shard.run(
            lambda machine, ticket, _now_ms, wall_ms: machine.listing(ticket, filters, wall_ms=wall_ms),
            on_lost=lambda error: error,
        )
        if not isinstance(listed, ErrorCode):
            found += listed
        elif listed is not ErrorCode.NOT_COORDINATOR:
            context.broker.metrics.count_error(ApiKey.LIST_TRANSACTIONS, listed)
            return ListTransactionsResponse(error_code=listed)
    context.broker.metrics.count_error(ApiKey.LIST_TRANSACTIONS, ErrorCode.NONE)
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in STATE_BY_NAME],
        transaction_states=[
            ListTransactionsTransactionState(each.transactional_id, each.producer_id, each.state) for each in found
        ],
    )


API: Final[Handler] = Handler(list_transactions.API, handle, oldest=0, newest=1)
