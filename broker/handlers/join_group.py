"""JoinGroup, versions 0 to 7: a member joins its group's next generation, and waits for the others.

While one waits its connection does nothing else, as in Kafka. A group's coordinator decides everything
(`barnabas.coordinator.groups`).

1 rebalance timeout · 2 throttle time · 4 MEMBER_ID_REQUIRED (KIP-394) · 5 static members (KIP-345) · 6 flexible ·
7 protocol type and null protocol name in the answer (KIP-559)
"""

import asyncio
from typing import Final

from barnabas.coordinator.groups.responses import join_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import join_group
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from broker.coordinator_access import ask_group
from broker.registry import Handler
from broker.request_context import RequestContext


def handle(request: JoinGroupRequest, context: RequestContext) -> "asyncio.Task[JoinGroupResponse]":
    """Wait without holding the request's frame: that may be for minutes."""
    return asyncio.get_running_loop().create_task(_join(request, context))


async def _join(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    def on_lost(error: ErrorCode) -> JoinGroupResponse:
        return join_error(context.version, request.member_id, error)

    response: JoinGroupResponse = await ask_group(
        context,
        request.group_id,
        lambda machine, ticket, now_ms, wall_ms: machine.join(
            ticket,
            request,
            version=context.version,
            client_id=context.client_id or "",
            client_host=f"/{context.client_host}",
            now_ms=now_ms,
            wall_ms=wall_ms,
        ),
        on_lost,
    )
    context.broker.metrics.count_error(ApiKey.JOIN_GROUP, ErrorCode(response.error_code))
    return response


API: Final[Handler] = Handler(join_group.API, handle, oldest=0, newest=7)
