"""DeleteRecords with replicas: the answer waits until all that live have given up the records."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.storage.log_config import LogConfig
from broker.handlers import delete_records
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker
from tests.unit.replication.replica_world import ME, OTHER, TP, append_now

THIRD = BrokerId(3)


async def leading(*replicas: BrokerId, config: LogConfig | None = None) -> tuple[DataBroker, Partition]:
    """Five committed records, and who else has them."""
    broker = await DataBroker().open()
    await broker.world.assign(replicas=(ME, *replicas), config=config)
    broker.announce("t")
    partition = broker.world.partition()
    append_now(partition, b"a", b"b", b"c", b"d", b"e", acks=1)
    for replica in replicas:
        fetch(partition, replica, start=0)
    return broker, partition


def fetch(partition: Partition, replica: BrokerId, *, start: int) -> None:
    partition.on_follower_fetch(
        replica, leader_epoch=partition.leader_epoch, fetch_offset=partition.log.log_end_offset, log_start_offset=start
    )


def deletion(offset: int, *, at: TopicPartition = TP, timeout_ms: int = 1_000) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [DeleteRecordsTopic(at.topic, [DeleteRecordsPartition(at.partition, offset)])], timeout_ms
    )


async def answer(broker: DataBroker, request: DeleteRecordsRequest) -> DeleteRecordsPartitionResult:
    response = await delete_records.handle(request, broker.context(2))
    return response.topics[0].partitions[0]


def told(result: DeleteRecordsPartitionResult) -> tuple[int, int]:
    return result.error_code, result.low_watermark


@virtual_time
async def test_a_leader_alone_answers_at_once() -> None:
    broker, partition = await leading()
    assert told(await answer(broker, deletion(3))) == (0, 3)
    assert partition.log.log_start_offset == 3


@virtual_time
async def test_the_answer_waits_for_the_last_replica() -> None:
    broker, partition = await leading(OTHER, THIRD)
    broker.world.live[THIRD] = broker.world.live[OTHER]
    waiting = asyncio.ensure_future(answer(broker, deletion(3)))
    await turns()
    assert partition.log.log_start_offset == 3
    fetch(partition, OTHER, start=3)
    await turns()
    assert not waiting.done()
    fetch(partition, THIRD, start=2)
    await turns()
    assert not waiting.done()
    fetch(partition, THIRD, start=4)
    assert told(await waiting) == (0, 3)


@virtual_time
async def test_a_replica_that_is_not_alive_is_not_waited_for() -> None:
    broker, _ = await leading(OTHER)
    del broker.world.live[OTHER]
    assert told(await answer(broker, deletion(3))) == (0, 3)


@virtual_time
async def test_after_the_timeout_the_least_start_is_told() -> None:
    broker, partition = await leading(OTHER)
    started = asyncio.get_running_loop().time()
    assert told(await answer(broker, deletion(3, timeout_ms=700))) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert asyncio.get_running_loop().time() - started == pytest.approx(0.7)
    assert partition.log.log_start_offset == 3
    assert broker.errors(delete_records.API.key) == {ErrorCode.REQUEST_TIMED_OUT: 1}


@virtual_time
async def test_a_leader_that_leads_no_more_says_so_to_who_waits() -> None:
    broker, _ = await leading(OTHER)
    waiting = asyncio.ensure_future(answer(broker, deletion(3)))
    await turns()
    await broker.world.assign(1, leader=OTHER, replicas=(ME, OTHER))
    assert told(await waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@virtual_time
async def test_a_directory_that_fails_meanwhile_is_told() -> None:
    broker, _ = await leading(OTHER)
    waiting = asyncio.ensure_future(answer(broker, deletion(3)))
    await turns()
    broker.world.directory.fail(OSError(5, "gone"))
    assert told(await waiting) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@virtual_time
async def test_what_cannot_be_deleted_is_refused() -> None:
    broker, _ = await leading(config=LogConfig(compact=True, delete=False))
    assert told(await answer(broker, deletion(1))) == (ErrorCode.POLICY_VIOLATION, -1)
    broker.announce("__consumer_offsets")
    internal = deletion(1, at=TopicPartition("__consumer_offsets", 0))
    assert told(await answer(broker, internal)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    broker.announce("elsewhere", leader=OTHER)
    elsewhere = deletion(1, at=TopicPartition("elsewhere", 0))
    assert told(await answer(broker, elsewhere)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
