"""DescribeProducers, version 0: the producers that a partition's leader knows of, and what they have open (KIP-664).

Each partition is answered for itself: UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER where another broker leads.
"""

from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import describe_producers
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersPartitionResponse,
    DescribeProducersProducerState,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
)
from broker.partition_access import find_partition
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.turns import Turns
from replication.partition import PartitionRefused


async def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    """Look into the logs that this broker leads; others have their turn between two partitions."""
    turns = Turns(context.broker.clock)
    response = DescribeProducersResponse()
    for topic in request.topics:
        answers: list[DescribeProducersPartitionResponse] = []
        response.topics.append(DescribeProducersTopicResponse(topic.name, answers))
        for number in topic.partition_indexes:
            answer = _describe(context.broker, TopicPartition(topic.name, number))
            context.broker.metrics.count_error(ApiKey.DESCRIBE_PRODUCERS, ErrorCode(answer.error_code))
            answers.append(answer)
            if turns.is_due:
                await turns.let_others()
    return response


def _describe(broker: Services, topic_partition: TopicPartition) -> DescribeProducersPartitionResponse:
    try:
        partition = find_partition(broker, topic_partition)
        partition.require_leader()
    except PartitionRefused as refused:
        return DescribeProducersPartitionResponse(topic_partition.partition, refused.error, refused.message)
    return DescribeProducersPartitionResponse(
        topic_partition.partition,
        active_producers=[
            DescribeProducersProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.txn_first_offset,
            )
            for entry in partition.log.producers
        ],
    )


API: Final[Handler] = Handler(describe_producers.API, handle, oldest=0, newest=0)
