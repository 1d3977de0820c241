"""Consuming ranges: order, ends, cut batches, moving leaders, damage."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import ClientError, KafkaError, ProtocolViolation
from barnabas.client.fetched_records import AbortedRange
from barnabas.client.range_reader import OffsetRange, RangeReader, RangeReaderOptions
from barnabas.protocol.batch import Codec
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.entry_builder import EntryBuilder
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

T0 = TopicPartition("t", 0)


def fill(small: SmallCluster, part: TopicPartition, batches: int, each: int = 3, codec: Codec = Codec.NONE) -> None:
    for _ in range(batches):
        first = small.logs[part].end_offset
        records = [Record(0, 0, None, b"%d" % (first + i)) for i in range(each)]
        small.logs[part].append(build_batch(records, codec=codec))


async def read(
    cluster: Cluster, ranges: Mapping[TopicPartition, OffsetRange], options: RangeReaderOptions | None = None
) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {part: [] for part in ranges}
    async with aclosing(RangeReader(cluster, ranges, options=options).fetched()) as fetched:
        async for each in fetched:
            found[each.topic_partition] += [record.offset for record in each.records]
            assert all(int(record.value or b"") == record.offset for record in each.records)
    return found


@pytest.mark.parametrize(("start", "end"), [(0, 30), (0, 1), (1, 2), (4, 17), (29, 30), (7, 7), (30, 30)])
async def test_a_range_is_read_to_the_record(small: SmallCluster, cluster: Cluster, start: int, end: int) -> None:
    small.add_topic("t")
    fill(small, T0, 10, codec=Codec.LZ4)
    assert await read(cluster, {T0: OffsetRange(start, end)}) == {T0: list(range(start, end))}


async def test_partitions_of_several_leaders_are_read_in_order(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 4)
    parts = [TopicPartition("t", index) for index in range(4)]
    for part in parts:
        fill(small, part, 50)
    options = RangeReaderOptions(max_bytes=300, partition_max_bytes=250)
    found = await read(cluster, dict.fromkeys(parts, OffsetRange(0, 150)), options)
    assert found == {part: list(range(150)) for part in parts}
    assert {asked.node_id for asked in small.asked if asked.key is ApiKey.FETCH} == {1, 2}


async def test_a_batch_greater_than_the_limits_is_read(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 3, each=100)
    options = RangeReaderOptions(max_bytes=10, partition_max_bytes=10)
    assert await read(cluster, {T0: OffsetRange(0, 300)}, options) == {T0: list(range(300))}


async def test_an_open_range_goes_on_with_what_is_written(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 1)
    offsets: list[int] = []
    async with aclosing(RangeReader(cluster, {T0: OffsetRange(1)}).fetched()) as fetched:
        async for each in fetched:
            offsets += [record.offset for record in each.records]
            assert each.high_watermark == small.logs[T0].end_offset
            if len(offsets) >= 8:
                break
            fill(small, T0, 1)
            small.appended.set()
    assert offsets == list(range(1, 9))


async def test_no_partition_waits_until_another_is_read(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 3)
    first, _, third = parts = [TopicPartition("t", index) for index in range(3)]
    for part in parts:
        fill(small, part, 20)
    ranges = {first: OffsetRange(0, 60), third: OffsetRange(0, 60)}
    consumer = RangeReader(cluster, ranges, options=RangeReaderOptions(max_bytes=10, partition_max_bytes=10))
    async with aclosing(consumer.fetched()) as fetched:
        turns = [each.topic_partition async for each in fetched]
    assert turns == [first, third] * 20


async def test_control_records_are_stepped_over(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 1)
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 0), producer_id=-1, producer_epoch=0, timestamp=0
    )
    small.logs[T0].append(marker)
    fill(small, T0, 1)
    small.logs[T0].append(marker)
    assert await read(cluster, {T0: OffsetRange(0, 8)}) == {T0: [0, 1, 2, 4, 5, 6]}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_messages_of_older_formats_are_read(
    small: SmallCluster, cluster: Cluster, magic: int, codec: Codec
) -> None:
    small.add_topic("t")
    log = small.logs[T0]
    for first in range(0, 9, 3):
        builder = EntryBuilder(magic=magic, codec=codec)
        builder.add(Record(offset, 0, None, b"%d" % offset) for offset in range(first, first + 3))
        entries = builder.finish()
        log.batches += [bytearray(entries[at : at + header.size_bytes]) for at, header in iterate_entries(entries)]
        log.end_offset += 3
    fill(small, T0, 1)
    for start, end in ((0, 12), (1, 2), (4, 11), (5, 6)):
        assert await read(cluster, {T0: OffsetRange(start, end)}) == {T0: list(range(start, end))}


async def test_batches_are_given_as_they_are_with_what_was_aborted(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 2, codec=Codec.LZ4)
    stored = b"".join(bytes(batch) for batch in small.logs[T0].batches)
    aborted = [AbortedTransaction(producer_id=7, first_offset=1)]
    answer = FetchablePartitionResponse(0, 0, 6, last_stable_offset=6, aborted_transactions=aborted, record_set=stored)

    def answered(asked: Asked) -> FetchResponse | None:
        if asked.key is not ApiKey.FETCH:
            return None
        assert asked.request.isolation_level == IsolationLevel.READ_COMMITTED
        return FetchResponse(responses=[FetchableTopicResponse("t", [answer])])

    small.on_request = answered
    options = RangeReaderOptions(isolation_level=IsolationLevel.READ_COMMITTED)
    async with aclosing(RangeReader(cluster, {T0: OffsetRange(1, 5)}, options=options).batches()) as batches:
        (fetched,) = [each async for each in batches]
    assert bytes(fetched.record_set) == stored
    assert (fetched.start, fetched.end, fetched.next_offset) == (1, 5, 6)
    assert list(fetched.aborted) == [AbortedRange(7, 1)]


@pytest.mark.parametrize("isolation", list(IsolationLevel))
async def test_a_range_whose_rest_was_compacted_away_ends(
    small: SmallCluster, cluster: Cluster, isolation: IsolationLevel
) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    small.logs[T0].end_offset = 9
    options = RangeReaderOptions(max_wait_ms=1, isolation_level=isolation)
    assert await read(cluster, {T0: OffsetRange(0, 9)}, options) == {T0: list(range(6))}


async def test_a_throttled_answer_is_not_taken_for_the_end(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    throttled = FetchablePartitionResponse(0, 0, 6, last_stable_offset=6, record_set=b"")

    def throttle(asked: Asked) -> FetchResponse | None:
        if asked.key is ApiKey.FETCH and small.keys_asked().count(ApiKey.FETCH) == 1:
            return FetchResponse(throttle_time_ms=50, responses=[FetchableTopicResponse("t", [throttled])])
        return None

    small.on_request = throttle
    assert await read(cluster, {T0: OffsetRange(0, 6)}) == {T0: list(range(6))}


async def test_a_new_leader_is_followed(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    parts = [T0, TopicPartition("t", 1)]
    for part in parts:
        fill(small, part, 20)

    def move(asked: Asked) -> None:
        if asked.key is ApiKey.FETCH and small.keys_asked().count(ApiKey.FETCH) == 3:
            small.logs[T0].leader = 2

    small.on_request = move
    options = RangeReaderOptions(partition_max_bytes=200, max_wait_ms=10)
    found = await read(cluster, dict.fromkeys(parts, OffsetRange(0, 60)), options)
    assert found == {part: list(range(60)) for part in parts}


async def test_a_lost_connection_is_made_again(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 20)

    def hang_up(asked: Asked) -> None:
        if asked.key is ApiKey.FETCH and small.keys_asked().count(ApiKey.FETCH) % 3 == 0:
            raise Hangup

    small.on_request = hang_up
    found = await read(cluster, {T0: OffsetRange(0, 60)}, RangeReaderOptions(partition_max_bytes=200))
    assert found == {T0: list(range(60))}


async def test_what_lasts_too_long_is_told(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    cluster.options.timeout_ms = 200

    def hang_up(asked: Asked) -> None:
        if asked.key is ApiKey.FETCH:
            raise Hangup

    small.on_request = hang_up
    with pytest.raises(ClientError):
        await read(cluster, {T0: OffsetRange(0, 60)})


async def test_an_offset_that_is_gone_is_told(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    with pytest.raises(KafkaError) as caught:
        await read(cluster, {T0: OffsetRange(7, 9)})
    assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "t-0" in str(caught.value)


@pytest.mark.parametrize("at", [16, 17, 25, -1])
async def test_damage_is_told(small: SmallCluster, cluster: Cluster, at: int) -> None:
    small.add_topic("t")
    fill(small, T0, 1)
    small.logs[T0].batches[0][at] ^= 0x40
    answer = FetchablePartitionResponse(0, 0, 3, record_set=bytes(small.logs[T0].batches[0]))
    response = FetchResponse(responses=[FetchableTopicResponse("t", [answer])])

    def damaged(asked: Asked) -> FetchResponse | None:
        return response if asked.key is ApiKey.FETCH else None

    small.on_request = damaged
    with pytest.raises(ProtocolViolation, match="t-0"):
        await read(cluster, {T0: OffsetRange(0, 3)})


async def test_stopping_early_leaves_nothing_running(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 5)
    before = len(asyncio.all_tasks())
    both = {T0: OffsetRange(0), TopicPartition("t", 1): OffsetRange(0)}
    async with aclosing(RangeReader(cluster, both).fetched()) as fetched:
        async for _ in fetched:
            break
    await cluster.close()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len([task for task in asyncio.all_tasks() if "fetch" in repr(task.get_coro())]) == 0
    assert len(asyncio.all_tasks()) <= before + 2
