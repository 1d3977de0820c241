"""LeaveGroup, versions 0 to 4: members go without waiting for their session to end.

1 throttle time · 3 several members, by member id or instance id (KIP-345) · 4 flexible
"""

from typing import Final

from barnabas.coordinator.group_requests import leave_response
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import leave_group
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from broker.coordinator_access import ask_group
from broker.registry import Handler
from broker.request_context import RequestContext


async def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    """Ask the group's coordinator."""

    def on_lost(error: ErrorCode) -> LeaveGroupResponse:
        return leave_response(context.version, [], error=error)

    response: LeaveGroupResponse = await ask_group(
        context,
        request.group_id,
        lambda machine, ticket, now_ms, wall_ms: machine.leave(
            ticket, request, version=context.version, now_ms=now_ms, wall_ms=wall_ms
        ),
        on_lost,
    )
    context.broker.metrics.count_error(ApiKey.LEAVE_GROUP, ErrorCode(response.error_code))
    return response


API: Final[Handler] = Handler(leave_group.API, handle, oldest=0, newest=4)
