"""DescribeGroups, versions 0 to 5: state, protocol and members of groups. A group that nobody knows is Dead.

Without an authorizer every operation on a group is allowed (KIP-430).

1 throttle time · 3 authorized operations · 4 instance ids · 5 flexible
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import describe_groups
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from broker.coordinator_access import ask_group
from broker.registry import Handler
from broker.request_context import RequestContext

GROUP_OPERATIONS: Final = 0b1_0100_1000
"""Read, delete, describe: bits 3, 6 and 8."""


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Ask for one group after the other."""
    described = [await _describe(group_id, context) for group_id in request.groups]
    for group in described:
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        context.broker.metrics.count_error(ApiKey.DESCRIBE_GROUPS, ErrorCode(group.error_code))
    return DescribeGroupsResponse(groups=described)


async def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    described: DescribedGroup = await ask_group(
        context,
        group_id,
        lambda machine, ticket, _now_ms, _wall_ms: machine.describe(ticket, group_id),
        lambda error: DescribedGroup(error_code=error, group_id=group_id),
        may_be_nameless=True,
    )
    return described


API: Final[Handler] = Handler(describe_groups.API, handle, oldest=0, newest=5)
