"""Reads every replica of partitions and compares them (KIP-392: any replica answers consumers).

It reads as a debugging consumer (replica id -2): a broker checks what it sends to one, and so hears of the damage too.
All offsets up to the high watermark have to be there, unless compaction may have taken some: base offsets are outside
of checksums, and one that is too high would hide what it stands for, or all that follows.

A topic that is not compacted may have been so once, and its replicas cleaned each at its own time. Their brokers know:
where offsets are missing, or batches differ, they are asked. Left out: a cleaned log whose replicas all moved since.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.admin.replica_digests import (
    MAX_INFLATED_BYTES,
    UNKNOWN,
    RecordDigest,
    ReplicaDigest,
    common_range,
    differing_batch,
    differing_record,
    digest_batch,
    digest_records,
)
from barnabas.client.admin import LATEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError, error_code, raise_for
from barnabas.client.replica_admin import ReplicaAdmin
from barnabas.protocol.batch import BatchHeader, Buffer, CorruptBatch, TruncatedBatch
from barnabas.protocol.entries import first_entry_offset, iterate_entries, verify_entry
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import fetch, list_offsets
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from replication.leader_questions import DEBUGGING_CONSUMER

Row = dict[str, Any]
_ANY_REPLICA_SINCE: Final = 11
_FETCH_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class _Partition:
    """A partition that is verified; `is_compacted` is None until its brokers have to be asked."""

    cluster: Cluster
    at: TopicPartition
    brokers: Sequence[int]
    is_compacted: bool | None

    async def may_have_gaps(self) -> bool:
        """Whether compaction may have taken records from any replica: one may have copied another that was cleaned."""
        if self.is_compacted is None:
            self.is_compacted = any([await self._has_been_compacted(broker) for broker in self.brokers])
        return self.is_compacted

    async def _has_been_compacted(self, broker: int) -> bool:
        """What the broker says; one that does not answer, or is too old to know, says no."""
        try:
            found = await ReplicaAdmin(self.cluster).log_dirs(broker, [self.at])
        except ClientError:
            return False
        return any(
            replica.may_have_gaps
            for directory in found
            for topic in directory.topics
            for replica in topic.partitions
            if (topic.name, replica.partition_index) == self.at
        )


async def verify_partitions(cluster: Cluster, partitions: Iterable[TopicPartition]) -> AsyncIterator[Row]:
    """One row for each replica: what it holds and what is wrong with it (`problem` is None where nothing is)."""
    admin, compacted = Admin(cluster), dict[str, bool]()
    for at in partitions:
        found = (await cluster.topic(at.topic)).partitions[at.partition]
        if at.topic not in compacted:
            configs = {entry.name: entry.value for entry in await admin.describe_topic_configs(at.topic)}
            compacted[at.topic] = "compact" in (configs.get("cleanup.policy") or "")
        order = sorted(found.replicas, key=lambda broker: broker != found.leader)
        for replica in await _verify(_Partition(cluster, at, order, compacted[at.topic] or None)):
            yield {
                "partition": str(at),
                "broker": replica.broker,
                "leads": replica.broker == found.leader,
                "start_offset": _known(replica.start_offset),
                "end_offset": _known(replica.end_offset),
                "batches": len(replica.batches),
                "size_bytes": replica.size_bytes,
                "problem": replica.problem,
            }


def _known(offset: int) -> int | None:
    return None if offset == UNKNOWN else offset


async def _verify(partition: _Partition) -> list[ReplicaDigest]:
    replicas = [await _digest(partition, broker) for broker in partition.brokers]
    whole = [replica for replica in replicas if replica.problem is None]
    for other in whole[1:]:
        other.problem = differing_batch(whole[0], other)
        if other.problem is not None and await partition.may_have_gaps():
            start, end = common_range((whole[0], other))
            mine = await _records(partition, whole[0].broker)
            theirs = await _records(partition, other.broker)
            other.problem = differing_record(mine, theirs, start=start, end=end, broker=other.broker)
    return replicas


async def _digest(partition: _Partition, broker: int) -> ReplicaDigest:
    replica = ReplicaDigest(broker)

    def take(_: Buffer, header: BatchHeader) -> None:
        replica.batches.append(digest_batch(header))
        replica.size_bytes += header.size_bytes

    try:
        await _read(partition, replica, take)
    except (ClientError, CorruptBatch) as error:
        replica.problem = str(error)
    return replica


async def _records(partition: _Partition, broker: int) -> dict[int, RecordDigest]:
    records: dict[int, RecordDigest] = {}
    await _read(partition, ReplicaDigest(broker), lambda entry, header: records.update(digest_records(entry, header)))
    return records


async def _read(partition: _Partition, replica: ReplicaDigest, take: Callable[[Buffer, BatchHeader], None]) -> None:
    """Give every batch below the high watermark to `take`; note in `replica` where it starts and ends.

    Raises ClientError, and CorruptBatch where a checksum is wrong, or offsets go back or are missing.
    """
    # Asked for apart: an answer that tells an error tells no offsets.
    replica.start_offset, replica.end_offset = await _bounds(partition, replica.broker)
    offset = replica.start_offset
    while offset < replica.end_offset:
        _, _, records = await _fetch(partition, replica.broker, offset)
        before = offset
        try:
            for position, header in iterate_entries(records):
                if offset >= replica.end_offset:
                    return
                verify_entry(records, position, header)
                _check_order(header, offset, is_first=position == 0)
                entry = memoryview(records)[position : position + header.size_bytes]
                if header.base_offset > offset:
                    await _check_gap(partition, replica, offset, entry, header)
                if header.base_offset >= replica.end_offset:
                    return
                take(entry, header)
                offset = header.next_offset
        except TruncatedBatch as error:
            # The last one was cut by the size of the answer, but the first of an answer is whole.
            if offset == before:
                raise CorruptBatch(f"at offset {offset} or after it: {error}") from None
        except CorruptBatch as error:
            raise CorruptBatch(f"at offset {offset} or after it: {error}") from None
        if offset == before:
            # The last records of a compacted log may be gone where none were written since.
            if await partition.may_have_gaps():
                return
            raise CorruptBatch(f"the log ends at offset {offset}, below its high watermark, {replica.end_offset}")


def _check_order(header: BatchHeader, offset: int, *, is_first: bool) -> None:
    """The first batch of an answer holds the offset that was asked for, or comes after it."""
    goes_back = header.next_offset <= offset if is_first else header.base_offset < offset
    if goes_back:
        raise CorruptBatch(f"a batch at offset {header.base_offset} comes after {offset - 1}")


async def _check_gap(
    partition: _Partition, replica: ReplicaDigest, offset: int, entry: Buffer, header: BatchHeader
) -> None:
    """A batch whose header says more than `offset` stands where that was expected: a wrapper says its last offset.

    Raises ClientError and CorruptBatch.
    """
    is_gap = first_entry_offset(entry, 0, header, MAX_INFLATED_BYTES) > offset
    if is_gap and not await partition.may_have_gaps():
        raise CorruptBatch(f"the next batch is at offset {header.base_offset}")
    if header.next_offset <= replica.end_offset:
        return
    # It was in the log when it was read, so the log's end is above it by now.
    end_offset = await _log_end(partition, replica.broker)
    if header.next_offset > end_offset:
        raise CorruptBatch(f"a batch ends at offset {header.last_offset}, and the log ends at {end_offset}")


async def _bounds(partition: _Partition, broker: int) -> tuple[int, int]:
    """The start and the high watermark of a replica, asked at its end, where nothing has to be read."""
    start_offset, high_watermark, _ = await _fetch(partition, broker, await _log_end(partition, broker))
    return start_offset, high_watermark


async def _log_end(partition: _Partition, broker: int) -> int:
    topic, number = partition.at
    wanted = ListOffsetPartition(partition_index=number, timestamp=LATEST)
    request = ListOffsetRequest(DEBUGGING_CONSUMER, topics=[ListOffsetTopic(topic, [wanted])])
    response = await partition.cluster.ask(broker, list_offsets.API, request, least=1)
    (found,) = response.topics[0].partitions
    raise_for(found.error_code, context=f"broker {broker}")
    end_offset: int = found.offset
    return end_offset


async def _fetch(partition: _Partition, broker: int, offset: int) -> tuple[int, int, Buffer]:
    """The log's start, its high watermark and what stands at `offset`."""
    name, number = partition.at
    wanted = FetchPartition(number, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    request = FetchRequest(
        replica_id=DEBUGGING_CONSUMER, max_wait_ms=0, max_bytes=_FETCH_BYTES, topics=[FetchTopic(name, [wanted])]
    )
    response = await partition.cluster.ask(broker, fetch.API, request, least=_ANY_REPLICA_SINCE)
    for topic in response.responses:
        for answer in topic.partition_responses:
            raise_for(answer.error_code, context=f"broker {broker}, offset {offset}")
            return answer.log_start_offset, answer.high_watermark, answer.record_set or b""
    raise KafkaError(error_code(response.error_code), context=f"broker {broker}")
