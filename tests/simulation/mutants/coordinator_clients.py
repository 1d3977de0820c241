"""Clients of the coordinators in scripted plans: each call is one request, asked again only while nobody coordinates.

They hide nothing: a story repeats a request, sends it late, or in the name of a producer that was replaced. Calls that
give an `ErrorCode` give what the broker answered.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from barnabas.client.coordinators import CoordinatorKind, Coordinators
from barnabas.client.errors import ClientError, raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    fetch,
    heartbeat,
    init_producer_id,
    join_group,
    list_transactions,
    offset_commit,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from barnabas.protocol.messages import produce as produce_api
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.records import Record, build_batch
from barnabas.protocol.schema import Api
from barnabas.simulation.history import Outcome, outcome_of_produce
from barnabas.simulation.history_values import Written, value_of
from barnabas.simulation.load import ClientProcess
from barnabas.simulation.plan import Scene

T = TypeVar("T")

_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
PATIENCE_S: Final = 40.0
_PAUSE_S: Final = 0.1
_TRANSACTIONS_SINCE: Final = 3
"""The version of Produce."""


class _Asker(ClientProcess):
    """A process that asks coordinators and leaders."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.world.stage, scene.world.client_name())
        self.patience_s = PATIENCE_S
        self._coordinators = Coordinators(self.cluster)

    async def _here(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it in this process and wait for it."""
        return await self.start(work)  # type: ignore[no-any-return]

    async def _ask(
        self, kind: CoordinatorKind, key: str, api: Api, request: object, codes: Callable[[Any], Iterable[int]]
    ) -> Any:
        """Ask the coordinator until one answers; an answer that none can serve counts at the end of all patience."""
        deadline_s = self.stage.loop.now_s + self.patience_s
        while True:
            is_last = self.stage.loop.now_s >= deadline_s
            try:
                response = await self._coordinators.ask(kind, key, api, request, codes=codes)
                if is_last or _LATER.isdisjoint(codes(response)):
                    return response
            except ClientError:
                if is_last:
                    raise
            await asyncio.sleep(_PAUSE_S)


class Transactor(_Asker):
    """Who produces under a transactional id. `identity` is what the coordinator gave it."""

    def __init__(self, scene: Scene, transactional_id: str = "transactor", *, timeout_ms: int = 60_000) -> None:
        super().__init__(scene)
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.identity = (-1, -1)
        self._partition = scene.partition
        self._sequence = 0
        self._number = 0
        self._transaction = 0

    async def initialise(self) -> ErrorCode:
        """InitProducerId as a producer that begins."""
        request = InitProducerIdRequest(self.transactional_id, self.timeout_ms)
        response = await self._here(self._coordinate(init_producer_id.API, request, lambda each: [each.error_code]))
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            self.identity, self._sequence = (response.producer_id, response.producer_epoch), 0
        return error

    async def add(self, at: TopicPartition | None = None) -> ErrorCode:
        """AddPartitionsToTxn of one partition."""
        topic, number = at or self._partition
        request = AddPartitionsToTxnRequest(
            self.transactional_id, *self.identity, [AddPartitionsToTxnTopic(topic, [number])]
        )

        def codes(response: Any) -> list[int]:
            return [each.error_code for topic in response.results for each in topic.results]

        (error,) = codes(await self._here(self._coordinate(add_partitions_to_txn.API, request, codes)))
        return ErrorCode(error)

    async def add_offsets(self, group_id: str) -> ErrorCode:
        request = AddOffsetsToTxnRequest(self.transactional_id, *self.identity, group_id)
        response = await self._here(self._coordinate(add_offsets_to_txn.API, request, lambda each: [each.error_code]))
        return ErrorCode(response.error_code)

    async def commit_offset(self, group_id: str, offset: int, *, at: TopicPartition | None = None) -> ErrorCode:
        """TxnOffsetCommit from outside of the group's membership."""
        topic, number = at or self._partition
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            group_id,
            *self.identity,
            topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(number, offset)])],
        )
        answer = await self._here(self._ask(CoordinatorKind.GROUP, group_id, txn_offset_commit.API, request, _codes))
        (error,) = _codes(answer)
        return ErrorCode(error)

    async def begin(self) -> None:
        """A transaction begins with the scene's partition, and takes one record."""
        assert await self.initialise() is ErrorCode.NONE
        assert await self.add() is ErrorCode.NONE
        assert await self.write() is ErrorCode.NONE

    async def write(self, *, in_transaction: bool = True) -> ErrorCode:
        """One record to the partition's leader, in the transaction that is open or outside of any."""
        name = f"{self.transactional_id}/{self._transaction}" if in_transaction else None
        written = Written(self._partition, self.name, self.identity[1], self._number)
        operation = self.stage.history.produce(
            self.name, self._partition, value_of(written), self.now(), transaction=name
        )
        batch = build_batch(
            [Record(0, 1_600_000_000_000 + int(self.stage.loop.now_s * 1000), None, operation.value, ())],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=self._sequence,
            transactional=in_transaction,
        )
        self._number += 1
        try:
            error, offset = await self._here(self._produce(batch))
        except ClientError as lost:
            operation.unknown(str(lost), self.now())
            raise
        match outcome_of_produce(error):
            case Outcome.OK:
                operation.ok(offset, self.now())
                self._sequence += 1
            case Outcome.FAIL:
                operation.fail(error.name, self.now())
            case _:
                operation.unknown(error.name, self.now())
        return error

    async def end(self, *, commit: bool) -> ErrorCode:
        """EndTxn, once; the history hears how it ended where the answer says it."""
        request = EndTxnRequest(self.transactional_id, *self.identity, commit)
        response = await self._here(self._coordinate(end_txn.API, request, lambda each: [each.error_code]))
        error = ErrorCode(response.error_code)
        if error is ErrorCode.NONE:
            name = f"{self.transactional_id}/{self._transaction}"
            self.stage.history.end_transaction(name, Outcome.OK if commit else Outcome.FAIL)
            self._transaction += 1
        return error

    async def _coordinate(self, api: Api, request: object, codes: Callable[[Any], Iterable[int]]) -> Any:
        return await self._ask(CoordinatorKind.TRANSACTION, self.transactional_id, api, request, codes)

    async def _produce(self, batch: bytes) -> tuple[ErrorCode, int]:
        topic, number = self._partition
        leader = await self.cluster.leader(self._partition)
        request = ProduceRequest(
            self.transactional_id, -1, 3_000, [TopicProduceData(topic, [PartitionProduceData(number, batch)])]
        )
        response = await self.cluster.ask(leader.node_id, produce_api.API, request)
        answer = response.responses[0].partitions[0]
        return ErrorCode(answer.error_code), answer.base_offset


