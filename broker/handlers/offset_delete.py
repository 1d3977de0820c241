"""OffsetDelete, version 0: a group forgets how far it came in some partitions (KIP-496).

Of a group with members only topics that none of them is subscribed to; the others are answered
GROUP_SUBSCRIBED_TO_TOPIC. What does not exist is answered UNKNOWN_TOPIC_OR_PARTITION.
"""

from dataclasses import replace
from typing import Final

from barnabas.coordinator.offsets.deletion import refuse_delete
from barnabas.coordinator.offsets.refused_partitions import add_refused_deletions, split
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import offset_delete
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from broker.coordinator_access import ask_group, is_known
from broker.registry import Handler
from broker.request_context import RequestContext


async def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Ask the group's coordinator, for what there is."""
    known, unknown = split(request.topics, is_known(context.broker))
    wanted = replace(request, topics=known)
    response: OffsetDeleteResponse = await ask_group(
        context,
        request.group_id,
        lambda machine, ticket, _now_ms, _wall_ms: machine.delete_offsets(ticket, wanted),
        refuse_delete,
    )
    if response.error_code == ErrorCode.NONE:
        add_refused_deletions(response.topics, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    context.broker.metrics.count_error(ApiKey.OFFSET_DELETE, ErrorCode(response.error_code))
    return response


API: Final[Handler] = Handler(offset_delete.API, handle, oldest=0, newest=0)
