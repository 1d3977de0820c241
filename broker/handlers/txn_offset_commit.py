"""TxnOffsetCommit, versions 0 to 3: how far a group has come, if the producer's transaction commits.

Answered once it is replicated; until the transaction's marker comes the offsets are pending. Partitions that do not
exist are answered UNKNOWN_TOPIC_OR_PARTITION and the others stored. Clients of versions before 2 do not know
COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296), and hear COORDINATOR_NOT_AVAILABLE.

Before the first offsets of a transaction its coordinator is asked whether the group is part of it, as for Produce: a
late request gets INVALID_TXN_STATE, so that no offsets stay pending for ever.

1 throttled after the answer · 2 leader epoch · 3 flexible, with member and generation (KIP-447)
"""

from dataclasses import replace
from typing import Final

from barnabas.coordinator.offsets.commits import refuse_commit_in_transaction
from barnabas.coordinator.offsets.refused_partitions import add_refused_commits_in_transaction, split
from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import txn_offset_commit
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from broker.coordinator_access import ask_group, is_known
from broker.internal_topics import CONSUMER_OFFSETS
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

_LOADING_SINCE: Final = 2


async def handle(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    """Ask the group's coordinator, for what there is."""
    broker = context.broker
    known, unknown = split(request.topics, is_known(broker))
    wanted = replace(request, topics=known)
    response = TxnOffsetCommitResponse()
    refusal = await _verify(request, broker) if known else ErrorCode.NONE
    if refusal is not ErrorCode.NONE:
        response = refuse_commit_in_transaction(wanted, refusal)
    elif known:
        response = await ask_group(
            context,
            request.group_id,
            lambda machine, ticket, _, wall_ms: machine.commit_in_transaction(ticket, wanted, wall_ms=wall_ms),
            lambda error: refuse_commit_in_transaction(wanted, error),
        )
    add_refused_commits_in_transaction(response.topics, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic in response.topics:
        for partition in topic.partitions:
            if context.version < _LOADING_SINCE and partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            broker.metrics.count_error(ApiKey.TXN_OFFSET_COMMIT, ErrorCode(partition.error_code))
    return response


async def _verify(request: TxnOffsetCommitRequest, broker: Services) -> ErrorCode:
    """Have the transaction's coordinator confirm that the group is part of it, where its offsets begin (KIP-890)."""
    if not request.group_id:
        # The group's own check comes first, as in Kafka.
        return ErrorCode.NONE
    try:
        number = await broker.coordination.partition_of(CONSUMER_OFFSETS, request.group_id)
    except (ZooKeeperError, InvalidPayload):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    partition = None if number is None else broker.replicas.partition((CONSUMER_OFFSETS, number))
    if partition is None or not partition.is_leader:
        return ErrorCode.NONE
    guard = partition.lacks_guard(request.producer_id, request.producer_epoch)
    if guard is None:
        return ErrorCode.NONE
    producer = Producer(request.transactional_id, request.producer_id, request.producer_epoch)
    verify = broker.coordination.verify
    answer = await verify(producer, partition.topic_partition, marked_epoch=guard.marked_epoch)
    partition.guards.answer(guard, answer)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if answer is ErrorCode.NOT_ENOUGH_REPLICAS else answer


API: Final[Handler] = Handler(txn_offset_commit.API, handle, oldest=0, newest=3)
