"""AddOffsetsToTxn, versions 0 to 2: the offsets of a group join the producer's transaction.

What joins is the partition of `__consumer_offsets` that has the group. Where the topic is not there yet it is made, and
the answer is COORDINATOR_NOT_AVAILABLE, for which the producer asks again.

1 throttled after the answer · 2 PRODUCER_FENCED
"""

import logging
from typing import Final

from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import add_offsets_to_txn
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from broker.internal_topic_creation import create_internal_topic
from broker.internal_topics import CONSUMER_OFFSETS
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.transaction_access import ask_transaction, error_for
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)


async def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    """Ask the transactional id's coordinator, for the group's partition."""
    error = error_for(context, await _add(request, context))
    context.broker.metrics.count_error(ApiKey.ADD_OFFSETS_TO_TXN, error)
    return AddOffsetsToTxnResponse(error_code=error)


async def _add(request: AddOffsetsToTxnRequest, context: RequestContext) -> ErrorCode:
    broker = context.broker
    try:
        number = await broker.coordination.partition_of(CONSUMER_OFFSETS, request.group_id)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("which partition has group %.300r is not known: %s", request.group_id, error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if number is None:
        await create_internal_topic(broker, CONSUMER_OFFSETS)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
    partitions = frozenset({TopicPartition(CONSUMER_OFFSETS, number)})
    found: ErrorCode = await ask_transaction(
        broker,
        request.transactional_id,
        lambda machine, ticket, now_ms, wall_ms: machine.add_partitions(
            ticket, producer, partitions, now_ms=now_ms, wall_ms=wall_ms
        ),
        lambda error: error,
    )
    return found


API: Final[Handler] = Handler(add_offsets_to_txn.API, handle, oldest=0, newest=2)
