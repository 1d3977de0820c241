"""ListGroups, versions 0 to 4: the groups that this broker coordinates, from 4 on those in some states (KIP-518).

While one of its coordinators is loaded the answer is COORDINATOR_LOAD_IN_PROGRESS, with the groups of the others.

1 throttle time · 3 flexible · 4 states
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import list_groups
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from broker.registry import Handler
from broker.request_context import RequestContext


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    """Ask each coordinator of this broker."""
    error = ErrorCode.NONE
    groups: list[ListedGroup] = []
    states = frozenset(request.states_filter)
    for shard in tuple(context.broker.coordination.groups.values()):
        found = await shard.run(
            lambda machine, ticket, _now_ms, _wall_ms: machine.list_groups(ticket, states), on_lost=lambda lost: lost
        )
        if not isinstance(found, ErrorCode):
            groups += found
        elif found is not ErrorCode.NOT_COORDINATOR:
            # Who lost its leadership meanwhile is asked elsewhere.
            error = found
    context.broker.metrics.count_error(ApiKey.LIST_GROUPS, error)
    return ListGroupsResponse(error_code=error, groups=groups)


API: Final[Handler] = Handler(list_groups.API, handle, oldest=0, newest=4)
