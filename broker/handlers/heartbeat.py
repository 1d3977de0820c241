"""Heartbeat, versions 0 to 4: a member lives, and hears whether its group gathers anew.

While the group is loaded the answer is NONE, as in Kafka: nobody is given up meanwhile.

1 throttle time · 3 static members · 4 flexible
"""

import asyncio
from typing import Any, Final

from barnabas.coordinator.group_requests import is_group_id
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import heartbeat
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.coordinator_access import start_asking_group
from broker.registry import Handler
from broker.services import RequestContext


def handle(request: HeartbeatRequest, context: RequestContext) -> "HeartbeatResponse | asyncio.Future[Any]":
    """Ask the group's coordinator, which nearly always answers at once."""
    if not is_group_id(request.group_id):
        return _counted(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID), context)
    asked = start_asking_group(
        context,
        request.group_id,
        lambda machine, ticket, now_ms, wall_ms: machine.heartbeat(ticket, request, now_ms=now_ms, wall_ms=wall_ms),
        _lost,
    )
    if asked.done():
        return _counted(asked.result(), context)
    asked.add_done_callback(lambda done: None if done.cancelled() else _counted(done.result(), context))
    return asked


def _counted(response: HeartbeatResponse, context: RequestContext) -> HeartbeatResponse:
    context.broker.metrics.count_error(ApiKey.HEARTBEAT, ErrorCode(response.error_code))
    return response


def _lost(error: ErrorCode) -> HeartbeatResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error)


API: Final = Handler(heartbeat.API, handle, oldest=0, newest=4)
