"""InitProducerId, versions 0 to 4: an id and epoch 0 for an idempotent producer (KIP-98), from any broker.

An id without an epoch, or an epoch without an id, is answered INVALID_REQUEST (KIP-360); with both, a producer without
a transactional id gets a new id all the same, as in Kafka 2.7.

Not built yet: transactions. An empty transactional id is answered INVALID_REQUEST and a timeout that is not allowed
INVALID_TRANSACTION_TIMEOUT, any other COORDINATOR_NOT_AVAILABLE.

2 flexible · 3 the producer's own id and epoch · 4 PRODUCER_FENCED
"""

import logging
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import init_producer_id
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.registry import Handler
from broker.services import RequestContext
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError
from zk_schema.producer_id_block import ProducerIdsExhausted

log = logging.getLogger(__name__)

_NO_ID: Final = -1
_NO_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0


def refuse(request: InitProducerIdRequest, *, max_transaction_timeout_ms: int) -> ErrorCode:
    """Why a request gets no id, NONE if it gets one."""
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= max_transaction_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Hand out an id; ZooKeeper is asked once in a thousand."""
    broker = context.broker
    error = refuse(request, max_transaction_timeout_ms=broker.config.transaction_max_timeout_ms)
    if error is ErrorCode.NONE:
        try:
            producer_id = await broker.producer_ids.next_id()
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=_FIRST_EPOCH)
        except ZooKeeperError as failure:
            log.warning("no producer ids: %s", failure)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        except (ProducerIdsExhausted, InvalidPayload) as failure:
            log.error("no producer ids: %s", failure)
            error = ErrorCode.UNKNOWN_SERVER_ERROR
    broker.metrics.count_error(ApiKey.INIT_PRODUCER_ID, error)
    return InitProducerIdResponse(error_code=error, producer_id=_NO_ID, producer_epoch=_NO_EPOCH)


API: Final = Handler(init_producer_id.API, handle, oldest=0, newest=4)
