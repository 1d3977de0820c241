import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from barnabas.client.connection import Address
from barnabas.client.errors import ConnectionFailed
from barnabas.coordinator.transactions.requests import Producer, TransactionDescription
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from broker.coordination import Coordination
from broker.fetching import BrokerReach
from broker.internal_topics import TRANSACTION_STATE
from broker.metadata_view import MetadataView
from broker.transaction_verification import Described, TransactionVerification, judge
from controller.commands import UpdateMetadata, UpdateMetadataPartition
from tests.support.virtual_time import turns, virtual_time

PARTITION = TopicPartition("t", 0)
PRODUCER = Producer("a", 7, 1)
OPEN = TransactionDescription("a", 7, 1, "Ongoing", 60_000, 0, (PARTITION, TopicPartition("t", 1)), 5)


@pytest.mark.parametrize(
    ("described", "answer"),
    [
        (OPEN, ErrorCode.NONE),
        (None, ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, partitions=()), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, producer_id=8), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, producer_epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH),
        (replace(OPEN, producer_epoch=0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (replace(OPEN, state="Empty", partitions=()), ErrorCode.INVALID_TXN_STATE),
        # Markers are on their way: this partition still lacks its own, and takes no records all the same.
        (replace(OPEN, state="PrepareCommit"), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="PrepareAbort"), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="CompleteCommit", partitions=()), ErrorCode.INVALID_TXN_STATE),
        (replace(OPEN, state="OfALaterVersion"), ErrorCode.NOT_ENOUGH_REPLICAS),
        # A later coordinator has written a marker here: this one has been replaced, and does not know what that ended.
        (replace(OPEN, coordinator_epoch=4), ErrorCode.NOT_ENOUGH_REPLICAS),
        (replace(OPEN, coordinator_epoch=4, partitions=()), ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_follows_from_what_the_coordinator_says(described: Described, answer: ErrorCode) -> None:
    assert judge(described, PRODUCER, PARTITION, marked_epoch=5) is answer


class OtherCoordinator:
    """Broker 2 coordinates all ids, of which it knows "a" and "b"; its connections fail while it is `unreachable`."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.unreachable = False
        self.error = ErrorCode.NONE
        self.release = asyncio.Event()
        self.release.set()
        self.transactions: dict[int, Any] = {}
        metadata = MetadataView()
        place = UpdateMetadataPartition(
            topic=TRANSACTION_STATE,
            partition=0,
            controller_epoch=ControllerEpoch(1),
            leader=BrokerId(2),
            leader_epoch=LeaderEpoch(0),
            isr=(BrokerId(2),),
            zk_version=0,
            replicas=(BrokerId(2),),
        )
        metadata.apply(
            UpdateMetadata(
                controller_id=BrokerId(1),
                controller_epoch=ControllerEpoch(1),
                broker_epoch=BrokerEpoch(1),
                live_brokers=(),
                partitions=[place],
            )
        )
        self.verification = TransactionVerification(
            BrokerId(1),
            coordination=cast("Coordination", self),
            metadata=metadata,
            reach=BrokerReach(lambda broker_id: Address("host", int(broker_id)), self._connect),
            spawn=lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
        )

    async def partition_of(self, topic: str, name: str) -> int | None:
        assert topic == TRANSACTION_STATE
        return None if name == "nowhere" else 0

    async def _connect(self, address: Address, _: str) -> Any:
        self.address, self.is_open = address, True
        return self

    async def request(self, _: Any, request: DescribeTransactionsRequest, *, timeout_ms: int) -> Any:
        assert timeout_ms
        self.asked.append(request.transactional_ids)
        await self.release.wait()
        if self.unreachable:
            raise ConnectionFailed("nobody listens")
        topics = [DescribeTransactionsTopicData("t", [0])]
        return DescribeTransactionsResponse(
            transaction_states=[
                DescribeTransactionsTransactionState(self.error, each, "Ongoing", 60_000, 0, 7, 1, topics)
                if each in ("a", "b")
                else DescribeTransactionsTransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, each)
                for each in request.transactional_ids
            ]
        )

    async def ask(self, transactional_id: str = "a") -> ErrorCode:
        producer = PRODUCER._replace(transactional_id=transactional_id)
        return await self.verification.verify(producer, PARTITION, marked_epoch=-1)


@virtual_time
async def test_another_brokers_coordinator_is_asked_and_who_it_does_not_know_has_nothing_open() -> None:
    there = OtherCoordinator()
    assert [await there.ask("a"), await there.ask("c")] == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]
    assert await there.ask("nowhere") is ErrorCode.NOT_ENOUGH_REPLICAS
    assert there.asked == [["a"], ["c"]]


@virtual_time
async def test_while_a_coordinator_cannot_be_asked_nobody_can_tell_and_then_it_is_asked_again() -> None:
    there = OtherCoordinator()
    there.unreachable = True
    assert await there.ask() is ErrorCode.NOT_ENOUGH_REPLICAS
    there.unreachable, there.error = False, ErrorCode.NOT_COORDINATOR
    assert await there.ask() is ErrorCode.NOT_ENOUGH_REPLICAS
    there.error = ErrorCode.NONE
    assert await there.ask() is ErrorCode.NONE


@virtual_time
async def test_questions_that_come_while_one_is_asked_go_together() -> None:
    there = OtherCoordinator()
    there.release.clear()
    asking = [asyncio.create_task(there.ask(each)) for each in ("c", "a", "b", "a")]
    await turns()
    asking[1].cancel()
    there.release.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert answers[0] is ErrorCode.INVALID_TXN_STATE
    assert isinstance(answers[1], asyncio.CancelledError)
    assert answers[2:] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(there.asked) <= 2
    assert sorted({each for asked in there.asked for each in asked}) == ["a", "b", "c"]
