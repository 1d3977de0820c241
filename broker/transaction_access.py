"""Asking the coordinator of a transactional id, with Kafka's errors where it is not this broker."""

import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.coordinator.entries import Lost
from barnabas.coordinator.outcome import Outcome, Ticket
from barnabas.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.primitives import MAX_TEXT_BYTES
from broker.request_context import RequestContext
from broker.services import Services
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

FENCED_SINCE: Final = 2
"""The version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn from which clients know PRODUCER_FENCED (KIP-588)."""

TransactionCall = Callable[[TransactionCoordinator, Ticket, int, int], Outcome]
"""Called with the machine, a ticket, now_ms and wall_ms."""


async def ask_transaction(broker: Services, transactional_id: str, call: TransactionCall, on_lost: Lost) -> Any:
    """What the coordinator of a transactional id answers, or what `on_lost` makes of the error for which it cannot.

    That is INVALID_REQUEST for what can be no such id, else COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or
    COORDINATOR_LOAD_IN_PROGRESS.
    """
    if not is_transactional_id(transactional_id):
        return on_lost(ErrorCode.INVALID_REQUEST)
    try:
        shard = await broker.coordination.transaction_shard(transactional_id)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("who coordinates transactional id %.300r is not known: %s", transactional_id, error)
        return on_lost(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if shard is None:
        return on_lost(ErrorCode.NOT_COORDINATOR)
    return await shard.run(call, on_lost=on_lost)


def is_transactional_id(text: str) -> bool:
    """Whether it is not empty, and can stand in a record: compact strings of a request may be longer."""
    return bool(text) and len(text.encode("utf-8", "surrogatepass")) <= MAX_TEXT_BYTES


def error_for(context: RequestContext, error: ErrorCode, *, fenced_since: int = FENCED_SINCE) -> ErrorCode:
    """What a client of the request's version knows of `error`."""
    if error is ErrorCode.PRODUCER_FENCED and context.version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
