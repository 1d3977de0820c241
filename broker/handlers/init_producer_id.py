"""InitProducerId, versions 0 to 4: an id and an epoch for a producer (KIP-98).

One without a transactional id gets an id that nobody had, from any broker. One with a transactional id asks that id's
coordinator: the epoch rises, so that whoever produced under it before is fenced, and what that one has open is aborted
first. Where it takes more than 20 ms to complete the answer is CONCURRENT_TRANSACTIONS.

With an id and epoch of its own (KIP-360) a transactional producer goes on after an error, unless it was fenced; one
without the other is answered INVALID_REQUEST. A producer without a transactional id gets a new id all the same, as in
Kafka 2.7.

2 flexible · 3 the producer's own id and epoch · 4 PRODUCER_FENCED
"""

import logging
from typing import Final

from barnabas.coordinator.transactions.producer_identity import NewIdNeeded, ProducerIdentity
from barnabas.coordinator.transactions.requests import Initialise, Initialised
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import init_producer_id
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.transaction_access import ask_transaction, error_for
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError
from zk_schema.producer_id_block import ProducerIdsExhausted

log = logging.getLogger(__name__)

_NO_ID: Final = -1
_NO_EPOCH: Final = -1
_FIRST_EPOCH: Final = 0
_FENCED_SINCE: Final = 4
_NO_IDENTITY: Final = ProducerIdentity(_NO_ID, _NO_EPOCH)


class _NoProducerId(Exception):
    """There is no id to be had."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


def refuse(request: InitProducerIdRequest, *, max_transaction_timeout_ms: int) -> ErrorCode:
    """What is wrong with a request, NONE if nothing is."""
    if (request.producer_id == _NO_ID) != (request.producer_epoch == _NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= max_transaction_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


async def handle(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    """Hand out an identity; ZooKeeper is asked once in a thousand."""
    broker = context.broker
    error = refuse(request, max_transaction_timeout_ms=broker.config.transaction_max_timeout_ms)
    identity = _NO_IDENTITY
    if error is ErrorCode.NONE:
        try:
            if request.transactional_id is None:
                identity = ProducerIdentity(await _new_id(context), _FIRST_EPOCH)
            else:
                error, identity = await _initialise(request.transactional_id, request, context)
        except _NoProducerId as failure:
            error = failure.error
    error = error_for(context, error, fenced_since=_FENCED_SINCE)
    broker.metrics.count_error(ApiKey.INIT_PRODUCER_ID, error)
    return InitProducerIdResponse(
        error_code=error, producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
    )


async def _initialise(transactional_id: str, request: InitProducerIdRequest, context: RequestContext) -> Initialised:
    """Ask the coordinator; where it needs a new id, once more with one."""
    expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    asked = Initialise(transactional_id, request.transaction_timeout_ms, None if expected == _NO_IDENTITY else expected)
    found = await _ask(asked, context)
    if isinstance(found, NewIdNeeded):
        found = await _ask(
            Initialise(transactional_id, asked.timeout_ms, asked.expected, await _new_id(context)), context
        )
    assert isinstance(found, Initialised), found
    return found


async def _ask(asked: Initialise, context: RequestContext) -> Initialised | NewIdNeeded:
    found: Initialised | NewIdNeeded = await ask_transaction(
        context.broker,
        asked.transactional_id,
        lambda machine, ticket, now_ms, wall_ms: machine.initialise(ticket, asked, now_ms=now_ms, wall_ms=wall_ms),
        lambda error: Initialised(error, _NO_IDENTITY),
    )
    return found


async def _new_id(context: RequestContext) -> int:
    """Raises _NoProducerId."""
    try:
        return await context.broker.producer_ids.next_id()
    except ZooKeeperError as failure:
        log.warning("no producer ids: %s", failure)
        raise _NoProducerId(ErrorCode.COORDINATOR_NOT_AVAILABLE) from failure
    except (ProducerIdsExhausted, InvalidPayload) as failure:
        log.error("no producer ids: %s", failure)
        raise _NoProducerId(ErrorCode.UNKNOWN_SERVER_ERROR) from failure


API: Final[Handler] = Handler(init_producer_id.API, handle, oldest=0, newest=4)
