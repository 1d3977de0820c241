"""Asks the coordinators of transactions whether a partition is part of one (KIP-890, part 1).

The coordinator of this broker is asked in place, another's by DescribeTransactions over the connection between brokers:
its answer has all that counts, and waits like any other for what was written before it. Questions to one broker that
come together go together, one request at a time.

An answer is NONE, or what the producer is to hear: INVALID_TXN_STATE where the partition is not part of its
transaction, INVALID_PRODUCER_EPOCH where it was fenced, and NOT_ENOUGH_REPLICAS where nobody can tell now, for which
clients of every age try again. Nobody can where who answers coordinates in an earlier epoch than that of the producer's
last marker in the partition: it has been replaced and does not know it, and what it has open may have ended.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.client.errors import ClientError
from barnabas.coordinator.transactions.requests import Producer, TransactionDescription
from barnabas.coordinator.transactions.states import COMPLETED, STATE_BY_NAME
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.messages import describe_transactions
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from broker.broker_line import BrokerLine
from broker.coordination import Coordination
from broker.fetching import BrokerReach
from broker.internal_topics import TRANSACTION_STATE
from broker.metadata_view import MetadataView
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import ZooKeeperError

log = logging.getLogger(__name__)

_CANNOT_TELL: Final = ErrorCode.NOT_ENOUGH_REPLICAS
_TIMEOUT_MS: Final = 10_000
_IDS_PER_REQUEST: Final = 1_000

Described = TransactionDescription | ErrorCode | None
"""What a coordinator says of a transactional id; None for one that it does not know."""


def judge(described: Described, producer: Producer, partition: TopicPartition, *, marked_epoch: int) -> ErrorCode:
    """What follows for a producer that is to begin its transaction in a partition.

    `marked_epoch` is the coordinator epoch of its last marker there.
    """
    if described is None:
        return ErrorCode.INVALID_TXN_STATE
    if isinstance(described, ErrorCode) or described.coordinator_epoch < marked_epoch:
        return _CANNOT_TELL
    if described.producer_id != producer.producer_id:
        return ErrorCode.INVALID_TXN_STATE
    if described.producer_epoch != producer.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    state = STATE_BY_NAME.get(described.state)
    if state is None:
        return _CANNOT_TELL
    # What is decided takes no more records, also where the marker is still on its way.
    if state in COMPLETED or partition not in described.partitions:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.NONE


class _Question(NamedTuple):
    transactional_id: str
    answer: "asyncio.Future[Described]"


class _Lane:
    """What one broker is asked, and how it is reached."""

    def __init__(self, line: BrokerLine) -> None:
        self.line = line
        self.waiting: list[_Question] = []
        self.is_asking = False


class TransactionVerification:
    """See the module."""

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        coordination: Coordination,
        metadata: MetadataView,
        reach: BrokerReach,
        spawn: Callable[..., "asyncio.Task[Any]"],
    ) -> None:
        self._broker_id = broker_id
        self._coordination = coordination
        self._metadata = metadata
        self._reach = reach
        self._spawn = spawn
        self._lanes: dict[BrokerId, _Lane] = {}

    async def verify(self, producer: Producer, partition: TopicPartition, *, marked_epoch: int) -> ErrorCode:
        """Whether `partition` is part of the producer's open transaction; see the module for the answers.

        `marked_epoch` is the coordinator epoch of the producer's last marker in the partition, -1 if it has none.
        """
        try:
            number = await self._coordination.partition_of(TRANSACTION_STATE, producer.transactional_id)
        except (ZooKeeperError, InvalidPayload) as error:
            log.warning("who coordinates %.300r is not known: %s", producer.transactional_id, error)
            return _CANNOT_TELL
        known = None if number is None else self._metadata.partition(TopicPartition(TRANSACTION_STATE, number))
        if number is None or known is None:
            return _CANNOT_TELL
        if known.leader == self._broker_id:
            described = await self._ask_here(number, producer.transactional_id)
        else:
            described = await self._ask_there(known.leader, producer.transactional_id)
        return judge(described, producer, partition, marked_epoch=marked_epoch)

    async def _ask_here(self, number: int, transactional_id: str) -> Described:
        shard = self._coordination.transactions.get(number)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        found: Described = await shard.run(
            lambda machine, ticket, _now_ms, _wall_ms: machine.describe(ticket, transactional_id),
            on_lost=lambda error: error,
        )
        return found

    async def _ask_there(self, broker_id: BrokerId, transactional_id: str) -> Described:
        lane = self._lanes.get(broker_id)
        if lane is None:
            client_id = f"broker-{self._broker_id}-verification"
            line = BrokerLine(broker_id, self._reach, client_id=client_id, spawn=self._spawn)
            lane = self._lanes[broker_id] = _Lane(line)
        question = _Question(transactional_id, asyncio.get_running_loop().create_future())
        lane.waiting.append(question)
        if not lane.is_asking:
            lane.is_asking = True
            self._spawn(self._ask_all(lane), name=f"questions about transactions to broker {broker_id}")
        return await question.answer

    async def _ask_all(self, lane: _Lane) -> None:
        try:
            while lane.waiting:
                questions, lane.waiting = lane.waiting[:_IDS_PER_REQUEST], lane.waiting[_IDS_PER_REQUEST:]
                try:
                    answers = await self._exchange(lane, {each.transactional_id for each in questions})
                except ClientError as error:
                    log.warning("broker %d cannot be asked about transactions: %s", lane.line.broker_id, error)
                    answers = {}
                for transactional_id, answer in questions:
                    if not answer.done():
                        answer.set_result(answers.get(transactional_id, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        finally:
            lane.is_asking = False

    async def _exchange(self, lane: _Lane, transactional_ids: set[str]) -> dict[str, Described]:
        connection = await lane.line.connected()
        request = DescribeTransactionsRequest(sorted(transactional_ids))
        response = await connection.request(describe_transactions.API, request, timeout_ms=_TIMEOUT_MS)
        assert isinstance(response, DescribeTransactionsResponse)
        return {state.transactional_id: _described(state) for state in response.transaction_states}


def _described(state: DescribeTransactionsTransactionState) -> Described:
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    if state.error_code != ErrorCode.NONE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TransactionDescription(
        transactional_id=state.transactional_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        start_ms=state.transaction_start_time_ms,
        partitions=tuple(TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions),
        coordinator_epoch=state.coordinator_leader_epoch,
    )