class GroupClient(_Asker):
    """One group: as a member of it, or from outside with offsets alone."""

    def __init__(self, scene: Scene, group_id: str = "group", *, instance_id: str | None = None) -> None:
        super().__init__(scene)
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation_id = -1
        self._partition = scene.partition

    async def join(self, subscription: bytes, *, session_timeout_ms: int = 10_000) -> JoinGroupResponse:
        """JoinGroup with one protocol, asked again with the member id that it is told; must succeed."""
        while True:
            request = JoinGroupRequest(
                self.group_id,
                session_timeout_ms,
                5_000,
                self.member_id,
                self.instance_id,
                "consumer",
                [JoinGroupRequestProtocol("range", subscription)],
            )
            response = await self._here(self._coordinate(join_group.API, request, _code))
            self.member_id = response.member_id
            if response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        assert response.error_code == ErrorCode.NONE, ErrorCode(response.error_code).name
        self.generation_id = response.generation_id
        assert isinstance(response, JoinGroupResponse)
        return response

    async def sync(self, assignments: Iterable[tuple[str, bytes]] = ()) -> ErrorCode:
        request = SyncGroupRequest(
            self.group_id,
            self.generation_id,
            self.member_id,
            self.instance_id,
            "consumer",
            "range",
            [SyncGroupRequestAssignment(*each) for each in assignments],
        )
        return ErrorCode((await self._here(self._coordinate(sync_group.API, request, _code))).error_code)

    async def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(self.group_id, self.generation_id, self.member_id, self.instance_id)
        return ErrorCode((await self._here(self._coordinate(heartbeat.API, request, _code))).error_code)

    async def commit(self, offset: int) -> ErrorCode:
        """OffsetCommit of the scene's partition."""
        topic, number = self._partition
        request = OffsetCommitRequest(
            self.group_id,
            self.generation_id,
            self.member_id,
            self.instance_id,
            topics=[OffsetCommitRequestTopic(topic, [OffsetCommitRequestPartition(number, offset)])],
        )
        (error,) = _codes(await self._here(self._coordinate(offset_commit.API, request, _codes)))
        return ErrorCode(error)

    async def committed(self) -> int:
        """OffsetFetch of the scene's partition: -1 where nothing is committed."""
        topic, number = self._partition
        request = OffsetFetchRequest(self.group_id, [OffsetFetchRequestTopic(topic, [number])])
        response = await self._here(
            self._coordinate(offset_fetch.API, request, lambda each: [each.error_code, *_codes(each)])
        )
        return int(response.topics[0].partitions[0].committed_offset)

    async def _coordinate(self, api: Api, request: object, codes: Callable[[Any], Iterable[int]]) -> Any:
        return await self._ask(CoordinatorKind.GROUP, self.group_id, api, request, codes)


