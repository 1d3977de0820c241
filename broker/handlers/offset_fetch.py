"""OffsetFetch, versions 0 to 7: what a group has committed.

Version 0 reads from ZooKeeper, where version 0 of OffsetCommit writes to; there UNKNOWN_TOPIC_OR_PARTITION is answered
for what does not exist or was not committed. Later versions ask the group's coordinator, and offset -1 without an error
is what was not committed. They wait until it is sure that no later coordinator was told another
(`broker.coordinator_access.read_group`).

1 with the coordinator · 2 null for all topics, an error of the whole · 3 throttle time · 5 leader epoch · 6 flexible ·
7 only stable offsets (KIP-447)
"""

from typing import Final

from barnabas.coordinator.offsets.fetching import refuse_fetch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import offset_fetch
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from broker.coordinator_access import read_group
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.zookeeper_offsets import fetch_from_zookeeper


async def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Ask the group's coordinator."""
    if context.version == 0:
        return await fetch_from_zookeeper(context.broker, request)
    response: OffsetFetchResponse = await read_group(
        context,
        request.group_id,
        lambda machine, ticket, _now_ms, _wall_ms: machine.fetch(ticket, request),
        lambda error: refuse_fetch(request, error, version=context.version),
    )
    context.broker.metrics.count_error(ApiKey.OFFSET_FETCH, ErrorCode(response.error_code))
    return response


API: Final[Handler] = Handler(offset_fetch.API, handle, oldest=0, newest=7)
