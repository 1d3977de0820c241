"""SyncGroup, versions 0 to 5: the leader of a generation hands in the assignments, each member gets its own.

Members wait for their leader. While the group is loaded the answer is REBALANCE_IN_PROGRESS, as in Kafka: to the
member that means to join again, which finds the coordinator that is there then.

1 throttle time · 3 static members · 4 flexible · 5 protocol type and name, held against the group's (KIP-559)
"""

import asyncio
from typing import Final

from barnabas.coordinator.groups.responses import sync_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import sync_group
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from broker.coordinator_access import ask_group
from broker.registry import Handler
from broker.request_context import RequestContext

_PROTOCOL_IS_NAMED_SINCE: Final = 5


def handle(request: SyncGroupRequest, context: RequestContext) -> "asyncio.Task[SyncGroupResponse]":
    """Wait without holding the request's frame."""
    return asyncio.get_running_loop().create_task(_sync(request, context))


async def _sync(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.version >= _PROTOCOL_IS_NAMED_SINCE and not names_protocol:
        response = sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    else:
        response = await ask_group(
            context,
            request.group_id,
            lambda machine, ticket, now_ms, wall_ms: machine.sync(
                ticket, request, version=context.version, now_ms=now_ms, wall_ms=wall_ms
            ),
            _lost,
        )
    context.broker.metrics.count_error(ApiKey.SYNC_GROUP, ErrorCode(response.error_code))
    return response


def _lost(error: ErrorCode) -> SyncGroupResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return sync_error(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error)


API: Final[Handler] = Handler(sync_group.API, handle, oldest=0, newest=5)
