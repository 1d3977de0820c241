"""AlterPartitionReassignments, version 0: answered by the controller alone, by any other with NOT_CONTROLLER.

Each partition stands for itself: replicas to move to, or null to cancel. One that the request names twice counts as it
was named last. The answer comes when the moves have begun, which are then seen with ListPartitionReassignments.

INVALID_REPLICA_ASSIGNMENT: no replicas, one twice, one that is negative, a new one whose broker is not alive; beyond
Kafka 2.7 also a cancellation that would leave only replicas that are not in sync. UNKNOWN_TOPIC_OR_PARTITION, also for
what is being deleted. NO_REASSIGNMENT_IN_PROGRESS: nothing to cancel.
"""

from collections.abc import Generator
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, BrokerId, TopicPartition
from barnabas.protocol.messages import alter_partition_reassignments as messages
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.turns import Turns
from controller.inbox import NotController
from controller.questions import AlterReassignments, Outcomes


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Ask the controller."""
    broker = context.broker
    turns = Turns(broker.clock)
    targets = await turns.finish(_targets(request))
    try:
        outcomes = await broker.controller.ask(AlterReassignments(targets))
    except NotController as elsewhere:
        error = ErrorCode.NOT_CONTROLLER
        broker.metrics.count_error(ApiKey.ALTER_PARTITION_REASSIGNMENTS, error)
        return AlterPartitionReassignmentsResponse(error_code=error, error_message=str(elsewhere))
    return AlterPartitionReassignmentsResponse(responses=await turns.finish(_responses(outcomes, broker)))


def _targets(
    request: AlterPartitionReassignmentsRequest,
) -> Generator[None, None, dict[TopicPartition, tuple[BrokerId, ...] | None]]:
    targets: dict[TopicPartition, tuple[BrokerId, ...] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            replicas = None if partition.replicas is None else tuple(map(BrokerId, partition.replicas))
            targets[TopicPartition(topic.name, partition.partition_index)] = replicas
            yield
    return targets


def _responses(outcomes: Outcomes, broker: Services) -> Generator[None, None, list[ReassignableTopicResponse]]:
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, number), outcome in outcomes.items():
        if outcome.error is not ErrorCode.NONE:
            broker.metrics.count_error(ApiKey.ALTER_PARTITION_REASSIGNMENTS, outcome.error)
        topic = topics.setdefault(name, ReassignableTopicResponse(name))
        topic.partitions.append(ReassignablePartitionResponse(number, outcome.error, outcome.message))
        yield
    return list(topics.values())


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=0)
