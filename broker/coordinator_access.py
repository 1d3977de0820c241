"""Asking the coordinator of a group, with Kafka's errors where it is not this broker."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.outcome import Outcome, Ticket
from barnabas.coordinator.shard import Lost
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from broker.services import RequestContext, Services
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

GroupCall = Callable[[GroupCoordinator, Ticket, int, int], Outcome]
"""Called with the machine, a ticket, now_ms and wall_ms."""


def start_asking_group(context: RequestContext, group_id: str, call: GroupCall, on_lost: Lost) -> "asyncio.Future[Any]":
    """As `ask_group`, for what comes often: without a task where nothing has to be waited for first."""
    shard = context.broker.coordination.find_group_shard(group_id)
    loop = asyncio.get_running_loop()
    if shard is False:
        return loop.create_task(ask_group(context, group_id, call, on_lost))
    if shard is None:
        refused: asyncio.Future[Any] = loop.create_future()
        refused.set_result(on_lost(ErrorCode.NOT_COORDINATOR))
        return refused
    return shard.ask(call, on_lost=on_lost)


async def ask_group(context: RequestContext, group_id: str, call: GroupCall, on_lost: Lost) -> Any:
    """What the coordinator of a group answers, or what `on_lost` makes of the error for which it cannot be asked here.

    That is COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
    """
    try:
        shard = await context.broker.coordination.group_shard(group_id)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("who coordinates group %.300r is not known: %s", group_id, error)
        return on_lost(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if shard is None:
        return on_lost(ErrorCode.NOT_COORDINATOR)
    return await shard.run(call, on_lost=on_lost)


def is_known(broker: Services) -> Callable[[str, int], bool]:
    """Whether a partition of the cluster is known, by topic and number."""
    metadata = broker.metadata
    return lambda topic, partition: metadata.partition(TopicPartition(topic, partition)) is not None
