"""Requests about transactions to a whole broker in this process, by the handlers that it serves."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.coordinator.transactions.requests import Producer
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from broker.internal_topics import TRANSACTION_STATE
from broker.registry import Parked
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from tests.unit.storage.logs import batch

NONE = ErrorCode.NONE
T0 = TopicPartition("t", 0)
KEYS = {name.replace(".", "_"): text for name, text in SMALL.items()}


class TransactionTalk(GroupTalk):
    """Asks one broker as a producer with transactional id `a` does."""

    async def producer(self, version: int = 4, *, timeout_ms: int = 60_000) -> Producer:
        answer = await self.ask(InitProducerIdRequest("a", timeout_ms), version)
        assert answer.error_code == NONE, answer
        return Producer("a", answer.producer_id, answer.producer_epoch)

    async def add(
        self, producer: Producer, *partitions: int, topic: str = "t", version: int = 2
    ) -> dict[int, ErrorCode]:
        request = AddPartitionsToTxnRequest(*producer, topics=[AddPartitionsToTxnTopic(topic, list(partitions))])
        answer = await self.ask(request, version)
        return {each.partition_index: ErrorCode(each.error_code) for each in answer.results[0].results}

    async def end(self, producer: Producer, *, commit: bool, version: int = 2) -> ErrorCode:
        answer = await self.ask(EndTxnRequest(*producer, committed=commit), version)
        return ErrorCode(answer.error_code)

    async def write(self, producer: Producer, sequence: int, *, transactional_id: str | None = "a") -> ErrorCode:
        _, producer_id, epoch = producer
        records = batch(b"x", producer=(producer_id, epoch, sequence), transactional=True)
        data = [TopicProduceData("t", [PartitionProduceData(0, records)])]
        answer = await self.ask(ProduceRequest(transactional_id, -1, 10_000, data))
        if isinstance(answer, Parked):
            answer = await answer.future
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    async def commit_offset(self, producer: Producer, offset: int) -> ErrorCode:
        _, producer_id, epoch = producer
        partition = TxnOffsetCommitRequestPartition(0, offset)
        request = TxnOffsetCommitRequest(
            "a", "g", producer_id, epoch, topics=[TxnOffsetCommitRequestTopic("t", [partition])]
        )
        answer = await self.ask(request)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def state(self) -> Any:
        (state,) = (await self.ask(DescribeTransactionsRequest(["a"]))).transaction_states
        return state

    async def until_state(self, name: str) -> None:
        async with asyncio.timeout(10):
            while (await self.state()).transaction_state != name:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)

    async def coordinator_epoch(self) -> int:
        shard = await self.broker.services.coordination.transaction_shard("a")
        assert shard is not None
        return shard.coordinator_epoch

    def is_all_stable(self) -> bool:
        partition = self.broker.services.replicas.partition(T0)
        assert partition is not None
        log = partition.log
        return log.high_watermark == log.log_end_offset and log.producers.first_unstable_offset is None


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    machine = BrokerHost(tmp_path)
    yield machine
    await machine.close()


async def started(host: BrokerHost, **keys: str) -> TransactionTalk:
    broker = await host.start(**KEYS, **keys)
    talk = TransactionTalk(broker)
    await make_topic(broker, partitions=2)
    await talk.find("g")
    await talk.find("a", 1)
    return talk


@pytest.fixture
async def talk(host: BrokerHost) -> AsyncIterator[TransactionTalk]:
    talk = await started(host, transaction_abort_timed_out_transaction_cleanup_interval_ms="50")
    yield talk
    await talk.broker.stop()
    assert not host.failures


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_is_written_and_ended(talk: TransactionTalk, commit: bool) -> None:
    producer = await talk.producer()
    assert await talk.add(producer, 0) == {0: NONE}
    assert await talk.write(producer, 0) is NONE
    assert await talk.write(producer, 1) is NONE
    assert not talk.is_all_stable()
    assert await talk.end(producer, commit=commit) is NONE
    await talk.until_state("CompleteCommit" if commit else "CompleteAbort")
    await until(talk.is_all_stable)


async def test_a_request_that_comes_after_the_end_opens_no_transaction(talk: TransactionTalk) -> None:
    """KIP-890: the last stable offset would never move again."""
    producer = await talk.producer()
    await talk.add(producer, 0)
    await talk.write(producer, 0)
    await talk.end(producer, commit=False)
    await talk.until_state("CompleteAbort")
    assert await talk.write(producer, 1) is ErrorCode.INVALID_TXN_STATE
    assert talk.is_all_stable()
    assert await talk.add(producer, 0) == {0: NONE}
    assert await talk.write(producer, 1) is NONE


async def test_a_partition_that_was_not_added_takes_nothing(talk: TransactionTalk) -> None:
    producer = await talk.producer()
    await talk.add(producer, 1)
    assert await talk.write(producer, 0) is ErrorCode.INVALID_TXN_STATE
    assert await talk.write(producer._replace(producer_id=99), 0) is ErrorCode.INVALID_TXN_STATE
    assert await talk.write(producer, 0, transactional_id="nobody") is ErrorCode.INVALID_TXN_STATE


async def test_offsets_of_a_group_that_was_not_added_are_refused(talk: TransactionTalk) -> None:
    producer = await talk.producer()
    assert await talk.commit_offset(producer, 5) is ErrorCode.INVALID_TXN_STATE
    added = await talk.ask(AddOffsetsToTxnRequest(*producer, group_id="g"))
    assert added.error_code == NONE
    assert await talk.commit_offset(producer, 5) is NONE
    assert await talk.commit_offset(producer, 6) is NONE
    assert await talk.committed() == (-1, NONE)
    await talk.end(producer, commit=True)
    await talk.until_state("CompleteCommit")
    assert await talk.committed(is_stable=True) == (6, NONE)
    assert await talk.commit_offset(producer, 7) is ErrorCode.INVALID_TXN_STATE
    assert await talk.committed(is_stable=True) == (6, NONE)


async def test_offsets_are_to_be_sent_again_while_nobody_can_tell_whether_their_group_was_added(
    talk: TransactionTalk,
) -> None:
    """No coordinator of Kafka's answers NOT_ENOUGH_REPLICAS: Java's producers would end their work with it."""
    producer = await talk.producer()
    await talk.ask(AddOffsetsToTxnRequest(*producer, group_id="g"))
    coordination = talk.broker.services.coordination
    for number in [*coordination.transactions]:
        coordination.leads_no_more(TopicPartition(TRANSACTION_STATE, number))
    assert await talk.commit_offset(producer, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_fenced_producer_hears_of_it_as_its_version_can(talk: TransactionTalk) -> None:
    zombie = await talk.producer()
    await talk.producer()
    for version, error in ((0, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)):
        assert await talk.add(zombie, 0, version=version) == {0: error}
        assert await talk.end(zombie, commit=True, version=version) is error
        assert (await talk.ask(AddOffsetsToTxnRequest(*zombie, group_id="g"), version)).error_code == error
    for version, error in ((3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)):
        request = InitProducerIdRequest("a", 1000, zombie.producer_id, 77)
        assert (await talk.ask(request, version)).error_code == error


async def test_partitions_join_all_or_none(talk: TransactionTalk) -> None:
    producer = await talk.producer()
    assert await talk.add(producer, 0, 9) == {
        0: ErrorCode.OPERATION_NOT_ATTEMPTED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    internal = await talk.add(producer, 0, topic="__consumer_offsets")
    assert internal == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    described = await talk.state()
    assert (described.transaction_state, described.coordinator_leader_epoch) == (
        "Empty",
        await talk.coordinator_epoch(),
    )


async def test_ids_that_can_be_none_are_refused(talk: TransactionTalk) -> None:
    for transactional_id in ("", "x" * 40_000):
        producer = Producer(transactional_id, 1, 0)
        assert await talk.add(producer, 0) == {0: ErrorCode.INVALID_REQUEST}
        assert await talk.end(producer, commit=True) is ErrorCode.INVALID_REQUEST
        request = InitProducerIdRequest(transactional_id, 1000)
        assert (await talk.ask(request)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_transaction_whose_time_is_up_is_aborted(talk: TransactionTalk) -> None:
    producer = await talk.producer(timeout_ms=100)
    await talk.add(producer, 0)
    await talk.write(producer, 0)
    await talk.until_state("CompleteAbort")
    await until(talk.is_all_stable)
    assert await talk.end(producer, commit=True) is ErrorCode.PRODUCER_FENCED


async def test_an_id_that_nobody_uses_is_forgotten_after_its_time(host: BrokerHost) -> None:
    talk = await started(
        host,
        transaction_remove_expired_transaction_cleanup_interval_ms="50",
        transactional_id_expiration_ms="100",
    )
    await talk.producer()
    async with asyncio.timeout(10):
        while (await talk.state()).error_code == NONE:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.05)
    assert (await talk.state()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    await talk.broker.stop()


async def test_tools_see_transactions_and_producers(talk: TransactionTalk) -> None:
    producer = await talk.producer()
    await talk.add(producer, 0)
    await talk.write(producer, 0)
    state = await talk.state()
    assert (state.transaction_state, state.producer_id, state.topics[0].partitions) == (
        "Ongoing",
        producer.producer_id,
        [0],
    )
    listed = await talk.ask(ListTransactionsRequest(["Ongoing", "Strange"]))
    assert listed.unknown_state_filters == ["Strange"]
    assert [each.transactional_id for each in listed.transaction_states] == ["a"]
    assert not (await talk.ask(ListTransactionsRequest(["Empty"]))).transaction_states
    wanted = DescribeProducersTopicRequest("t", [0, 9])
    (topic,) = (await talk.ask(DescribeProducersRequest([wanted]))).topics
    (known,) = topic.partitions[0].active_producers
    assert (known.producer_id, known.last_sequence, known.current_txn_start_offset) == (producer.producer_id, 0, 0)
    assert topic.partitions[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
