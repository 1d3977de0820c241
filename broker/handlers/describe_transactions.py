"""DescribeTransactions, version 0: where transactional ids stand that this broker coordinates (KIP-664).

Each id is answered for itself: TRANSACTIONAL_ID_NOT_FOUND where nobody has used it.
"""

from typing import Final

from barnabas.coordinator.transactions.requests import TransactionDescription
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import describe_transactions
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.transaction_access import ask_transaction


async def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    """Ask for one id after the other."""
    states = [await _describe(transactional_id, context) for transactional_id in request.transactional_ids]
    for state in states:
        context.broker.metrics.count_error(ApiKey.DESCRIBE_TRANSACTIONS, ErrorCode(state.error_code))
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(transactional_id: str, context: RequestContext) -> DescribeTransactionsTransactionState:
    found: TransactionDescription | ErrorCode | None = await ask_transaction(
        context.broker,
        transactional_id,
        lambda machine, ticket, _now_ms, _wall_ms: machine.describe(ticket, transactional_id),
        lambda error: error,
    )
    if not isinstance(found, TransactionDescription):
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if found is None else found
        return DescribeTransactionsTransactionState(error, transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, number in found.partitions:
        topics.setdefault(topic, []).append(number)
    return DescribeTransactionsTransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[DescribeTransactionsTopicData(*each) for each in topics.items()],
        coordinator_leader_epoch=found.coordinator_epoch,
    )


API: Final[Handler] = Handler(describe_transactions.API, handle, oldest=0, newest=0)
