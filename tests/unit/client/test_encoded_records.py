"""Producing records that come encoded: batches that are passed on as they were fetched."""

import asyncio

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import UnsupportedByBroker
from barnabas.client.outgoing import EncodedRecords
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.protocol.batch import HEADER_BYTES, Codec, read_header
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.small_cluster import SmallCluster

T0 = TopicPartition("t", 0)


def encoded(values: list[bytes], codec: Codec = Codec.NONE, *, timestamp: int = 1000) -> EncodedRecords:
    records = [Record(0, timestamp + at, b"k", value, headers=(("h", b"%d" % at),)) for at, value in enumerate(values)]
    batch = build_batch(records, codec=codec)
    return EncodedRecords(memoryview(batch)[HEADER_BYTES:], codec, len(values), timestamp, timestamp + len(values) - 1)


@pytest.mark.parametrize("codec", Codec)
async def test_a_batch_keeps_its_bytes_and_its_codec(small: SmallCluster, cluster: Cluster, codec: Codec) -> None:
    small.add_topic("t")
    records = encoded([b"a" * 100, b"b" * 100], codec)
    async with Producer(cluster, options=ProducerOptions(codec=Codec.GZIP)) as producer:
        sent = await producer.send_encoded("t", 0, records)
        assert (await sent).offset == 0
    (batch,) = small.logs[T0].batches
    header = read_header(batch)
    assert header.codec is codec
    assert batch[HEADER_BYTES:] == records.payload
    assert [(each.timestamp, each.value) for each in small.logs[T0].records()] == [
        (1000, b"a" * 100),
        (1001, b"b" * 100),
    ]
    produced = [asked.header.api_version for asked in small.asked if asked.key is ApiKey.PRODUCE]
    assert len(produced) == 1


async def test_zstd_is_sent_to_no_broker_that_does_not_know_it(cluster: Cluster, small: SmallCluster) -> None:
    small.add_topic("t")
    small.newest[ApiKey.PRODUCE] = 6
    options = ProducerOptions(delivery_timeout_ms=300, halt_on_error=True)
    with pytest.raises(UnsupportedByBroker, match="serves PRODUCE in versions 0 to 6"):
        async with Producer(cluster, options=options) as producer:
            await producer.send_encoded("t", 0, encoded([b"v"], Codec.ZSTD))
    assert not small.logs[T0].batches


async def test_they_stand_behind_what_was_sent_before_and_before_what_comes_after(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    async with Producer(cluster) as producer:
        for at in range(50):
            await producer.send("t", None, b"%d" % (2 * at), partition=0)
            await producer.send_encoded("t", 0, encoded([b"%d" % (2 * at + 1)]))
    assert [int(each.value or b"") for each in small.logs[T0].records()] == list(range(100))


async def test_too_large_a_batch_is_divided_and_its_places_are_known(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.max_message_bytes = 400
    values = [b"%02d" % at * 20 for at in range(20)]
    async with Producer(cluster, options=ProducerOptions(codec=Codec.NONE)) as producer:
        sent = await producer.send_encoded("t", 0, encoded(values))
        await producer.flush()
        places = sent.places(20)
    assert len(small.logs[T0].batches) > 2
    assert sum(count for count, _ in places) == 20
    assert [at + step for count, at in places for step in range(count)] == list(range(20))
    assert [each.value for each in small.logs[T0].records()] == values


async def test_records_of_one_batch_know_each_other(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    async with Producer(cluster) as producer:
        first = await producer.send("t", None, b"0", partition=0)
        second = await producer.send("t", None, b"1", partition=0)
        await producer.send_encoded("t", 0, encoded([b"2"]))
        third = await producer.send("t", None, b"3", partition=0)
        assert second.is_behind(first, 1)
        assert not second.is_behind(first, 2)
        assert not third.is_behind(first, 2)
        await producer.flush()
    assert first.places(2) == [(2, 0)]
    assert third.places(1) == [(1, 3)]


async def test_whoever_sends_waits_while_too_much_is_buffered(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    async with Producer(cluster, options=ProducerOptions(max_buffered_bytes=1000)) as producer:
        await producer.send_encoded("t", 0, encoded([b"x" * 900]))
        waiting = asyncio.create_task(producer.send_encoded("t", 0, encoded([b"y" * 900])))
        await asyncio.sleep(0)
        assert not waiting.done()
        await waiting
    assert len(small.logs[T0].records()) == 2
