"""The consumer without a group: positions, resets, pauses, streams, leaders that move, logs that were truncated."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import EARLIEST, ConsumedRecord, Consumer, NotAssigned
from barnabas.client.consumer_options import (
    ConsumerOptions,
    LogTruncated,
    NoOffset,
    OffsetOutOfRange,
    OffsetReset,
)
from barnabas.client.errors import KafkaError, ProtocolViolation
from barnabas.client.fetched_records import FetchedRecords
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EARLY = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=20)


def fill(small: SmallCluster, part: TopicPartition, count: int, *, timestamp: int = 0) -> None:
    first = small.logs[part].end_offset
    small.logs[part].append(build_batch([Record(0, timestamp, None, b"%d" % (first + i)) for i in range(count)]))
    small.appended.set()


@asynccontextmanager
async def reading(
    cluster: Cluster, *partitions: TopicPartition, options: ConsumerOptions = EARLY
) -> AsyncIterator[Consumer]:
    async with asyncio.timeout(10), Consumer(cluster, options) as consumer:
        consumer.assign(partitions)
        yield consumer


async def read(consumer: Consumer, count: int) -> dict[TopicPartition, list[int]]:
    """So many records, whole batches, as their offsets."""
    found: dict[TopicPartition, list[int]] = {}
    async with aclosing(consumer.batches()) as batches:
        async for batch in batches:
            assert all(int(record.value or b"") == record.offset for record in batch.records)
            found.setdefault(batch.topic_partition, []).extend(record.offset for record in batch.records)
            if sum(map(len, found.values())) >= count:
                return found
    raise AssertionError


async def test_all_partitions_are_read_in_order_from_their_leaders(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    for part in (T0, T1):
        for _ in range(20):
            fill(small, part, 3)
    async with reading(cluster, T0, T1) as consumer:
        assert await read(consumer, 120) == {T0: list(range(60)), T1: list(range(60))}
        fill(small, T1, 2)
        assert await read(consumer, 2) == {T1: [60, 61]}
        assert consumer.positions() == {T0: 60, T1: 62}


async def test_reading_begins_at_the_end_where_the_reset_policy_says_so(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 5)
    async with reading(cluster, T0, options=ConsumerOptions(max_wait_ms=20)) as consumer:
        assert await consumer.position(T0) == 5
        fill(small, T0, 1)
        assert await read(consumer, 1) == {T0: [5]}


async def test_without_a_reset_policy_a_missing_offset_is_an_error_until_the_position_moves(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    fill(small, T0, 5)
    async with reading(cluster, T0, options=ConsumerOptions(offset_reset=OffsetReset.NONE, max_wait_ms=20)) as consumer:
        with pytest.raises(NoOffset):
            await read(consumer, 1)
        with pytest.raises(NoOffset):
            await consumer.position(T0)
        consumer.seek(T0, 9)
        with pytest.raises(OffsetOutOfRange) as caught:
            await read(consumer, 1)
        assert (caught.value.topic_partition, caught.value.offset) == (T0, 9)
        consumer.seek(T0, 2)
        assert await read(consumer, 1) == {T0: [2, 3, 4]}


async def test_an_offset_out_of_range_is_reset(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 5)
    async with reading(cluster, T0) as consumer:
        consumer.seek(T0, 99)
        assert await read(consumer, 1) == {T0: [0, 1, 2, 3, 4]}


async def test_what_was_fetched_before_a_seek_is_not_handed_out(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    for _ in range(4):
        fill(small, T0, 10)
    async with reading(cluster, T0, options=EARLY) as consumer:
        assert (await read(consumer, 1))[T0][0] == 0
        consumer.seek(T0, 25)
        assert await read(consumer, 15) == {T0: list(range(25, 40))}
        with pytest.raises(NotAssigned):
            consumer.seek(T1, 0)


async def test_a_seek_to_a_time_finds_the_first_record_that_is_late_enough(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t", 2)
    for timestamp in (100, 200, 300):
        fill(small, T0, 2, timestamp=timestamp)
    fill(small, T1, 3, timestamp=100)
    async with reading(cluster, T0, T1) as consumer:
        assert await consumer.seek_to_times({T0: 150, T1: 150}) == {T0: 2, T1: 3}
        assert await consumer.seek_to_times({T0: EARLIEST}) == {T0: 0}


async def test_a_paused_partition_gives_nothing_until_it_is_resumed(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    async with reading(cluster, T0, T1) as consumer:
        consumer.pause([T0])
        assert consumer.paused == [T0]
        fill(small, T0, 3)
        fill(small, T1, 3)
        assert await read(consumer, 3) == {T1: [0, 1, 2]}
        fill(small, T1, 3)
        assert await read(consumer, 3) == {T1: [3, 4, 5]}
        consumer.resume([T0])
        assert await read(consumer, 3) == {T0: [0, 1, 2]}


async def test_a_partition_is_in_one_streams_hands_at_a_time(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    async with reading(cluster, T0, T1) as consumer:
        first, second = consumer.batches(), consumer.batches()
        fill(small, T0, 1)
        assert (await anext(first)).topic_partition == T0
        fill(small, T0, 1)
        fill(small, T1, 1)
        assert (await anext(second)).topic_partition == T1
        waiting = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0.1)  # long enough for another fetch
        assert not waiting.done()
        await first.aclose()
        assert (await waiting).records[0].offset == 1
        await second.aclose()


async def test_single_records_move_the_position_one_by_one(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 5)
    async with reading(cluster, T0) as consumer:
        seen: list[ConsumedRecord] = []
        async with aclosing(consumer.records()) as records:
            async for each in records:
                seen.append(each)
                assert consumer.positions() == {T0: each.record.offset + 1}
                if each.record.offset == 2 and len(seen) == 3:
                    consumer.seek(T0, 1)
                if len(seen) == 6:
                    break
        assert [each.record.offset for each in seen] == [0, 1, 2, 1, 2, 3]


async def test_a_partition_is_followed_to_its_new_leader(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    async with reading(cluster, T0) as consumer:
        await read(consumer, 3)
        small.logs[T0].leader, small.logs[T0].leader_epoch = 2, 1
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [3, 4, 5]}


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.LIST_OFFSETS])
async def test_lost_connections_are_made_again(small: SmallCluster, cluster: Cluster, key: ApiKey) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    left = 3

    def hang_up(asked: Asked) -> None:
        nonlocal left
        if asked.key is key and left:
            left -= 1
            raise Hangup

    small.on_request = hang_up
    async with reading(cluster, T0) as consumer:
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
        assert left == 0


async def test_a_refusal_that_no_patience_mends_is_raised(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")

    def refuse(asked: Asked) -> Any:
        if asked.key is ApiKey.FETCH:
            answer = FetchablePartitionResponse(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, record_set=b"")
            return FetchResponse(responses=[FetchableTopicResponse("t", [answer])])
        return None

    small.on_request = refuse
    async with reading(cluster, T0) as consumer:
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await read(consumer, 1)


async def test_damage_is_raised_and_can_be_sought_over(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    small.logs[T0].batches[0][-1] ^= 1
    async with reading(cluster, T0) as consumer:
        with pytest.raises(ProtocolViolation, match="t-0"):
            await read(consumer, 1)
        consumer.seek(T0, 3)
        fill(small, T0, 2)
        assert await read(consumer, 2) == {T0: [3, 4]}


def truncate(small: SmallCluster, to: int) -> None:
    """An unclean election: the new leader has the first `to` records, and others after them."""
    log = small.logs[T0]
    log.leader, log.leader_epoch = 2, 1
    log.batches = [batch for batch in log.batches if int.from_bytes(batch[:8], "big") < to]
    log.end_offset = to


async def test_a_truncated_log_is_found_by_its_leader_epoch(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    fill(small, T0, 3)
    options = ConsumerOptions(offset_reset=OffsetReset.NONE, max_wait_ms=20)
    async with reading(cluster, T0, options=options) as consumer:
        consumer.seek(T0, 0)
        await read(consumer, 6)
        truncate(small, 3)
        fill(small, T0, 9)
        with pytest.raises(LogTruncated) as caught:
            await read(consumer, 1)
        assert (caught.value.offset, caught.value.divergence) == (6, 3)


async def test_with_a_reset_policy_reading_goes_on_where_the_logs_part(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    fill(small, T0, 3)
    async with reading(cluster, T0) as consumer:
        await read(consumer, 6)
        truncate(small, 3)
        fill(small, T0, 9)
        assert await read(consumer, 9) == {T0: list(range(3, 12))}


async def test_partitions_that_are_full_do_not_starve_behind_those_that_are_idle(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t", 3)  # broker 1 leads 0 and 2
    for _ in range(60):
        fill(small, T0, 1)
    options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=3000, partition_max_bytes=1)
    async with reading(cluster, T0, TopicPartition("t", 2), options=options) as consumer, asyncio.timeout(5):
        assert await read(consumer, 60) == {T0: list(range(60))}


async def next_batch(consumer: Consumer) -> FetchedRecords:
    async with aclosing(consumer.batches()) as batches:
        return await anext(batches)


async def test_what_is_not_assigned_any_more_is_not_handed_out(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 3)
    fill(small, T1, 3)
    async with reading(cluster, T0, T1) as consumer:
        await next_batch(consumer)
        await next_batch(consumer)
        consumer.assign([T1])
        assert consumer.assignment == [T1]
        fill(small, T0, 3)
        fill(small, T1, 3)
        assert (await next_batch(consumer)).topic_partition == T1


async def test_who_waits_for_a_leader_waits(small: SmallCluster, cluster: Cluster) -> None:
    """The driver looks again when something happened, and not because nothing did."""
    small.add_topic("t")

    async def slowly(asked: Asked) -> None:
        if asked.key is ApiKey.METADATA:
            await asyncio.sleep(0.5)

    small.on_request = slowly
    made = 0

    def count(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        nonlocal made
        made += 1
        return asyncio.Task(work, loop=loop, **options)

    async with reading(cluster, T0) as consumer:
        await consumer.position(T0)
        asyncio.get_running_loop().set_task_factory(count)
        consumer.assign([])
        consumer.assign([T0])
        cluster.forget("t")
        await asyncio.sleep(0.3)
        asyncio.get_running_loop().set_task_factory(None)
    assert made < 20
