"""Transactions of the producer against a scripted coordinator, in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import (
    KafkaError,
    ProducerFenced,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
    WrongTransactionState,
)
from barnabas.client.outgoing import Sent
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.protocol.batch import read_header
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.end_txn import EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster
from tests.unit.client.test_producer_in_time import refusal, values

T0 = TopicPartition("t", 0)


@dataclass
class Coordinator:
    """What a coordinator was asked, and the errors that it is to answer first, by API."""

    small: SmallCluster
    node_id: int = 1
    epoch: int = -1
    added: set[TopicPartition] = field(default_factory=set)
    ends: list[bool] = field(default_factory=list)
    is_open: bool = False
    offsets: dict[str, Any] = field(default_factory=dict)
    errors: dict[ApiKey, list[ErrorCode]] = field(default_factory=dict)
    on_produce: Callable[[Asked], Any] = lambda _: None
    lose: set[ApiKey] = field(default_factory=set)
    identities: list[tuple[int, int]] = field(default_factory=list)

    def answer(self, asked: Asked) -> Any:
        if asked.key is ApiKey.FIND_COORDINATOR:
            return FindCoordinatorResponse(error_message=None, node_id=self.node_id, host="memory", port=self.node_id)
        if asked.key is ApiKey.PRODUCE:
            for topic in asked.request.topics:
                for part in topic.partitions:
                    assert TopicPartition(topic.name, part.partition_index) in self.added, "not in the transaction"
                    assert read_header(part.records).is_transactional
            return self.on_produce(asked)
        answers: dict[ApiKey, Callable[[Any, int], Any]] = {
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.END_TXN: self._end,
        }
        if asked.key not in answers:
            return None
        queued = self.errors.get(asked.key, [])
        error = queued.pop(0) if queued else ErrorCode.NONE
        if asked.node_id != self.node_id:
            error = ErrorCode.NOT_COORDINATOR
        response = answers[asked.key](asked.request, error)
        if asked.key in self.lose:
            self.lose.discard(asked.key)
            raise Hangup
        return response

    def _init(self, request: Any, error: int) -> InitProducerIdResponse:
        if not error:
            self.identities.append((request.producer_id, request.producer_epoch))
            self.epoch += 1
        return InitProducerIdResponse(error_code=error, producer_id=9, producer_epoch=self.epoch)

    def _add_offsets(self, _: Any, error: int) -> AddOffsetsToTxnResponse:
        self.is_open |= not error
        return AddOffsetsToTxnResponse(error_code=error)

    def _add(self, request: Any, error: int) -> AddPartitionsToTxnResponse:
        results = []
        for topic in request.topics:
            if not error:
                self.is_open = True
                self.added |= {TopicPartition(topic.name, each) for each in topic.partitions}
            each = [AddPartitionsToTxnPartitionResult(number, error) for number in topic.partitions]
            results.append(AddPartitionsToTxnTopicResult(topic.name, each))
        return AddPartitionsToTxnResponse(results=results)

    def _commit_offsets(self, request: Any, error: int) -> TxnOffsetCommitResponse:
        topics = []
        for topic in request.topics:
            if not error:
                self.offsets.update({request.group_id: request})
            each = [TxnOffsetCommitResponsePartition(part.partition_index, error) for part in topic.partitions]
            topics.append(TxnOffsetCommitResponseTopic(topic.name, each))
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, request: Any, error: int) -> EndTxnResponse:
        if not error and not self.is_open and self.ends[-1:] != [request.committed]:
            error = ErrorCode.INVALID_TXN_STATE
        if not error:
            self.ends.append(request.committed)
            self.added.clear()
            self.is_open = False
        return EndTxnResponse(error_code=error)


def stage(brokers: int = 1) -> tuple[MemoryWire, Coordinator]:
    small = SmallCluster(brokers)
    small.add_topic("t", 3)
    coordinator = Coordinator(small)
    small.on_request = coordinator.answer
    return MemoryWire(small), coordinator


def producer_of(cluster: Cluster, **more: Any) -> Producer[bytes, bytes]:
    return Producer(cluster, options=ProducerOptions(transactional_id="id", **more))


@virtual_time
async def test_a_partition_is_added_before_its_first_record_and_once() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        for _ in range(2):
            async with producer.transaction():
                for partition in (0, 1, 2, 0):
                    await producer.send("t", None, b"v", partition=partition)
    assert coordinator.ends == [True, True]
    asked = [each.request for each in wire.small.asked if each.key is ApiKey.ADD_PARTITIONS_TO_TXN]
    assert [len(each.topics[0].partitions) for each in asked] == [3, 3]
    assert coordinator.epoch == 0, "a commit keeps the epoch"
    assert len(values(wire.small)) == 4


@virtual_time
async def test_an_empty_transaction_asks_nobody() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        async with producer.transaction():
            pass
        producer.begin_transaction()
        await producer.abort_transaction()
    assert coordinator.ends == []


@virtual_time
async def test_whoever_completes_or_moves_is_asked_again() -> None:
    wire, coordinator = stage(brokers=2)
    coordinator.errors = {
        ApiKey.INIT_PRODUCER_ID: [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS],
        ApiKey.ADD_PARTITIONS_TO_TXN: [ErrorCode.CONCURRENT_TRANSACTIONS] * 3 + [ErrorCode.COORDINATOR_NOT_AVAILABLE],
        ApiKey.END_TXN: [ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS],
    }
    loop = asyncio.get_running_loop()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        start = loop.time()
        async with producer.transaction():
            await producer.send("t", None, b"v", partition=0)
            coordinator.node_id = 2
        assert loop.time() - start < 2
    assert coordinator.ends == [True]


@virtual_time
async def test_a_commit_whose_answer_was_lost_is_asked_for_again() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer, producer.transaction():
        await producer.send("t", None, b"v", partition=0)
        coordinator.lose = {ApiKey.END_TXN}
    assert coordinator.ends == [True, True]
    assert coordinator.epoch == 1, "the one that was lost may come after the next transaction has begun"


@virtual_time
async def test_after_offsets_whose_answer_was_lost_the_next_transaction_has_its_own_epoch() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        for lost in ({ApiKey.TXN_OFFSET_COMMIT}, {ApiKey.ADD_OFFSETS_TO_TXN}, set()):
            async with producer.transaction():
                coordinator.lose = lost
                await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(5)}, GroupMetadata("g"))
        async with producer.transaction():
            await producer.send("t", None, b"v", partition=0)
    assert coordinator.ends == [True] * 4
    assert coordinator.identities == [(-1, -1), (9, 0), (9, 1)]


@virtual_time
async def test_after_a_commit_of_which_nothing_is_known_commit_may_be_called_again() -> None:
    wire, coordinator = stage()
    async with wire.cluster(timeout_ms=1000) as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        await producer.send("t", None, b"v", partition=0)
        coordinator.errors[ApiKey.END_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100
        with pytest.raises(RequestTimedOut):
            await producer.commit_transaction()
        with pytest.raises(WrongTransactionState, match="committing"):
            await producer.abort_transaction()
        with pytest.raises(WrongTransactionState):
            await producer.send("t", None, b"v", partition=0)
        coordinator.errors.clear()
        await producer.commit_transaction()
        producer.begin_transaction()
    assert coordinator.ends == [True]


@virtual_time
async def test_an_exception_aborts_and_what_was_not_sent_is_told() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster, linger_ms=1000) as producer:
        sent: list[Sent] = []

        async def fail() -> None:
            async with producer.transaction():
                await producer.send_and_wait("t", None, b"written", partition=0)
                sent.append(await producer.send("t", None, b"waits", partition=0))
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        with pytest.raises(TransactionAborted):
            await sent[0]
        assert coordinator.ends == [False]
        async with producer.transaction():
            await producer.send("t", None, b"next", partition=0)
    assert values(wire.small) == [b"written", b"next"]
    assert coordinator.epoch == 0, "nothing was left in doubt"


@virtual_time
async def test_after_a_lost_record_only_an_abort_is_left_and_then_a_new_epoch() -> None:
    wire, coordinator = stage()
    coordinator.on_produce = lambda asked: refusal(asked, ErrorCode.INVALID_RECORD)
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        with pytest.raises(KafkaError, match="INVALID_RECORD"):
            await producer.send_and_wait("t", None, b"v", partition=0)
        for attempt in (lambda: producer.send("t", None, b"v"), producer.commit_transaction):
            with pytest.raises(TransactionFailed, match=r"can only be aborted: .*INVALID_RECORD"):
                await attempt()
        with pytest.raises(TransactionFailed):
            await producer.send_offsets_to_transaction({}, GroupMetadata("g"))
        await producer.abort_transaction()
        assert (coordinator.ends, coordinator.epoch, coordinator.identities) == ([False], 1, [(-1, -1), (9, 0)])
        coordinator.on_produce = lambda _: None
        async with producer.transaction():
            await producer.send("t", None, b"v", partition=0)
    assert read_header(wire.small.logs[T0].batches[0]).producer_epoch == 1


@virtual_time
async def test_what_waits_in_a_transaction_that_failed_is_told_at_once() -> None:
    wire, coordinator = stage()
    coordinator.errors[ApiKey.TXN_OFFSET_COMMIT] = [ErrorCode.ILLEGAL_GENERATION]
    async with wire.cluster() as cluster, producer_of(cluster, linger_ms=60_000) as producer:
        producer.begin_transaction()
        sent = await producer.send("t", None, b"v", partition=0)
        with pytest.raises(TransactionFailed):
            await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("g"))
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            await asyncio.wait_for(sent, 1)
        await producer.abort_transaction()


@virtual_time
async def test_a_transaction_that_is_committed_while_a_record_is_lost_is_not() -> None:
    wire, coordinator = stage()
    coordinator.on_produce = lambda asked: refusal(asked, ErrorCode.INVALID_RECORD)
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
            async with producer.transaction():
                await producer.send("t", None, b"v", partition=0)
        assert coordinator.ends == [False]


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.RECORD_LIST_TOO_LARGE])
@virtual_time
async def test_what_was_under_way_when_a_transaction_failed_is_given_up_when_it_comes_back(code: ErrorCode) -> None:
    wire, coordinator = stage()

    def answer(asked: Asked) -> Any:
        response = refusal(asked, ErrorCode.INVALID_RECORD)
        for part in response.responses[0].partitions:
            if part.partition_index == 1:
                part.error_code = code
        return response

    coordinator.on_produce = answer
    loop = asyncio.get_running_loop()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        for partition in (0, 1, 1):
            await producer.send("t", None, b"v", partition=partition)
        began_s = loop.time()
        with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
            await producer.commit_transaction()
        assert loop.time() - began_s < 1
        await producer.abort_transaction()
        coordinator.on_produce = lambda _: None
        async with producer.transaction():
            await producer.send("t", None, b"v", partition=1)
    assert coordinator.ends == [False, True]


@pytest.mark.parametrize("error", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("key", [ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN])
def test_a_fenced_producer_is_at_its_end(error: ErrorCode, key: ApiKey) -> None:
    @virtual_time
    async def play() -> None:
        wire, coordinator = stage()
        coordinator.errors[key] = [error] * 10
        async with wire.cluster() as cluster, producer_of(cluster) as producer:
            with pytest.raises(ProducerFenced):
                async with producer.transaction():
                    await producer.send("t", None, b"v", partition=0)
            with pytest.raises(ProducerFenced):
                producer.begin_transaction()
            with pytest.raises(ProducerFenced):
                await producer.send("t", None, b"v", partition=0)
        assert coordinator.ends == []

    play()


@virtual_time
async def test_a_coordinator_that_forgot_the_producer_gives_it_a_new_epoch() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        await producer.send("t", None, b"v", partition=0)
        coordinator.errors[ApiKey.END_TXN] = [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_ID_MAPPING"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        assert coordinator.epoch == 1
        async with producer.transaction():
            await producer.send("t", None, b"v", partition=0)
    assert coordinator.ends == [True]


@virtual_time
async def test_offsets_go_with_the_consumers_membership() -> None:
    wire, coordinator = stage()
    group = GroupMetadata("g", 4, "member", "instance")
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(7, 2, "note")}, group)
        request = coordinator.offsets["g"]
        assert (request.generation_id, request.member_id, request.group_instance_id) == (4, "member", "instance")
        (part,) = request.topics[0].partitions
        assert (part.committed_offset, part.committed_leader_epoch, part.committed_metadata) == (7, 2, "note")
        assert coordinator.ends == [True], "offsets alone make a transaction"
        coordinator.errors[ApiKey.TXN_OFFSET_COMMIT] = [ErrorCode.ILLEGAL_GENERATION]
        with pytest.raises(TransactionFailed, match="ILLEGAL_GENERATION"):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, group)
    assert coordinator.ends == [True, False]


@virtual_time
async def test_a_partition_that_is_refused_leaves_nothing_to_abort_and_a_producer_that_goes_on() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        for before in ([], [True]):
            assert coordinator.ends == before
            coordinator.errors[ApiKey.ADD_PARTITIONS_TO_TXN] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            with pytest.raises(TransactionFailed, match="TOPIC_AUTHORIZATION_FAILED"):
                async with producer.transaction():
                    await producer.send("t", None, b"v", partition=0)
            async with producer.transaction():
                await producer.send("t", None, b"v", partition=0)
    assert coordinator.ends == [True, True]


@pytest.mark.parametrize("turns", range(6))
def test_an_abort_before_the_first_partition_was_added_leaves_a_producer_that_goes_on(turns: int) -> None:
    @virtual_time
    async def play() -> None:
        wire, coordinator = stage()
        async with wire.cluster() as cluster, producer_of(cluster, linger_ms=0) as producer:
            producer.begin_transaction()
            sent = await producer.send("t", None, b"v", partition=0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await producer.abort_transaction()
            with pytest.raises(TransactionAborted):
                await sent
            async with producer.transaction():
                await producer.send("t", None, b"next", partition=0)
        assert coordinator.ends[-1:] == [True]
        assert values(wire.small) == [b"next"]

    play()


@virtual_time
async def test_offsets_of_which_nobody_knows_whether_they_were_added_are_aborted() -> None:
    wire, coordinator = stage()
    async with wire.cluster(timeout_ms=1000) as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        coordinator.is_open = True
        coordinator.errors[ApiKey.ADD_OFFSETS_TO_TXN] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 100
        with pytest.raises(TransactionFailed):
            await producer.send_offsets_to_transaction({T0: OffsetAndMetadata(9)}, GroupMetadata("g"))
        await producer.abort_transaction()
        assert coordinator.ends == [False]
        assert coordinator.epoch == 1, "where the request comes late all the same, its epoch is over"


@virtual_time
async def test_an_open_transaction_is_aborted_when_the_producer_is_closed() -> None:
    wire, coordinator = stage()
    async with wire.cluster() as cluster, producer_of(cluster) as producer:
        producer.begin_transaction()
        await (await producer.send("t", None, b"v", partition=0))
    assert coordinator.ends == [False]


@virtual_time
async def test_calls_out_of_turn_are_refused_by_name() -> None:
    wire, _ = stage()
    async with wire.cluster() as cluster:
        plain = Producer(cluster)
        with pytest.raises(WrongTransactionState, match="transactional_id is not set"):
            plain.begin_transaction()
        fresh = producer_of(cluster)
        with pytest.raises(WrongTransactionState, match="init_transactions"):
            await fresh.send("t", None, b"v")
        async with producer_of(cluster) as producer:
            with pytest.raises(WrongTransactionState, match="once"):
                await producer.init_transactions()
            with pytest.raises(WrongTransactionState, match="begin_transaction"):
                await producer.send("t", None, b"v")
            with pytest.raises(WrongTransactionState):
                await producer.commit_transaction()
            with pytest.raises(WrongTransactionState, match="nothing to abort"):
                await producer.abort_transaction()
            producer.begin_transaction()
            with pytest.raises(WrongTransactionState):
                producer.begin_transaction()


@virtual_time
async def test_an_abort_leaves_no_partition_an_epoch_of_its_own() -> None:
    """One has a batch that waits to be tried again, and another broker answers late."""
    wire, coordinator = stage(brokers=2)
    is_slow = True

    async def on_produce(asked: Asked) -> Any:
        if is_slow and asked.node_id == 1:
            return refusal(asked, ErrorCode.NOT_ENOUGH_REPLICAS)
        if is_slow:
            await asyncio.sleep(3)
        return wire.small._produce(asked)

    coordinator.on_produce = on_produce
    async with wire.cluster() as cluster, producer_of(cluster, linger_ms=0) as producer:
        producer.begin_transaction()
        for partition in (0, 1):
            await producer.send("t", None, b"lost", partition=partition)
        await asyncio.sleep(0.3)
        await producer.abort_transaction()
        is_slow = False
        assert coordinator.epoch == 1
        async with producer.transaction():
            for partition in (0, 1):
                await producer.send("t", None, b"kept", partition=partition)
    epochs = {
        read_header(part.records).producer_epoch
        for asked in wire.small.asked
        if asked.key is ApiKey.PRODUCE
        for topic in asked.request.topics
        for part in topic.partitions
        if b"kept" in bytes(part.records)
    }
    assert epochs == {1}
