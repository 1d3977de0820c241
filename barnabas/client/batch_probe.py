"""Looking at single batches of partitions: the header of the batch that holds an offset, or follows it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError, corrupt_batch, error_code
from barnabas.protocol.batch import BatchHeader, CorruptBatch
from barnabas.protocol.entries import read_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import fetch as fetch_api
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

_FORMAT_2_SINCE: Final = 4
_AT_ONCE: Final = 32
"""Each brings a batch, so that this bounds what is held."""


async def headers_at(cluster: Cluster, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, BatchHeader]:
    """The header of the batch at each offset, or of the next one where compaction removed it. Raises ClientError.

    Partitions whose log has no such offset, or nothing from it on, are left out. The batch alone is fetched, and its
    checksum is not looked at.
    """
    found: dict[TopicPartition, BatchHeader] = {}
    places = asyncio.Semaphore(_AT_ONCE)

    async def look(at: TopicPartition, offset: int) -> None:
        async with places:
            header = await cluster.patiently(lambda: _header_at(cluster, at, offset))
        if header is not None:
            found[at] = header

    await asyncio.gather(*(look(at, offset) for at, offset in offsets.items()))
    return found


async def _header_at(cluster: Cluster, at: TopicPartition, offset: int) -> BatchHeader | None:
    # The first batch comes whole however small the limit is (KIP-74).
    wanted = FetchPartition(partition=at.partition, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[FetchTopic(at.topic, [wanted])]
    )
    leader = await cluster.leader(at)
    try:
        response = await cluster.ask(leader.node_id, fetch_api.API, request, least=_FORMAT_2_SINCE)
    except ClientError:
        cluster.forget(at.topic)
        raise
    answer = response.responses[0].partition_responses[0]
    code = error_code(answer.error_code)
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return None
    if code is not ErrorCode.NONE:
        if code.means_stale_metadata:
            cluster.forget(at.topic)
        raise KafkaError(code, context=str(at))
    if not answer.record_set:
        return None
    try:
        return read_entry(answer.record_set)
    except CorruptBatch as error:
        raise corrupt_batch(at, error) from error
