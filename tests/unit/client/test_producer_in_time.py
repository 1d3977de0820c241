"""The producer in virtual time: what leaves when, what is under way, what is given up, and who is told."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from barnabas.client.errors import ClientError, KafkaError, ProducerClosed, RequestTimedOut
from barnabas.client.lane import LAST_EPOCH
from barnabas.client.outgoing import Delivery, RecordMetadata, Sent
from barnabas.client.partitioner import partition_of_key
from barnabas.client.producer import Producer, utf8
from barnabas.client.producer_options import ACKS_LEADER, ProducerOptions
from barnabas.protocol.batch import read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.support.clock import ManualClock
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import small_cluster
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

T0 = TopicPartition("t", 0)


def produced(small: SmallCluster) -> list[Asked]:
    return [asked for asked in small.asked if asked.key is ApiKey.PRODUCE]


def refusal(asked: Asked, error: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        [
            TopicProduceResponse(
                topic.name, [PartitionProduceResponse(part.partition_index, error, -1) for part in topic.partitions]
            )
            for topic in asked.request.topics
        ]
    )


def values(small: SmallCluster, at: TopicPartition = T0) -> list[bytes | None]:
    return [record.value for record in small.logs[at].records()]


@virtual_time
async def test_a_record_leaves_when_it_has_lingered() -> None:
    wire = small_cluster()
    loop = asyncio.get_running_loop()
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(linger_ms=500)) as producer:
        await producer.flush()
        await producer.send("t", None, b"first")
        start = loop.time()
        sent = await producer.send("t", None, b"second")
        assert not sent.is_done()
        assert (await sent).offset == 1
        assert 0.5 <= loop.time() - start < 0.6
        start = loop.time()
        where = await producer.send_and_wait("t", None, b"third")
        assert loop.time() - start < 0.1, "who waits does not linger"
        assert where == RecordMetadata("t", 0, 2, -1)


@virtual_time
async def test_five_requests_are_under_way_in_order() -> None:
    wire = small_cluster()
    most = under_way = 0
    release = asyncio.Event()

    async def hold(asked: Asked) -> None:
        nonlocal most, under_way
        if asked.key is ApiKey.PRODUCE and len(produced(wire.small)) > 1:
            await release.wait()

    wire.small.on_request = hold
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(batch_bytes=10)) as producer:
        for number in range(20):
            await producer.send("t", None, b"%d" % number, partition=0)
        await asyncio.sleep(1)
        lane = producer._sender.lanes[T0]
        assert [batch.sequence for batch in lane.sent] == [1, 2, 3, 4, 5]
        release.set()
    assert values(wire.small) == [b"%d" % number for number in range(20)]


@virtual_time
async def test_batches_of_many_partitions_share_a_request() -> None:
    wire = small_cluster(50, brokers=2)
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(linger_ms=50)) as producer:
        for number in range(50):
            await producer.send("t", None, b"v", partition=number)
    assert sorted(asked.node_id for asked in produced(wire.small)) == [1, 2]


@virtual_time
async def test_no_more_than_five_requests_are_under_way_to_a_broker() -> None:
    wire = small_cluster(20)
    release = asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.PRODUCE:
            await release.wait()

    wire.small.on_request = hold
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(linger_ms=0)) as producer:
        for number in range(20):
            await producer.send("t", None, b"v", partition=number)
            await asyncio.sleep(0.01)
        assert list(producer._sender._requests.values()) == [5]
        release.set()
    assert len(produced(wire.small)) == 6, "what waited went together"


@virtual_time
async def test_a_request_stays_below_its_size() -> None:
    wire = small_cluster(10)
    options = ProducerOptions(linger_ms=50, max_request_bytes=1000)
    async with wire.cluster() as cluster, Producer(cluster, options=options) as producer:
        for number in range(10):
            await producer.send("t", None, bytes(400), partition=number)
    sizes = [sum(len(p.records) for t in each.request.topics for p in t.partitions) for each in produced(wire.small)]
    assert len(sizes) == 5
    assert max(sizes) < 1200


@virtual_time
async def test_what_is_not_written_in_time_is_given_up_with_the_reason() -> None:
    wire = small_cluster()
    wire.small.on_request = lambda asked: (
        refusal(asked, ErrorCode.NOT_ENOUGH_REPLICAS) if asked.key is ApiKey.PRODUCE else None
    )
    loop = asyncio.get_running_loop()
    async with wire.cluster() as cluster:
        producer = Producer(cluster, options=ProducerOptions(delivery_timeout_ms=5000))
        sent = await producer.send("t", None, b"v")
        with pytest.raises(RequestTimedOut, match=r"t-0: not written in 5000 ms: .*NOT_ENOUGH_REPLICAS"):
            await sent
        assert 5 <= loop.time() < 7
        with pytest.raises(RequestTimedOut):
            await producer.flush()
        wire.small.on_request = lambda _: None
        assert (await producer.send_and_wait("t", None, b"later")).offset == 0
        await producer.flush()
        await producer.close()


@virtual_time
async def test_what_is_under_way_when_its_time_is_up_is_told_as_it_comes_back() -> None:
    wire = small_cluster()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.PRODUCE:
            await asyncio.sleep(5)

    wire.small.on_request = hold
    options = ProducerOptions(delivery_timeout_ms=1000, linger_ms=0)
    async with wire.cluster(timeout_ms=10_000) as cluster, Producer(cluster, options=options) as producer:
        assert (await producer.send_and_wait("t", None, b"v")).offset == 0
    assert values(wire.small) == [b"v"]


@virtual_time
async def test_a_retry_of_which_the_broker_has_forgotten_the_offset_was_written() -> None:
    wire = small_cluster()
    wire.small.on_request = lambda asked: (
        refusal(asked, ErrorCode.DUPLICATE_SEQUENCE_NUMBER) if asked.key is ApiKey.PRODUCE else None
    )
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        assert (await producer.send_and_wait("t", None, b"v")).offset == -1
        await producer.flush()


@virtual_time
async def test_a_leader_that_is_not_there_is_waited_for() -> None:
    wire = small_cluster(brokers=2)
    wire.small.logs[T0].leader = 2
    wire.unreachable.add(2)
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        sent = await producer.send("t", None, b"v")
        await asyncio.sleep(3)
        assert not sent.is_done()
        wire.small.logs[T0].leader = 1
        assert (await sent).offset == 0


@virtual_time
async def test_a_refused_record_fails_alone_and_those_behind_it_follow_in_a_new_epoch() -> None:
    wire = small_cluster()
    refused: list[int] = []

    def refuse_third(asked: Asked) -> Any:
        if asked.key is ApiKey.PRODUCE:
            (topic,) = asked.request.topics
            header = read_header(topic.partitions[0].records)
            if header.base_sequence == 2 and not refused:
                refused.append(2)
                return refusal(asked, ErrorCode.INVALID_RECORD)
        return None

    wire.small.on_request = refuse_third
    deliveries: list[Delivery] = []
    async with wire.cluster() as cluster:
        producer = Producer(cluster, options=ProducerOptions(batch_bytes=10), on_delivery=deliveries.append)
        sent = [await producer.send("t", None, b"%d" % number, partition=0) for number in range(6)]
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.flush()
        outcomes = await asyncio.gather(*sent, return_exceptions=True)
        await producer.close()
    assert [isinstance(each, ClientError) for each in outcomes] == [False, False, True, False, False, False]
    assert values(wire.small) == [b"0", b"1", b"3", b"4", b"5"]
    assert [each.error is None for each in deliveries].count(False) == 1
    epochs = [read_header(batch).producer_epoch for batch in wire.small.logs[T0].batches]
    assert epochs == [0, 0, 1, 1, 1]


@virtual_time
async def test_halting_writes_nothing_behind_a_refused_record() -> None:
    wire = small_cluster()
    wire.small.on_request = lambda asked: (
        refusal(asked, ErrorCode.INVALID_RECORD) if len(produced(wire.small)) == 3 else None
    )
    async with wire.cluster() as cluster:
        options = ProducerOptions(batch_bytes=10, halt_on_error=True)
        producer = Producer(cluster, options=options)
        for number in range(8):
            await producer.send("t", None, b"%d" % number, partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.flush()
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send("t", None, b"more", partition=0)
        await producer.close()
    assert values(wire.small) == [b"0", b"1"]


@virtual_time
async def test_a_record_that_waited_for_its_topic_is_refused_where_the_producer_ended_meanwhile() -> None:
    wire = small_cluster()
    wire.small.add_topic("slow")

    async def answer(asked: Asked) -> Any:
        if asked.key is ApiKey.METADATA and [each.name for each in asked.request.topics] == ["slow"]:
            await asyncio.sleep(2)
        return refusal(asked, ErrorCode.INVALID_RECORD) if asked.key is ApiKey.PRODUCE else None

    async with wire.cluster() as cluster:
        producer = Producer(cluster, options=ProducerOptions(halt_on_error=True))
        await producer.send_and_wait("t", None, b"v", partition=0)
        wire.small.on_request = answer
        await producer.send("t", None, b"v", partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send("slow", None, b"v")
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await asyncio.wait_for(producer.flush(), 10)
        await producer.close()


@virtual_time
async def test_a_batch_larger_than_a_request_may_be_leaves_alone() -> None:
    wire = small_cluster()
    options = ProducerOptions(max_request_bytes=100)
    async with wire.cluster() as cluster, Producer(cluster, options=options) as producer:
        assert (await asyncio.wait_for(producer.send_and_wait("t", None, bytes(500)), 10)).offset == 0


@virtual_time
async def test_flushing_does_not_linger() -> None:
    wire = small_cluster()
    loop = asyncio.get_running_loop()
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(linger_ms=60_000)) as producer:
        await producer.send("t", None, b"v")
        await producer.flush()
        assert loop.time() < 1
    assert values(wire.small) == [b"v"]


@virtual_time
async def test_a_leader_that_nobody_names_is_asked_for_now_and_then() -> None:
    wire = small_cluster()
    wire.small.logs[T0].leader = -1
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        sent = await producer.send("t", None, b"v", partition=0)
        await asyncio.sleep(10)
        assert 5 < wire.small.keys_asked().count(ApiKey.METADATA) < 100
        wire.small.logs[T0].leader = 1
        assert (await sent).offset == 0


@virtual_time
async def test_behind_the_last_epoch_of_a_producer_id_another_id_begins() -> None:
    wire = small_cluster()
    identities = [(7, LAST_EPOCH), (8, 0)]
    refused = False

    def answer(asked: Asked) -> Any:
        nonlocal refused
        if asked.key is ApiKey.INIT_PRODUCER_ID:
            producer_id, epoch = identities.pop(0)
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
        if asked.key is ApiKey.PRODUCE and not refused and wire.small.logs[T0].end_offset:
            refused = True
            return refusal(asked, ErrorCode.INVALID_RECORD)
        return None

    wire.small.on_request = answer
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        await producer.send_and_wait("t", None, b"0", partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send_and_wait("t", None, b"1", partition=0)
        await producer.send_and_wait("t", None, b"2", partition=0)
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.flush()
    headers = [read_header(batch) for batch in wire.small.logs[T0].batches]
    assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers] == [
        (7, LAST_EPOCH, 0),
        (8, 0, 0),
    ]


@virtual_time
async def test_after_a_success_the_next_refusal_is_tried_again_soon() -> None:
    wire = small_cluster()
    loop = asyncio.get_running_loop()
    refusals: list[ErrorCode] = []
    wire.small.on_request = lambda asked: (
        refusal(asked, refusals.pop()) if asked.key is ApiKey.PRODUCE and refusals else None
    )
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        took_s = []
        for count in (8, 1):
            refusals += [ErrorCode.NOT_ENOUGH_REPLICAS] * count
            start = loop.time()
            await producer.send_and_wait("t", None, b"v", partition=0)
            took_s.append(loop.time() - start)
    assert took_s[0] > 3
    assert took_s[1] < 0.1


@virtual_time
async def test_nothing_counts_as_buffered_when_all_is_told_also_of_batches_that_were_divided() -> None:
    """The halves are smaller together than the whole: their offsets and times begin anew."""
    wire = small_cluster()
    wire.small.max_message_bytes = 1500
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        for number in range(400):
            await producer.send("t", None, b"v", partition=0, timestamp=number * 100)
        await producer.flush()
        assert len(wire.small.logs[T0].batches) > 2
        assert producer._sender.buffered_bytes == 0
    assert len(values(wire.small)) == 400


@virtual_time
async def test_lost_answers_and_full_windows_keep_order() -> None:
    wire = small_cluster()
    count = 0

    def lose(asked: Asked) -> None:
        nonlocal count
        if asked.key is ApiKey.PRODUCE:
            count += 1
            if count % 3 == 0:
                wire.small._produce(asked)
                raise Hangup
            if count % 7 == 0:
                raise Hangup

    wire.small.on_request = lose
    async with wire.cluster() as cluster, Producer(cluster, options=ProducerOptions(batch_bytes=20)) as producer:
        for number in range(200):
            await producer.send("t", None, b"%d" % number, partition=0)
    assert values(wire.small) == [b"%d" % number for number in range(200)]


@virtual_time
async def test_without_idempotence_one_batch_of_a_partition_is_under_way() -> None:
    wire = small_cluster()
    options = ProducerOptions(acks=ACKS_LEADER, batch_bytes=10)
    async with wire.cluster() as cluster, Producer(cluster, options=options) as producer:
        for number in range(10):
            await producer.send("t", None, b"%d" % number, partition=0)
            assert producer._sender.lane(T0).in_flight <= 1
            await asyncio.sleep(0.0005)
            assert producer._sender.lane(T0).in_flight <= 1
    assert values(wire.small) == [b"%d" % number for number in range(10)]


@virtual_time
async def test_what_was_not_written_fails_when_the_producer_is_closed() -> None:
    wire = small_cluster()
    async with wire.cluster() as cluster:
        producer = Producer(cluster, options=ProducerOptions(linger_ms=1000))
        sent = await producer.send("t", None, b"v")
        await producer.close()
        with pytest.raises(ProducerClosed):
            await sent
        with pytest.raises(ProducerClosed):
            await producer.send("t", None, b"v")


@virtual_time
async def test_encoders_make_bytes_and_their_keys_choose_partitions() -> None:
    wire = small_cluster(8)
    async with (
        wire.cluster() as cluster,
        Producer(cluster, encode_key=utf8, encode_value=lambda _, number: b"%d" % number) as producer,
    ):
        sent: Sent = await producer.send("t", "schlüssel", 7)
        assert (await sent).partition == partition_of_key("schlüssel".encode(), 8)
        await producer.send("t", None, None, partition=0)
    assert values(wire.small, sent.topic_partition)[-1:] in ([b"7"], [None])


@virtual_time
async def test_records_without_a_key_move_on_when_their_batch_left() -> None:
    wire = small_cluster(6)
    async with wire.cluster() as cluster, Producer(cluster) as producer:
        partitions = [(await producer.send_and_wait("t", None, b"v")).partition for _ in range(60)]
    assert set(partitions) == set(range(6))
    assert all(one != other for one, other in pairwise(partitions))


@virtual_time
async def test_partitions_that_are_added_are_written_to() -> None:
    wire = small_cluster(1)
    options = ProducerOptions(metadata_max_age_ms=10_000)
    async with wire.cluster() as cluster, Producer(cluster, options=options) as producer:
        assert (await producer.send_and_wait("t", b"key", b"v")).partition == 0
        wire.small.add_topic("t", 64)
        await asyncio.sleep(11)
        assert (await producer.send_and_wait("t", b"key", b"v")).partition == partition_of_key(b"key", 64)


@virtual_time
async def test_timestamps_are_the_clocks_unless_given() -> None:
    wire = small_cluster()
    clock = ManualClock(wall_ms=5000)
    async with wire.cluster() as cluster, Producer(cluster, clock=clock) as producer:
        await producer.send("t", None, b"now")
        await producer.send("t", None, b"then", timestamp=17)
    assert [record.timestamp for record in wire.small.logs[T0].records()] == [5000, 17]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"acks": 2}, "acks=2"),
        ({"max_in_flight": 6}, "max_in_flight=6"),
        ({"max_in_flight": 0}, "max_in_flight=0"),
        ({"transactional_id": "x", "acks": 1}, "transactional_id='x'"),
        ({"transactional_id": ""}, "transactional_id=''"),
    ],
)
def test_options_that_contradict_themselves_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ProducerOptions(**wrong)
