"""Transactions that end while something of them is under way, or are gone, or meet old brokers; in virtual time."""

import asyncio
from typing import Any

import pytest

from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import (
    KafkaError,
    ProducerFenced,
    TransactionAborted,
    TransactionFailed,
    WrongTransactionState,
)
from barnabas.protocol.batch import read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from tests.support.virtual_time import virtual_time
from tests.unit.client.small_cluster import Asked
from tests.unit.client.test_producer_in_time import values
from tests.unit.client.test_producer_transactions import T0, producer_of, stage


@virtual_time
async def test_an_abort_waits_for_partitions_that_are_being_added() -> None:
    """Added behind it they would open a transaction that nobody ends, and count as added to the next one."""
    wire, coordinator = stage()
    coordinator.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
    async with wire.cluster() as cluster, producer_of(cluster, linger_ms=0) as producer:
        producer.begin_transaction()
        sent = await producer.send("t", None, b"v", partition=0)
        await asyncio.sleep(0.01)
        assert len(coordinator.errors[ApiKey.ADD_PARTITIONS_TO_TXN]) == 1, "it was refused, and is asked for again"
        await producer.abort_transaction()
        with pytest.raises(TransactionAborted):
            await sent
        assert (coordinator.ends, coordinator.is_open) == ([False], False)
        async with producer.transaction():
            await producer.send("t", None, b"next", partition=0)
    assert coordinator.ends == [False, True]
    assert values(wire.small) == [b"next"]


@virtual_time
async def test_partitions_of_which_nobody_knows_whether_they_were_added_cost_the_epoch() -> None:
    """Where the request comes late all the same, its epoch is over."""
    for begins_to_abort in (False, True):
        wire, coordinator = stage()
        async with wire.cluster(timeout_ms=1000) as cluster, producer_of(cluster, linger_ms=0) as producer:
            async with producer.transaction():
                await producer.send("t", None, b"first", partition=0)
            coordinator.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100
            producer.begin_transaction()
            await producer.send("t", None, b"v", partition=0)
            await asyncio.sleep(0.01 if begins_to_abort else 2)
            await producer.abort_transaction()
            assert coordinator.epoch == 1
            coordinator.errors.clear()
            async with producer.transaction():
                await producer.send("t", None, b"next", partition=0)
        assert coordinator.ends == [True, True]
        assert [read_header(each).producer_epoch for each in wire.small.logs[T0].batches] == [0, 1]


@virtual_time
async def test_a_record_whose_topic_was_asked_for_until_its_transaction_ended_is_refused() -> None:
    wire, coordinator = stage()
    wire.small.add_topic("slow")

    async def hold(asked: Asked) -> Any:
        if asked.key is ApiKey.METADATA and [each.name for each in asked.request.topics] == ["slow"]:
            await asyncio.sleep(2)
        return coordinator.answer(asked)

    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        wire.small.on_request = hold
        producer.begin_transaction()
        sending = asyncio.ensure_future(producer.send("slow", None, b"v"))
        await asyncio.sleep(1)
        await producer.abort_transaction()
        with pytest.raises(WrongTransactionState):
            await sending
    assert coordinator.ends == []


@pytest.mark.parametrize("begins_with", ["a record", "offsets"])
def test_a_transaction_that_was_open_and_is_not_any_more_is_told(begins_with: str) -> None:
    """What it held may have been committed or not: nobody may take that for an abort."""

    @virtual_time
    async def play() -> None:
        wire, coordinator = stage()
        async with wire.cluster() as cluster, producer_of(cluster) as producer:
            producer.begin_transaction()
            if begins_with == "offsets":
                await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("g"))
            else:
                await producer.send_and_wait("t", None, b"v", partition=0)
            coordinator.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_TXN_STATE]
            with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
                await producer.abort_transaction()

    play()


@virtual_time
async def test_to_old_brokers_offsets_go_without_a_membership_or_not_at_all() -> None:
    """Before version 3 they would not be held against the group (KIP-447)."""
    wire, coordinator = stage()
    wire.small.newest = {ApiKey.TXN_OFFSET_COMMIT: 2}
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("g"))
        assert list(coordinator.offsets) == ["g"]
        with pytest.raises(TransactionFailed):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("h", 4, "member"))
        assert list(coordinator.offsets) == ["g"]


@virtual_time
async def test_a_fenced_producer_that_is_closed_asks_for_no_partitions_any_more() -> None:
    wire, coordinator = stage()
    coordinator.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
    coordinator.errors[ApiKey.ADD_OFFSETS_TO_TXN] = [ErrorCode.PRODUCER_FENCED]
    async with wire.cluster() as cluster:
        async with producer_of(cluster, linger_ms=0) as producer:
            producer.begin_transaction()
            await producer.send("t", None, b"v", partition=0)
            await asyncio.sleep(0.1)
            with pytest.raises(ProducerFenced):
                await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("g"))
        asked = len(wire.small.asked)
        await asyncio.sleep(5)
        assert len(wire.small.asked) == asked
