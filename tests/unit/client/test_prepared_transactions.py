"""Transactions that are prepared by one producer and ended by somebody else, in virtual time."""

import pytest

from barnabas.client.errors import KafkaError, ProducerFenced, RequestTimedOut, TransactionFailed, WrongTransactionState
from barnabas.client.prepared_transactions import PreparedTransaction, complete_transaction
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from tests.support.virtual_time import virtual_time
from tests.unit.client.test_producer_in_time import values
from tests.unit.client.test_producer_transactions import producer_of, stage

PREPARED = PreparedTransaction("id", 9, 0)


@virtual_time
async def test_what_is_prepared_is_written_and_left_open_and_ended_by_another_client() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster, linger_ms=1000) as producer:
        producer.begin_transaction()
        await producer.send("t", None, b"v", partition=0)
        assert await producer.prepare_transaction() == PREPARED
        with pytest.raises(WrongTransactionState, match="prepared"):
            await producer.send("t", None, b"late", partition=0)
        for end in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(WrongTransactionState, match="prepared"):
                await end()
    assert (values(wire.small), coordinator.is_open, coordinator.ends) == ([b"v"], True, [])
    async with wire.cluster() as cluster:
        for _ in range(2):
            await complete_transaction(cluster, PREPARED, commit=True)
    assert coordinator.ends == [True, True]
    (end, _) = [each.request for each in wire.small.asked if each.key is ApiKey.END_TXN]
    assert (end.transactional_id, end.producer_id, end.producer_epoch) == PREPARED


@virtual_time
async def test_it_is_aborted_by_another_client() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        await producer.send("t", None, b"v", partition=0)
        await complete_transaction(cluster, await producer.prepare_transaction(), commit=False)
        assert coordinator.ends == [False]
        with pytest.raises(KafkaError, match="INVALID_TXN_STATE"):
            await complete_transaction(cluster, PREPARED, commit=True)


@virtual_time
async def test_what_lost_a_record_or_has_none_is_not_prepared() -> None:
    wire, coordinator = stage()
    wire.small.max_message_bytes = 200
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        with pytest.raises(WrongTransactionState, match="nothing was written"):
            await producer.prepare_transaction()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        await producer.send("t", None, bytes(300), partition=0)
        with pytest.raises(TransactionFailed):
            await producer.prepare_transaction()
    assert coordinator.ends == [False], "closing aborts it"


@virtual_time
async def test_an_end_is_asked_for_until_it_is_answered() -> None:
    wire, coordinator = stage()
    coordinator.is_open = True
    coordinator.lose = {ApiKey.END_TXN}
    coordinator.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS]
    async with wire.cluster() as cluster:
        await complete_transaction(cluster, PREPARED, commit=True)
    assert coordinator.ends[-1:] == [True]
    coordinator.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000
    async with wire.cluster(timeout_ms=1000) as cluster:
        with pytest.raises(RequestTimedOut, match=r"gave up after 1000 ms: .*COORDINATOR_NOT_AVAILABLE"):
            await complete_transaction(cluster, PREPARED, commit=True)


@virtual_time
async def test_what_was_taken_over_or_forgotten_is_not_committed() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster:
        coordinator.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_PRODUCER_EPOCH]
        with pytest.raises(ProducerFenced):
            await complete_transaction(cluster, PREPARED, commit=True)
        coordinator.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        with pytest.raises(TransactionFailed):
            await complete_transaction(cluster, PREPARED, commit=True)
        coordinator.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        await complete_transaction(cluster, PREPARED, commit=False)
    assert coordinator.ends == []
