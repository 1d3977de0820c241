"""WriteTxnMarkers, versions 0 and 1: the coordinator of a transaction has its end written into partitions led here.

Each marker is answered for itself, once it is replicated. Brokers send this, and tools that abort a transaction which
hangs; those of Kafka 4 ask for version 1, which Kafka 2.7 has not.

1 flexible
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.batches import marker_batch
from barnabas.coordinator.outcome import ProducerStamp
from barnabas.coordinator.ports import LogRefused
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import write_txn_markers
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.storage.append import AppendRejected
from broker.internal_topics import CONSUMER_OFFSETS
from broker.registry import Handler
from broker.request_context import RequestContext
from broker.services import Services
from replication.partition import ALL_REPLICAS, PartitionRefused

_TIMEOUT_S: Final = 30.0
_TRANSACTIONS_SINCE_FORMAT: Final = 2


async def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    """Write all of them, none waiting for another. A marker for no partition is not answered."""
    results = [each for each in await write_markers(context.broker, request.markers) if each.topics]
    for result in results:
        for topic in result.topics:
            for partition in topic.partitions:
                context.broker.metrics.count_error(ApiKey.WRITE_TXN_MARKERS, ErrorCode(partition.error_code))
    return WriteTxnMarkersResponse(markers=results)


async def write_markers(broker: Services, markers: Iterable[WritableTxnMarker]) -> list[WritableTxnMarkerResult]:
    """Write the ends of transactions, also those of this broker's own coordinators."""
    return await asyncio.gather(*(write_marker(broker, marker) for marker in markers))


async def write_marker(broker: Services, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    """Write the end of one transaction into all its partitions that are led here."""
    places = [TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
    errors = dict(zip(places, await asyncio.gather(*(_write(broker, marker, at) for at in places)), strict=True))
    return WritableTxnMarkerResult(
        marker.producer_id,
        [
            WritableTxnMarkerTopicResult(
                topic.name,
                [
                    WritableTxnMarkerPartitionResult(number, errors[TopicPartition(topic.name, number)])
                    for number in topic.partition_indexes
                ],
            )
            for topic in marker.topics
            if topic.partition_indexes
        ],
    )


async def _write(broker: Services, marker: WritableTxnMarker, at: TopicPartition) -> ErrorCode:
    partition = broker.replicas.partition(at)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.log.config.message_format < _TRANSACTIONS_SINCE_FORMAT:
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    write = _tell_groups if at.topic == CONSUMER_OFFSETS else _append
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await write(broker, marker, at)
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
    except (PartitionRefused, AppendRejected, LogRefused) as refused:
        return refused.error
    return ErrorCode.NONE


async def _append(broker: Services, marker: WritableTxnMarker, at: TopicPartition) -> None:
    partition = broker.replicas.partition(at)
    assert partition is not None
    producer = ProducerStamp(marker.producer_id, marker.producer_epoch)
    batch = marker_batch(producer, marker.coordinator_epoch, broker.clock.wall_ms(), commit=marker.transaction_result)
    info = await partition.append_as_coordinator(memoryview(bytearray(batch)), acks=ALL_REPLICAS)
    waiting = partition.when_acknowledged(info, acks=ALL_REPLICAS)
    if waiting is not None:
        await waiting


async def _tell_groups(broker: Services, marker: WritableTxnMarker, at: TopicPartition) -> None:
    """The groups' coordinator writes it: from then on the offsets of the transaction count, or never did."""
    shard = broker.coordination.groups.get(at.partition)
    if shard is None:
        raise LogRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await shard.write_marker(
        ProducerStamp(marker.producer_id, marker.producer_epoch),
        commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
    )


API: Final[Handler] = Handler(write_txn_markers.API, handle, oldest=0, newest=1)
