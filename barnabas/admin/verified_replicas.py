"""Reads every replica of partitions, as a consumer does, and compares them (KIP-392: any replica answers consumers)."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from barnabas.admin.replica_digests import (
    RecordDigest,
    ReplicaDigest,
    common_range,
    differing_batch,
    differing_record,
    digest_batch,
    digest_records,
)
from barnabas.client.admin import EARLIEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError, error_code
from barnabas.client.metadata import PartitionMetadata
from barnabas.protocol.batch import BatchHeader, Buffer, CorruptBatch, TruncatedBatch
from barnabas.protocol.entries import iterate_entries, verify_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import fetch
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

Row = dict[str, Any]
_ANY_REPLICA_SINCE: Final = 11
_CONSUMER: Final = -1
_FETCH_BYTES: Final = 4 * 1024 * 1024


async def verify_partitions(cluster: Cluster, partitions: Iterable[TopicPartition]) -> AsyncIterator[Row]:
    """One row for each replica: what it holds and what is wrong with it (`problem` is None where nothing is)."""
    admin, compacted = Admin(cluster), dict[str, bool]()
    for at in partitions:
        found = (await cluster.topic(at.topic)).partitions[at.partition]
        if at.topic not in compacted:
            configs = {entry.name: entry.value for entry in await admin.describe_topic_configs(at.topic)}
            compacted[at.topic] = "compact" in (configs.get("cleanup.policy") or "")
        for replica in await _verify(cluster, at, found, is_compacted=compacted[at.topic]):
            yield {
                "partition": str(at),
                "broker": replica.broker,
                "leads": replica.broker == found.leader,
                "start_offset": replica.start_offset,
                "end_offset": replica.end_offset,
                "batches": len(replica.batches),
                "size_bytes": replica.size_bytes,
                "problem": replica.problem,
            }


async def _verify(
    cluster: Cluster, at: TopicPartition, found: PartitionMetadata, *, is_compacted: bool
) -> list[ReplicaDigest]:
    order = sorted(found.replicas, key=lambda broker: broker != found.leader)
    replicas = [await _digest(cluster, at, broker) for broker in order]
    whole = [replica for replica in replicas if replica.problem is None]
    for other in whole[1:]:
        if not is_compacted:
            other.problem = differing_batch(whole[0], other)
        elif differing_batch(whole[0], other) is not None:
            start, end = common_range((whole[0], other))
            mine = await _records(cluster, at, whole[0].broker)
            theirs = await _records(cluster, at, other.broker)
            other.problem = differing_record(mine, theirs, start=start, end=end, broker=other.broker)
    return replicas


async def _digest(cluster: Cluster, at: TopicPartition, broker: int) -> ReplicaDigest:
    replica = ReplicaDigest(broker)

    def take(_: Buffer, header: BatchHeader) -> None:
        replica.batches.append(digest_batch(header))
        replica.size_bytes += header.size_bytes

    try:
        replica.start_offset, replica.end_offset = await _read(cluster, at, broker, take)
    except (ClientError, CorruptBatch) as error:
        replica.problem = str(error)
    return replica


async def _records(cluster: Cluster, at: TopicPartition, broker: int) -> dict[int, RecordDigest]:
    records: dict[int, RecordDigest] = {}
    await _read(cluster, at, broker, lambda entry, header: records.update(digest_records(entry, header)))
    return records


async def _read(
    cluster: Cluster, at: TopicPartition, broker: int, take: Callable[[Buffer, BatchHeader], None]
) -> tuple[int, int]:
    """Give every batch below the high watermark to `take`; where the replica starts and ends.

    Raises ClientError, and CorruptBatch where a checksum is wrong or offsets go back.
    """
    start, high_watermark, _ = await _fetch(cluster, at, broker, 0)
    if start < 0:
        # Offset 0 is out of range and nothing was told: there is a later start.
        start = await _earliest(cluster, at, broker)
    offset = start
    while True:
        _, high_watermark, records = await _fetch(cluster, at, broker, offset)
        before = offset
        try:
            for position, header in iterate_entries(records):
                verify_entry(records, position, header)
                _check_order(header, offset, is_first=position == 0)
                take(memoryview(records)[position : position + header.size_bytes], header)
                offset = header.next_offset
        except TruncatedBatch:
            # The last one was cut by the size of the answer.
            pass
        except CorruptBatch as error:
            raise CorruptBatch(f"at offset {offset} or after it: {error}") from None
        if offset >= high_watermark or offset == before:
            return start, high_watermark


def _check_order(header: BatchHeader, offset: int, *, is_first: bool) -> None:
    """The first batch of an answer holds the offset that was asked for, or comes after it."""
    goes_back = header.next_offset <= offset if is_first else header.base_offset < offset
    if goes_back:
        raise CorruptBatch(f"a batch at offset {header.base_offset} comes after {offset - 1}")


async def _fetch(cluster: Cluster, at: TopicPartition, broker: int, offset: int) -> tuple[int, int, Buffer]:
    """The log's start, its high watermark and what stands at `offset`; a start of -1 where `offset` is below it."""
    wanted = FetchPartition(at.partition, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        replica_id=_CONSUMER, max_wait_ms=0, max_bytes=_FETCH_BYTES, topics=[FetchTopic(at.topic, [wanted])]
    )
    response = await cluster.ask(broker, fetch.API, request, least=_ANY_REPLICA_SINCE)
    for topic in response.responses:
        for answer in topic.partition_responses:
            error = error_code(answer.error_code)
            if error is ErrorCode.OFFSET_OUT_OF_RANGE and offset == 0:
                return -1, -1, b""
            if error is not ErrorCode.NONE:
                raise KafkaError(error, context=f"broker {broker}, offset {offset}")
            return answer.log_start_offset, answer.high_watermark, answer.record_set or b""
    raise KafkaError(error_code(response.error_code), context=f"broker {broker}")


async def _earliest(cluster: Cluster, at: TopicPartition, broker: int) -> int:
    """Where the replica starts, as far as its leader tells: a follower's start is there or a little later."""
    start = (await Admin(cluster).list_offsets({at: EARLIEST}))[at].offset
    own_start, _, _ = await _fetch(cluster, at, broker, start)
    return max(start, own_start)
