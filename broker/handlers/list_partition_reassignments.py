"""ListPartitionReassignments, version 0: answered by the controller alone, by any other with NOT_CONTROLLER.

What is asked for and does not move, or does not exist, is left out.
"""

from collections.abc import Generator, Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import list_partition_reassignments as messages
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.turns import Turns
from controller.inbox import NotController
from controller.questions import ListReassignments
from controller.state import Assignment


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """Ask the controller; null asks for all."""
    broker = context.broker
    turns = Turns(broker.clock)
    wanted = None if request.topics is None else await turns.finish(_wanted(request.topics))
    try:
        found = await broker.controller.ask(ListReassignments(wanted))
    except NotController as elsewhere:
        error = ErrorCode.NOT_CONTROLLER
        broker.metrics.count_error(ApiKey.LIST_PARTITION_REASSIGNMENTS, error)
        return ListPartitionReassignmentsResponse(error_code=error, error_message=str(elsewhere))
    return ListPartitionReassignmentsResponse(topics=await turns.finish(_listed(found)))


def _wanted(topics: list[ListPartitionReassignmentsTopics]) -> Generator[None, None, tuple[TopicPartition, ...]]:
    wanted: dict[TopicPartition, None] = {}
    for topic in topics:
        for number in topic.partition_indexes:
            wanted[TopicPartition(topic.name, number)] = None
            yield
    return tuple(wanted)


def _listed(found: Mapping[TopicPartition, Assignment]) -> Generator[None, None, list[OngoingTopicReassignment]]:
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
        yield
    return list(topics.values())


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=0)
