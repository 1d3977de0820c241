"""ListPartitionReassignments, version 0: answered by the controller alone, by any other with NOT_CONTROLLER.

What is asked for and does not move, or does not exist, is left out.
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import list_partition_reassignments as messages
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from broker.registry import Handler
from broker.services import RequestContext
from controller.inbox import NotController
from controller.questions import ListReassignments


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Ask the controller; null asks for all."""
    wanted = None
    if request.topics is not None:
        wanted = tuple(
            dict.fromkeys(
                TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
            )
        )
    try:
        found = await context.broker.controller.ask(ListReassignments(wanted))
    except NotController:
        context.broker.metrics.count_error(ApiKey.LIST_PARTITION_REASSIGNMENTS, ErrorCode.NOT_CONTROLLER)
        return ListPartitionReassignmentsResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, number), assignment in found.items():
        topics.setdefault(name, OngoingTopicReassignment(name)).partitions.append(
            OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))


API: Final = Handler(messages.API, handle, oldest=0, newest=0)
