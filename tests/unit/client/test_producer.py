"""Producing: batches, order, repeated attempts, refusals."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError
from barnabas.client.outgoing import Delivery
from barnabas.client.partitioner import partition_of_key
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ACKS_LEADER, ACKS_NONE, ProducerOptions
from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.client.conftest import OpenCluster
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

T0 = TopicPartition("t", 0)


def refusing(error: ErrorCode, times: int) -> Callable[[Asked], ProduceResponse | None]:
    left = times

    def refuse(asked: Asked) -> ProduceResponse | None:
        nonlocal left
        if asked.key is not ApiKey.PRODUCE or left == 0:
            return None
        left -= 1
        (topic,) = asked.request.topics
        answers = [PartitionProduceResponse(part.partition_index, error, -1) for part in topic.partitions]
        return ProduceResponse([TopicProduceResponse(topic.name, answers)])

    return refuse


async def send_all(cluster: Cluster, values: list[bytes], options: ProducerOptions | None = None) -> list[Delivery]:
    deliveries: list[Delivery] = []
    async with Producer(cluster, options=options, on_delivery=deliveries.append) as producer:
        for value in values:
            await producer.send("t", None, value, partition=0)
    return deliveries


@pytest.mark.parametrize("codec", Codec)
async def test_records_arrive_as_sent(small: SmallCluster, cluster: Cluster, codec: Codec) -> None:
    small.add_topic("t")
    async with Producer(cluster, options=ProducerOptions(codec=codec)) as producer:
        await producer.send("t", b"k", b"v", headers=(("h", b"x"), ("n", None)), timestamp=1234)
        await producer.send("t", None, b"", timestamp=5)
        await producer.send("t", b"", None, timestamp=6)
    first, second, third = small.logs[T0].records()
    assert (first.key, first.value, first.timestamp, list(first.headers)) == (
        b"k",
        b"v",
        1234,
        [("h", b"x"), ("n", None)],
    )
    assert (second.key, second.value, third.key, third.value) == (None, b"", b"", None)
    assert read_header(small.logs[T0].batches[0]).codec is codec


async def test_keys_choose_partitions_and_order_holds_in_each(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 5)
    async with Producer(cluster, options=ProducerOptions(batch_bytes=500)) as producer:
        for number in range(1000):
            await producer.send("t", b"key %d" % (number % 50), b"%d" % number)
    total = 0
    for part, log in small.logs.items():
        records = log.records()
        total += len(records)
        assert all(partition_of_key(record.key or b"", 5) == part.partition for record in records)
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers)
        assert len(log.batches) > 3
    assert total == 1000


async def test_records_leave_after_a_while_without_a_flush(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    delivered = asyncio.Event()
    async with Producer(cluster, on_delivery=lambda _: delivered.set()) as producer:
        await producer.send("t", None, b"lonely")
        await asyncio.wait_for(delivered.wait(), 3)


async def test_deliveries_tell_offsets(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    deliveries = await send_all(cluster, [b"%d" % i for i in range(10)], ProducerOptions(batch_bytes=60))
    assert [each.base_offset for each in deliveries] == sorted(each.base_offset for each in deliveries)
    assert sum(each.count for each in deliveries) == 10
    assert deliveries[-1].base_offset + deliveries[-1].count == 10
    assert [each.count for each in deliveries] == [7, 3], "8 bytes each, 60 in a batch"


async def test_an_idempotent_producer_writes_once_though_the_answer_was_lost(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    lost = 0

    def lose_answers(asked: Asked) -> None:
        nonlocal lost
        if asked.key is ApiKey.PRODUCE and small.keys_asked().count(ApiKey.PRODUCE) % 2:
            lost += 1
            small._produce(asked)
            raise Hangup

    small.on_request = lose_answers
    values = [b"%d" % i for i in range(20)]
    await send_all(cluster, values, ProducerOptions(batch_bytes=20))
    assert lost > 3
    assert [record.value for record in small.logs[T0].records()] == values


async def test_without_idempotence_there_is_no_producer_id(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    await send_all(cluster, [b"1"], ProducerOptions(acks=ACKS_LEADER))
    await send_all(cluster, [b"2"], ProducerOptions(idempotent=False))
    assert all(read_header(batch).producer_id == -1 for batch in small.logs[T0].batches)
    assert ApiKey.INIT_PRODUCER_ID not in small.keys_asked()
    assert [asked.request.acks for asked in small.asked if asked.key is ApiKey.PRODUCE] == [1, -1]


async def test_acks_0_waits_for_no_answer(small: SmallCluster, open_cluster: OpenCluster) -> None:
    small.add_topic("t")
    cluster = open_cluster(small)
    deliveries = await send_all(cluster, [b"1", b"2"], ProducerOptions(acks=ACKS_NONE))
    await cluster.close()
    await asyncio.wait_for(small.appended.wait(), 3)
    assert small.logs[T0].end_offset == 2
    assert [each.base_offset for each in deliveries] == [-1]


async def test_the_new_leader_gets_what_the_old_one_refused(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    await cluster.topic("t")
    small.logs[T0].leader = 2
    await send_all(cluster, [b"1"])
    assert [asked.node_id for asked in small.asked if asked.key is ApiKey.PRODUCE] == [1, 2]


async def test_a_passing_error_is_tried_again(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.on_request = refusing(ErrorCode.NOT_ENOUGH_REPLICAS, 2)
    await send_all(cluster, [b"1"])
    assert small.logs[T0].end_offset == 1


async def test_a_batch_too_large_is_halved_until_it_fits(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.max_message_bytes = 400
    values = [b"%03d" % i * 10 for i in range(50)]
    await send_all(cluster, values)
    assert [record.value for record in small.logs[T0].records()] == values
    assert max(map(len, small.logs[T0].batches)) <= 400


async def test_a_record_too_large_ends_the_producer(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.max_message_bytes = 400
    producer = Producer(cluster, options=ProducerOptions(halt_on_error=True))
    await producer.send("t", None, bytes(1000), partition=0)
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        await producer.flush()
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        await producer.send("t", None, b"small", partition=0)
    assert small.logs[T0].end_offset == 0


async def test_what_follows_a_lost_record_is_not_written(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    small.on_request = refusing(ErrorCode.INVALID_RECORD, 1)
    with pytest.raises(KafkaError, match="INVALID_RECORD"):
        await send_all(cluster, [b"%d" % i for i in range(20)], ProducerOptions(batch_bytes=60, halt_on_error=True))
    assert small.logs[T0].end_offset == 0


async def test_send_waits_while_too_much_is_buffered(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")
    release = asyncio.Event()
    held = asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.PRODUCE:
            held.set()
            await release.wait()

    small.on_request = hold
    taken = 0
    async with Producer(cluster, options=ProducerOptions(batch_bytes=1000, max_buffered_bytes=5000)) as producer:

        async def send_many() -> None:
            nonlocal taken
            for _ in range(100):
                await producer.send("t", None, bytes(200), partition=0)
                taken += 1

        sending = asyncio.ensure_future(send_many())
        await held.wait()
        assert taken < 30
        release.set()
        await sending
    assert small.logs[T0].end_offset == 100


async def test_a_topic_that_cannot_be_created_is_told(small: SmallCluster, cluster: Cluster) -> None:
    cluster.options.timeout_ms = 100
    producer = Producer(cluster)
    with pytest.raises(ClientError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await producer.send("missing", None, b"")


async def test_leaving_by_an_error_sends_nothing_more(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t")

    async def fail() -> None:
        async with Producer(cluster, options=ProducerOptions(linger_ms=1000)) as producer:
            await producer.send("t", None, b"1", partition=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert small.logs[T0].end_offset == 0


async def test_a_listener_that_raises_ends_the_producer(small: SmallCluster, cluster: Cluster) -> None:
    """What is known of its batches is not to be trusted any more."""
    small.add_topic("t")

    def fail(_: Delivery) -> None:
        raise ZeroDivisionError

    producer = Producer(cluster, on_delivery=fail)
    await producer.send_and_wait("t", None, b"1", partition=0)
    with pytest.raises(ClientError, match="ZeroDivisionError"):
        await producer.flush()
    with pytest.raises(ClientError, match="ZeroDivisionError"):
        await producer.send("t", None, b"2", partition=0)
    await producer.close()