class StableReader(_Asker):
    """Tells how far a partition is stable."""

    async def lag(self, at: TopicPartition) -> int | None:
        """How many offsets of what is committed readers of committed transactions may not have yet; None: no answer."""
        try:
            return await self._here(self._lag(at))
        except ClientError:
            self.cluster.forget(at.topic)
            return None

    async def _lag(self, at: TopicPartition) -> int | None:
        leader = await self.cluster.leader(at)
        request = FetchRequest(
            replica_id=-1,
            min_bytes=0,
            isolation_level=1,
            topics=[FetchTopic(at.topic, [FetchPartition(at.partition, partition_max_bytes=1)])],
        )
        response = await self.cluster.ask(leader.node_id, fetch.API, request)
        answer = response.responses[0].partition_responses[0]
        return None if answer.error_code else int(answer.high_watermark - answer.last_stable_offset)


class TransactionTool(_Asker):
    """Who looks after transactions."""

    async def listing(self) -> list[str]:
        """All transactional ids that their coordinator knows; there is one for all."""
        request = ListTransactionsRequest()
        response = await self._here(
            self._ask(CoordinatorKind.TRANSACTION, "any", list_transactions.API, request, _code)
        )
        return [each.transactional_id for each in response.transaction_states]


class CarefulWriter(_Asker):
    """An idempotent producer that will have its record written, as a Java producer and who uses it would.

    An error that may pass has it send the same batch again; one that is for good a new producer, with the same record.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._partition = scene.partition

    def write_soon(self) -> "asyncio.Task[None]":
        """Write one record while the story goes on."""
        return self.start(self._write())

    async def _write(self) -> None:
        value = value_of(Written(self._partition, self.name, 0, 0))
        operation = self.stage.history.produce(self.name, self._partition, value, self.now())
        batch = await self._batch(value)
        while True:
            try:
                offset = await self._attempt(batch)
            except ClientError as error:
                self.cluster.forget(self._partition.topic)
                await asyncio.sleep(_PAUSE_S)
                if not error.retriable:
                    batch = await self._batch(value)
            else:
                operation.ok(offset, self.now())
                return

    async def _batch(self, value: bytes) -> bytes:
        """The record, as of a new producer."""
        asked = InitProducerIdRequest(transactional_id=None)
        identity = await self.cluster.patiently(lambda: self.cluster.ask_any(init_producer_id.API, asked))
        raise_for(identity.error_code)
        record = Record(0, 1_600_000_000_000, None, value, ())
        return build_batch(
            [record], producer_id=identity.producer_id, producer_epoch=identity.producer_epoch, base_sequence=0
        )

    async def _attempt(self, batch: bytes) -> int:
        topic, number = self._partition
        leader = await self.cluster.leader(self._partition)
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, [PartitionProduceData(number, batch)])])
        connection = await self.cluster.connection(leader.node_id)
        response = await connection.request(produce_api.API, request, timeout_ms=12_000, least=_TRANSACTIONS_SINCE)
        answer = response.responses[0].partitions[0]
        raise_for(answer.error_code, answer.error_message)
        return int(answer.base_offset)


def _codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


def _code(response: Any) -> list[int]:
    return [response.error_code]
