"""EndTxn, versions 0 to 2: the producer commits or aborts its transaction.

Answered once the decision is replicated; markers go to the partitions afterwards. Who asks again hears NONE when the
transaction is complete and CONCURRENT_TRANSACTIONS before; a decision is never changed.

1 throttled after the answer · 2 PRODUCER_FENCED
"""

from typing import Final

from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import end_txn
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.transaction_access import ask_transaction, error_for


async def handle(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    """Ask the transactional id's coordinator."""
    producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
    found: ErrorCode = await ask_transaction(
        context.broker,
        request.transactional_id,
        lambda machine, ticket, now_ms, wall_ms: machine.end(
            ticket, producer, commit=request.committed, now_ms=now_ms, wall_ms=wall_ms
        ),
        lambda error: error,
    )
    error = error_for(context, found)
    context.broker.metrics.count_error(ApiKey.END_TXN, error)
    return EndTxnResponse(error_code=error)


API: Final[Handler] = Handler(end_txn.API, handle, oldest=0, newest=2)
