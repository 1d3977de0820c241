"""Heartbeat, versions 0 to 4: a member lives, and hears whether its group gathers anew.

While the group is loaded the answer is NONE, as in Kafka: nobody is given up meanwhile.

1 throttle time · 3 static members · 4 flexible
"""

import asyncio
from typing import Any, Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import heartbeat
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.coordinator_access import consult_group
from broker.registry import Handler
from broker.request_context import RequestContext


def handle(request: HeartbeatRequest, context: RequestContext) -> "HeartbeatResponse | asyncio.Future[Any]":
    """Ask the group's coordinator, which nearly always answers at once."""
    found = consult_group(
        context, request.group_id, lambda machine, now_ms: machine.heartbeat(request, now_ms), _unless_loading
    )
    if isinstance(found, ErrorCode):
        return _response(found, context)
    return asyncio.get_running_loop().create_task(_later(found, context))


async def _later(asking: "asyncio.Task[ErrorCode]", context: RequestContext) -> HeartbeatResponse:
    return _response(await asking, context)


def _response(error: ErrorCode, context: RequestContext) -> HeartbeatResponse:
    context.broker.metrics.count_error(ApiKey.HEARTBEAT, error)
    return HeartbeatResponse(error_code=error)


def _unless_loading(error: ErrorCode) -> ErrorCode:
    return ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error


API: Final[Handler] = Handler(heartbeat.API, handle, oldest=0, newest=4)
