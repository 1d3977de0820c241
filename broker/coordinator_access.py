"""Asking the coordinator of a group, with Kafka's errors where it is not this broker.

Four ways, by what a request waits for: `ask_group` for most, `start_asking_group` for what comes often, without a task
where nothing has to be waited for first, `consult_group` for what is answered on the spot, `read_group` for what must
not be of the past. All look at the group's id first: only offsets can do without one.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from barnabas.coordinator.entries import Lost
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_requests import is_group_id
from barnabas.coordinator.outcome import Outcome, Ticket, coordinator_error
from barnabas.coordinator.ports import LogRefused
from barnabas.coordinator.shard import Shard
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.completion import Completion
from broker.coordination import Coordination
from broker.request_context import RequestContext
from broker.services import Services
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

T = TypeVar("T")

GroupCall = Callable[[GroupCoordinator, Ticket, int, int], Outcome]
"""Called with the machine, a ticket, now_ms and wall_ms."""

_Found = Shard[GroupCoordinator] | ErrorCode


async def ask_group(
    context: RequestContext, group_id: str, call: GroupCall, on_lost: Lost, *, may_be_nameless: bool = False
) -> Any:
    """What the coordinator of a group answers, or what `on_lost` makes of the error for which it cannot be asked here.

    That is INVALID_GROUP_ID, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
    """
    if not (may_be_nameless or is_group_id(group_id)):
        return on_lost(ErrorCode.INVALID_GROUP_ID)
    found = await _find(context.broker.coordination, group_id)
    return on_lost(found) if isinstance(found, ErrorCode) else await found.run(call, on_lost=on_lost)


async def read_group(context: RequestContext, group_id: str, call: GroupCall, on_lost: Lost) -> Any:
    """As `ask_group`, of a group that may be nameless, and never missing what a later coordinator has been told.

    So it waits as a commit does, for the same replicas and as long: until all in sync show that they follow this broker
    still. Without that the error is COORDINATOR_NOT_AVAILABLE, and NOT_COORDINATOR where this broker is cut off from
    ZooKeeper too: there may be another.
    """
    found = await _find(context.broker.coordination, group_id)
    if isinstance(found, ErrorCode):
        return on_lost(found)
    if found.error is not None:
        return on_lost(found.error)
    try:
        async with asyncio.timeout(found.settings.commit_timeout_ms / 1000):
            await found.log.proven()
    except TimeoutError:
        is_reached = context.broker.zk.is_connected
        return on_lost(ErrorCode.COORDINATOR_NOT_AVAILABLE if is_reached else ErrorCode.NOT_COORDINATOR)
    except LogRefused as refused:
        return on_lost(coordinator_error(refused.error))
    return await found.run(call, on_lost=on_lost)


def start_asking_group(
    context: RequestContext, group_id: str, call: GroupCall, on_lost: Lost, *, may_be_nameless: bool = False
) -> "asyncio.Future[Any] | Completion[Any] | Any":
    """As `ask_group`: what it will be, or the answer where there is one already."""
    found = _find_at_once(context.broker.coordination, group_id, may_be_nameless=may_be_nameless)
    if found is None:
        asking = ask_group(context, group_id, call, on_lost, may_be_nameless=may_be_nameless)
        return asyncio.get_running_loop().create_task(asking)
    if isinstance(found, ErrorCode):
        return on_lost(found)
    asked = found.ask(call, on_lost=on_lost)
    return asked.result() if asked.done() else asked


def consult_group(
    context: RequestContext,
    group_id: str,
    call: Callable[[GroupCoordinator, int], T],
    on_lost: Callable[[ErrorCode], T],
) -> "asyncio.Task[T] | T":
    """As `ask_group`, for what needs no ticket: see `Shard.consult`. A task where ZooKeeper has to be asked first."""
    found = _find_at_once(context.broker.coordination, group_id)
    if found is None:
        return asyncio.get_running_loop().create_task(_consult_later(context, group_id, call, on_lost))
    return on_lost(found) if isinstance(found, ErrorCode) else found.consult(call, on_lost=on_lost)


async def _consult_later(
    context: RequestContext,
    group_id: str,
    call: Callable[[GroupCoordinator, int], T],
    on_lost: Callable[[ErrorCode], T],
) -> T:
    found = await _find(context.broker.coordination, group_id)
    return on_lost(found) if isinstance(found, ErrorCode) else found.consult(call, on_lost=on_lost)


def _find_at_once(coordination: Coordination, group_id: str, *, may_be_nameless: bool = False) -> _Found | None:
    """Who coordinates the group, or why that cannot be asked here; None where ZooKeeper has to be asked."""
    if not (may_be_nameless or is_group_id(group_id)):
        return ErrorCode.INVALID_GROUP_ID
    shard = coordination.find_group_shard(group_id)
    if shard is False:
        return None
    return ErrorCode.NOT_COORDINATOR if shard is None else shard


async def _find(coordination: Coordination, group_id: str) -> _Found:
    try:
        shard = await coordination.group_shard(group_id)
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("who coordinates group %.300r is not known: %s", group_id, error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NOT_COORDINATOR if shard is None else shard


def is_known(broker: Services) -> Callable[[str, int], bool]:
    """Whether a partition of the cluster is known, by topic and number."""
    metadata = broker.metadata
    return lambda topic, partition: metadata.partition(TopicPartition(topic, partition)) is not None
