"""AddPartitionsToTxn, versions 0 to 2: partitions join the producer's transaction, before it writes to them.

All of them or none: one that does not exist, or of an internal topic, fails the request, and the others are answered
OPERATION_NOT_ATTEMPTED. Who meets a transaction that completes waits up to 20 ms for it.

1 throttled after the answer · 2 PRODUCER_FENCED
"""

from typing import Final

from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import add_partitions_to_txn
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from broker.internal_topics import is_internal
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from broker.transaction_access import ask_transaction, error_for


async def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    """Ask the transactional id's coordinator if all partitions are there."""
    broker = context.broker
    # Of a partition named twice one answer is given, as in Kafka.
    wanted = dict.fromkeys(
        TopicPartition(topic.name, number) for topic in request.topics for number in topic.partitions
    )
    errors = {partition: refuse(broker, partition) for partition in wanted}
    if any(errors.values()):
        errors = {partition: error or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, error in errors.items()}
    else:
        producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
        partitions = frozenset(wanted)
        found: ErrorCode = await ask_transaction(
            broker,
            request.transactional_id,
            lambda machine, ticket, now_ms, wall_ms: machine.add_partitions(
                ticket, producer, partitions, now_ms=now_ms, wall_ms=wall_ms
            ),
            lambda error: error,
        )
        errors = dict.fromkeys(wanted, error_for(context, found))
    return _response(context, errors)


def refuse(broker: Services, partition: TopicPartition) -> ErrorCode:
    """Why a client's transaction cannot have this partition, NONE if it can."""
    if is_internal(partition.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker.metadata.partition(partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _response(context: RequestContext, errors: dict[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, number), error in errors.items():
        context.broker.metrics.count_error(ApiKey.ADD_PARTITIONS_TO_TXN, error)
        topics.setdefault(topic, []).append(AddPartitionsToTxnPartitionResult(number, error))
    return AddPartitionsToTxnResponse(results=[AddPartitionsToTxnTopicResult(*each) for each in topics.items()])


API: Final[Handler] = Handler(add_partitions_to_txn.API, handle, oldest=0, newest=2)
