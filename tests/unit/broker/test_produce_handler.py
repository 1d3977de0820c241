"""Produce: what each partition of a request is answered, when, and what the log holds afterwards."""

import asyncio
import struct

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.runtime.clock import SystemClock
from barnabas.storage.log_config import LogConfig, TimestampType
from broker.handlers import produce
from broker.internal_topics import INTERNAL_TOPICS
from broker.registry import CloseConnection, Parked
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, answer_of, is_no_response, produce_request, produced
from tests.unit.replication.replica_world import FLUSH_EACH, OTHER
from tests.unit.storage.logs import NOW, batch, read_bytes

T0 = ("t", 0)
VERSIONS = range(9)


async def leading(*, config: LogConfig | None = None, count: int = 1) -> DataBroker:
    broker = await DataBroker().open()
    await broker.lead(config=config, count=count)
    return broker


async def refusal(
    broker: DataBroker, records: memoryview | None, *, version: int = 8, acks: int = 1
) -> tuple[ErrorCode, str | None]:
    """The one answer, which is an error and tells no place."""
    (answer,) = await produced(broker, {T0: records}, version=version, acks=acks)
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)
    assert broker.world.partition().log.log_end_offset == 0
    return ErrorCode(answer.error_code), answer.error_message


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_appended_in_every_version(version: int, acks: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        for first in (0, 2):
            (answer,) = await produced(broker, {T0: batch(b"a", b"b")}, version=version, acks=acks)
            assert (answer.partition_index, answer.error_code, answer.base_offset) == (0, 0, first)
            assert answer.log_append_time_ms == -1
            assert answer.log_start_offset == (0 if version >= 5 else -1)
        expected = b"".join(bytes(batch(b"a", b"b", base_offset=at, leader_epoch=0)) for at in (0, 2))
        assert read_bytes(broker.world.partition().log, 0) == expected

    run()


@virtual_time
async def test_the_answer_tells_the_log_append_time_and_the_log_start_offset() -> None:
    broker = await leading(config=LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    broker.world.clock.advance(5)
    await produced(broker, {T0: batch(b"a", b"b")})
    broker.world.partition().log.advance_log_start_offset(1)
    for version in range(2, 9):
        (answer,) = await produced(broker, {T0: batch(b"a")}, version=version)
        assert answer.log_append_time_ms == broker.world.clock.wall_ms()
        assert answer.log_start_offset == (1 if version >= 5 else -1)


@virtual_time
async def test_the_traffic_of_a_topic_is_counted() -> None:
    broker = await leading()
    data = batch(b"a", b"b")
    await produced(broker, {T0: data})
    traffic = broker.metrics.topic("t")
    assert (traffic.produce_requests, traffic.messages_in, traffic.bytes_in) == (1, 2, len(data))


# What Kafka refuses before the log is asked.


@virtual_time
async def test_a_request_without_records_has_one_batch_too_few_since_version_3() -> None:
    broker = await leading()
    for version in VERSIONS:
        for records in (None, memoryview(b"")):
            if version >= 3:
                error, message = await refusal(broker, records, version=version)
                assert error is ErrorCode.INVALID_RECORD
                assert (message is not None) == (version >= 8)
            else:
                (answer,) = await produced(broker, {T0: records}, version=version, acks=1)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, -1)
    assert broker.world.partition().log.log_end_offset == 0


@virtual_time
async def test_transactional_batches_need_a_transactional_id_and_control_batches_are_not_for_clients() -> None:
    broker = await leading()
    data = batch(b"a", producer=(5, 0, 0), transactional=True)
    assert (await refusal(broker, data))[0] is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    for attributes in (0x20, 0x30):
        data = batch(b"a", producer=(5, 0, 0))
        struct.pack_into(">h", data, 21, attributes)
        error, _ = await refusal(broker, data)
        assert error in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("version", range(3, 9))
def test_zstd_is_taken_since_version_7(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading()
        data = batch(b"a" * 100, codec=Codec.ZSTD)
        if version < 7:
            assert (await refusal(broker, data, version=version))[0] is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            assert (await produced(broker, {T0: data}, version=version))[0].error_code == ErrorCode.NONE

    run()


@pytest.mark.parametrize("version", range(3, 9))
def test_more_than_one_batch_is_refused(version: int) -> None:
    @virtual_time
    async def run() -> None:
        two = memoryview(bytearray(bytes(batch(b"a")) + bytes(batch(b"b"))))
        assert (await refusal(await leading(), two, version=version))[0] is ErrorCode.INVALID_RECORD

    run()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_numbers_of_acknowledgements_are_refused(acks: int) -> None:
    @virtual_time
    async def run() -> None:
        assert (await refusal(await leading(), batch(b"a"), acks=acks))[0] is ErrorCode.INVALID_REQUIRED_ACKS

    run()


@pytest.mark.parametrize("topic", sorted(INTERNAL_TOPICS))
def test_only_kafkas_own_tools_write_to_internal_topics(topic: str) -> None:
    @virtual_time
    async def run() -> None:
        broker = await DataBroker().open()
        await broker.lead(topic)
        (answer,) = await produced(broker, {(topic, 0): batch(b"a")})
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        (answer,) = await produced(broker, {(topic, 0): batch(b"a")}, client_id="__admin_client")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)

    run()


@virtual_time
async def test_what_is_wrong_with_a_batch_comes_before_who_leads_its_partition() -> None:
    broker = await DataBroker().open()
    broker.announce("elsewhere", leader=OTHER)
    at = ("elsewhere", 0)
    (answer,) = await produced(broker, {at: batch(b"a")})
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (answer,) = await produced(broker, {at: None})
    assert answer.error_code == ErrorCode.INVALID_RECORD
    (answer,) = await produced(broker, {at: batch(b"a")}, acks=5)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    (answer,) = await produced(broker, {("unknown", 0): None}, acks=5)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# What the partition and the log refuse.


@virtual_time
async def test_each_partition_is_answered_for_itself_in_the_order_of_the_request() -> None:
    broker = await leading(count=2)
    broken = batch(b"a")
    broken[-1] ^= 1
    request = {
        T0: batch(b"a", b"b"),
        ("unknown", 0): batch(b"a"),
        ("t", 1): broken,
        ("t", 9): batch(b"a"),
        ("t", 0): batch(b"c", b"d"),
    }
    answers = await produced(broker, request)
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert broker.errors(ApiKey.PRODUCE) == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
        ErrorCode.CORRUPT_MESSAGE: 1,
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_records_that_are_rejected_are_named_since_version_8(version: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading(config=LogConfig(message_timestamp_difference_max_ms=1000))
        (answer,) = await produced(broker, {T0: batch(b"a", b"b", timestamp=NOW - 5000)}, version=version)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [error.batch_index for error in answer.record_errors] == ([0, 1] if version >= 8 else [])
        assert (answer.error_message is not None) == (version >= 8)

    run()


@virtual_time
async def test_too_few_replicas_in_sync_are_told_in_words() -> None:
    broker = await DataBroker().open()
    await broker.world.lead(min_in_sync_replicas=2)
    broker.announce("t")
    error, message = await refusal(broker, batch(b"a"), acks=-1)
    assert error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert message is not None
    assert "min.isr requirement of 2" in message


@virtual_time
async def test_with_some_errors_kafka_tells_where_the_log_starts_and_with_others_it_does_not() -> None:
    broker = await DataBroker().open()
    partition = await broker.world.lead(min_in_sync_replicas=2)
    broker.announce("t")
    broken, transactional = batch(b"a"), batch(b"a", producer=(5, 0, 7), transactional=True)
    broken[-1] ^= 1
    for is_slow in (False, True):
        if is_slow:
            broker.world.disk.slow_ms = 10
            partition.try_append(batch(b"v"), acks=1)
            broker.world.disk.slow_ms = 0
            assert not broker.world.directory.writes_inline
        starts = [
            (await produced(broker, {T0: data}, acks=acks))[0].log_start_offset
            for data, acks in ((batch(b"a"), -1), (broken, 1), (transactional, 1))
        ]
        assert starts == [0, -1, -1]


@virtual_time
async def test_a_directory_that_fails_costs_the_partitions_in_it() -> None:
    broker = await DataBroker(directories=2).open()
    await broker.lead(count=2)
    broker.world.disk.fail("pwrite", "t-0")
    answers = await produced(broker, {T0: batch(b"a"), ("t", 1): batch(b"a")})
    assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]


# Acknowledgements.


@virtual_time
async def test_without_acknowledgement_nothing_is_answered() -> None:
    broker = await leading(config=FLUSH_EACH)
    broker.world.offload.hold("flush")
    result = produce.handle(produce_request({T0: batch(b"a")}, acks=0), broker.context(8))
    assert is_no_response(result)
    partition = broker.world.partition()
    assert partition.log.log_end_offset == 1
    assert len(partition._waits.durable) == len(partition._waits.committed) == 0, "nobody waits"
    broker.world.offload.release("flush")


@virtual_time
async def test_an_error_without_acknowledgement_ends_the_connection() -> None:
    broker = await leading()
    request = produce_request({T0: batch(b"a"), ("t", 9): batch(b"b")}, acks=0)
    with pytest.raises(CloseConnection, match="t-9: UNKNOWN_TOPIC_OR_PARTITION"):
        produce.handle(request, broker.context(8))
    assert broker.world.partition().log.log_end_offset == 1
    broker.world.make_slow(broker.world.partition())
    broken = batch(b"a")
    broken[-1] ^= 1
    with pytest.raises(CloseConnection, match="t-0: CORRUPT_MESSAGE"):
        await produce.handle(produce_request({T0: broken}, acks=0), broker.context(8))


@pytest.mark.parametrize("acks", [1, -1])
def test_an_answer_that_waits_for_the_disk_is_parked_and_the_next_request_may_start(acks: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading(config=FLUSH_EACH)
        broker.world.offload.hold("flush")
        first = produce.handle(produce_request({T0: batch(b"a")}, acks=acks), broker.context(8))
        second = produce.handle(produce_request({T0: batch(b"b")}, acks=acks), broker.context(8))
        assert type(first) is type(second) is Parked
        await turns()
        assert not first.future.done()
        broker.world.offload.release("flush")
        answers = [(await answer_of(each)).responses[0].partitions[0] for each in (first, second)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 1)]

    run()


@virtual_time
async def test_an_answer_waits_for_all_its_partitions() -> None:
    broker = await DataBroker(directories=2).open()
    await broker.lead(count=2, config=FLUSH_EACH)
    await turns()
    broker.world.offload.hold("flush:/logs1")
    broker.world.offload._held = {"flush"}
    request = produce_request({T0: batch(b"a"), ("t", 1): batch(b"b")}, timeout_ms=10_000)
    parked = produce.handle(request, broker.context(8))
    await turns()
    broker.world.offload.step("flush:/logs0")
    await turns()
    assert not parked.future.done()
    broker.world.offload.release("flush")
    response = await answer_of(parked)
    assert [topic.partitions[0].error_code for topic in response.responses] == [0, 0]


@virtual_time
async def test_a_wait_that_takes_too_long_is_answered_though_the_records_stay() -> None:
    broker = await leading(config=FLUSH_EACH)
    broker.world.offload.hold("flush")
    loop = asyncio.get_running_loop()
    began = loop.time()
    (answer,) = await produced(broker, {T0: batch(b"a")}, timeout_ms=250)
    assert loop.time() - began == pytest.approx(0.25)
    # As in Kafka the answer says where the records are, though not whether they will be acknowledged.
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    broker.world.offload.release("flush")
    await turns()
    assert broker.world.partition().log.high_watermark == 1
    assert broker.errors(ApiKey.PRODUCE) == {ErrorCode.REQUEST_TIMED_OUT: 1}


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_who_does_not_want_to_wait_does_not(timeout_ms: int) -> None:
    @virtual_time
    async def run() -> None:
        broker = await leading(config=FLUSH_EACH)
        broker.world.offload.hold("flush")
        (answer,) = await produced(broker, {T0: batch(b"a")}, timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        broker.world.offload.release("flush")

    run()


@virtual_time
async def test_a_partition_that_was_acknowledged_in_time_is_not_timed_out_with_the_others() -> None:
    broker = await DataBroker(directories=2).open()
    await broker.lead(count=2, config=FLUSH_EACH)
    await turns()
    broker.world.offload.hold("flush")
    request = {T0: batch(b"a"), ("t", 1): batch(b"b")}
    answering = asyncio.get_running_loop().create_task(produced(broker, request, timeout_ms=100))
    await turns()
    broker.world.offload.step("flush:/logs0")
    answers = await answering
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    broker.world.offload.release("flush")


@virtual_time
async def test_a_leader_that_is_replaced_tells_who_waits() -> None:
    broker = await leading(config=FLUSH_EACH)
    broker.world.offload.hold("flush")
    parked = produce.handle(produce_request({T0: batch(b"a")}), broker.context(8))
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, broker.services.broker_id))
    (topic,) = (await answer_of(parked)).responses
    # NOT_LEADER_OR_FOLLOWER would say that nothing was written.
    assert topic.partitions[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    broker.world.offload.release("flush")


# Slow directories.


@virtual_time
async def test_partitions_of_a_slow_directory_are_appended_in_the_order_of_the_request() -> None:
    broker = await DataBroker(directories=2).open()
    slow, quick = await broker.lead(count=2)
    broker.world.make_slow(slow)
    broker.world.offload.hold("write")
    request = produce_request({T0: batch(b"a"), ("t", 1): batch(b"b")}, acks=1)
    request.topics.append(request.topics[0].__class__(name="t", partitions=request.topics[0].partitions[:]))
    request.topics[2].partitions = [request.topics[0].partitions[0].__class__(partition_index=0, records=batch(b"c"))]
    working = asyncio.get_running_loop().create_task(answer_of(produce.handle(request, broker.context(8))))
    await turns()
    assert (slow.log.log_end_offset, quick.log.log_end_offset) == (1, 1), "the quick directory does not wait"
    broker.world.offload.release("write")
    response = await working
    assert [topic.partitions[0].base_offset for topic in response.responses] == [1, 0, 2]
    values = [bytes(batch(value, base_offset=at, leader_epoch=0)) for value, at in ((b"a", 1), (b"c", 2))]
    assert read_bytes(slow.log, 1) == b"".join(values)


@virtual_time
async def test_what_a_slow_directory_refuses_is_answered_for_each_partition() -> None:
    broker = await leading()
    partition = broker.world.partition()
    broker.world.make_slow(partition)
    broken = batch(b"a")
    broken[-1] ^= 1
    (answer,) = await produced(broker, {T0: broken})
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, broker.services.broker_id))
    (answer,) = await produced(broker, {T0: batch(b"a")})
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@virtual_time
async def test_a_partition_that_is_deleted_while_its_append_waits_is_refused() -> None:
    broker = await leading()
    partition = broker.world.partition()
    broker.world.make_slow(partition)
    broker.world.offload.hold("write")
    answering = [
        asyncio.get_running_loop().create_task(produced(broker, {T0: batch(b"%d" % number)}, acks=1))
        for number in range(2)
    ]
    await turns()
    deleting = broker.world.supervisor.spawn(broker.world.stop(-2, at=TopicPartition("t", 0)), name="stop")
    await turns()
    broker.world.offload.release("write")
    # The second stood before the deletion in the queue.
    assert [(await each)[0].error_code for each in answering] == [ErrorCode.NONE, ErrorCode.NONE]
    await deleting
    (answer,) = await produced(broker, {T0: batch(b"late")})
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_request_of_many_partitions_lets_others_have_their_turn() -> None:
    broker = await DataBroker().open()
    context = broker.context(7)
    context.broker.clock = SystemClock()
    partitions = [PartitionProduceData(partition_index=number) for number in range(50_000)]
    request = ProduceRequest(acks=1, topics=[TopicProduceData(name="nobody", partitions=partitions)])
    others = 0

    async def have_turns() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    other = asyncio.create_task(have_turns())
    response = await produce.handle(request, context)
    other.cancel()
    (topic,) = response.responses
    assert len(topic.partitions) == len(partitions)
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert others >= 10


@virtual_time
async def test_a_request_of_many_partitions_appends_also_those_that_are_slow() -> None:
    broker = await DataBroker(directories=2).open()
    partitions = await broker.lead(count=40)
    broker.world.make_slow(partitions[0])
    answers = await produced(broker, {("t", number): batch(b"a") for number in range(40)})
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE] * 40
    assert [answer.base_offset for answer in answers] == [1] + [0] * 39
    assert [partition.log.log_end_offset for partition in partitions] == [2] + [1] * 39
