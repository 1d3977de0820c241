"""DeleteGroups, versions 0 to 2: groups without members are forgotten, with all that they have committed (KIP-229).

1 nothing new · 2 flexible
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import delete_groups
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from broker.coordinator_access import ask_group
from broker.registry import Handler
from broker.request_context import RequestContext


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    """Delete one group after the other, each once."""
    results = [await _delete(group_id, context) for group_id in dict.fromkeys(request.groups_names)]
    for result in results:
        context.broker.metrics.count_error(ApiKey.DELETE_GROUPS, ErrorCode(result.error_code))
    return DeleteGroupsResponse(results=results)


async def _delete(group_id: str, context: RequestContext) -> DeletableGroupResult:
    result: DeletableGroupResult = await ask_group(
        context,
        group_id,
        lambda machine, ticket, now_ms, wall_ms: machine.delete_group(ticket, group_id, now_ms=now_ms, wall_ms=wall_ms),
        lambda error: DeletableGroupResult(group_id, error),
        may_be_nameless=True,
    )
    return result


API: Final[Handler] = Handler(delete_groups.API, handle, oldest=0, newest=2)
