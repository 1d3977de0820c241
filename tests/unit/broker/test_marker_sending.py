import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.connection import Address
from barnabas.client.errors import ConnectionFailed
from barnabas.coordinator.shard import Shard
from barnabas.coordinator.shard_settings import ShardSettings
from barnabas.coordinator.transactions.effects import SendMarkers
from barnabas.coordinator.transactions.producer_identity import NewIdNeeded
from barnabas.coordinator.transactions.requests import Initialise, Producer
from barnabas.coordinator.transactions.transaction_coordinator import TransactionCoordinator, TransactionSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from broker.fetching import BrokerReach
from broker.marker_sending import MarkerOutcome, MarkerSending, outcome_of
from broker.metadata_view import MetadataView
from controller.commands import Endpoint, LiveBroker, UpdateMetadata, UpdateMetadataPartition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_shard import LoopClock
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create
from zk_schema.payloads import TopicAssignment

ME, OTHER = BrokerId(1), BrokerId(2)
OWN, FOREIGN = TopicPartition("t", 0), TopicPartition("t", 1)
NOWHERE = TopicPartition("gone", 0)


class MarkerWorld:
    """A transaction coordinator on broker 1, and the leaders 1 and 2 of t-0 and t-1, which `answer` for a partition."""

    def __init__(self) -> None:
        self.metadata = MetadataView()
        self.lead({OWN: ME, FOREIGN: OTHER})
        self.zk = MemorySession(MemoryZooKeeper(), session_timeout_ms=3_000)
        self.asked: list[tuple[BrokerId, WriteTxnMarkersRequest]] = []
        self.answers: dict[TopicPartition, ErrorCode | None] = {}
        self.unreachable = False
        self.held: asyncio.Event | None = None
        self.connections = 0
        self.spawned: list[str] = []
        self.sending = MarkerSending(
            ME,
            metadata=self.metadata,
            zk=self.zk,
            reach=BrokerReach(lambda broker_id: Address("host", int(broker_id)), self._connect),
            write_own=lambda request: self._write(ME, request),
            spawn=self._spawn,
        )
        self.shard = Shard(
            MemoryLog(),
            lambda: TransactionCoordinator(TransactionSettings()),
            coordinator_epoch=5,
            clock=LoopClock(),
            spawn=spawn,
            carry_out=self.sending.carry_out,
            settings=ShardSettings(),
        )

    async def open(self) -> "MarkerWorld":
        await self.zk.open(timeout_ms=1)
        assignment = TopicAssignment({0: (ME,), 1: (OTHER,)}).encode()
        await self.zk.write(
            Create(paths.BROKERS, b""), Create(paths.BROKER_TOPICS, b""), Create(paths.topic("t"), assignment)
        )
        self.shard.open()
        await asyncio.sleep(1)
        return self

    def lead(self, leaders: dict[TopicPartition, BrokerId]) -> None:
        brokers = tuple(LiveBroker(each, (Endpoint("PLAINTEXT", "host", each),)) for each in (ME, OTHER))
        partitions = [
            UpdateMetadataPartition(
                topic=each.topic,
                partition=each.partition,
                controller_epoch=ControllerEpoch(1),
                leader=leader,
                leader_epoch=LeaderEpoch(0),
                isr=(leader,),
                zk_version=0,
                replicas=(leader,),
            )
            for each, leader in leaders.items()
        ]
        self.metadata.apply(
            UpdateMetadata(
                controller_id=ME,
                controller_epoch=ControllerEpoch(1),
                broker_epoch=BrokerEpoch(1),
                live_brokers=brokers,
                partitions=partitions,
            )
        )

    def _spawn(self, work: Any, *, name: str) -> "asyncio.Task[Any]":
        self.spawned.append(name)
        return spawn(work, name=name)

    async def _connect(self, address: Address, _: str) -> Any:
        self.connections += 1
        await asyncio.sleep(0.001)
        if self.unreachable:
            raise ConnectionFailed("nobody listens")
        return RemoteLeader(self, address)

    async def _write(self, leader: BrokerId, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.asked.append((leader, request))
        if self.held is not None:
            await self.held.wait()
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            topics = []
            for topic in marker.topics:
                answers = {
                    each: self.answers.get(TopicPartition(topic.name, each), ErrorCode.NONE)
                    for each in topic.partition_indexes
                }
                results = [
                    WritableTxnMarkerPartitionResult(each, error)
                    for each, error in answers.items()
                    if error is not None
                ]
                topics.append(WritableTxnMarkerTopicResult(topic.name, results))
            response.markers.append(WritableTxnMarkerResult(marker.producer_id, topics))
        return response

    async def call(self, call: Callable[..., Any]) -> Any:
        return await self.shard.run(call, on_lost=lambda error: error)

    async def begin(self, transactional_id: str, *partitions: TopicPartition, producer_id: int = 7) -> Producer:
        reply = await self.call(
            lambda machine, ticket, now_ms, wall_ms: machine.initialise(
                ticket,
                Initialise(transactional_id, 60_000, None, producer_id),
                now_ms=now_ms,
                wall_ms=wall_ms,
            )
        )
        assert not isinstance(reply, NewIdNeeded)
        producer = Producer(transactional_id, *reply.identity)
        await self.call(
            lambda machine, ticket, now_ms, wall_ms: machine.add_partitions(
                ticket, producer, frozenset(partitions), now_ms=now_ms, wall_ms=wall_ms
            )
        )
        return producer

    async def end(self, producer: Producer, *, commit: bool = True) -> Any:
        return await self.call(
            lambda machine, ticket, now_ms, wall_ms: machine.end(
                ticket, producer, commit=commit, now_ms=now_ms, wall_ms=wall_ms
            )
        )

    async def state(self, transactional_id: str) -> str:
        found = await self.call(lambda machine, ticket, now_ms, wall_ms: machine.describe(ticket, transactional_id))
        return str(found.state)

    def markers(self) -> list[tuple[int, int, list[int]]]:
        """(leader, producer id, partitions) of every marker that was asked for."""
        return [
            (int(leader), marker.producer_id, [number for topic in marker.topics for number in topic.partition_indexes])
            for leader, request in self.asked
            for marker in request.markers
        ]


class RemoteLeader:
    """A connection to another broker."""

    def __init__(self, world: MarkerWorld, address: Address) -> None:
        self._world = world
        self.address = address
        self.is_open = True

    async def request(self, _: Any, request: WriteTxnMarkersRequest, *, timeout_ms: int) -> WriteTxnMarkersResponse:
        assert timeout_ms
        return await self._world._write(BrokerId(self.address.port), request)

    def close(self, _: str) -> None:
        self.is_open = False


def spawn(work: Any, *, name: str) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work, name=name)


async def opened() -> MarkerWorld:
    return await MarkerWorld().open()


@virtual_time
async def test_each_leader_writes_the_marker_of_its_partitions_and_the_transaction_is_complete() -> None:
    world = await opened()
    producer = await world.begin("a", OWN, FOREIGN)
    assert await world.end(producer) is ErrorCode.NONE
    await asyncio.sleep(0.1)
    assert sorted(world.markers()) == [(1, 7, [0]), (2, 7, [1])]
    (marker,) = world.asked[0][1].markers
    assert (marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (0, True, 5)
    assert await world.state("a") == "CompleteCommit"


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        None,
    ],
    ids=str,
)
def test_what_a_leader_cannot_write_yet_is_tried_until_it_can(error: ErrorCode | None) -> None:
    """KAFKA-9749: an error that was not expected left the transaction in PrepareCommit for ever."""

    @virtual_time
    async def story() -> None:
        world = await opened()
        world.answers[FOREIGN] = error
        producer = await world.begin("a", OWN, FOREIGN)
        await world.end(producer)
        await asyncio.sleep(10)
        assert await world.state("a") == "PrepareCommit"
        assert 5 < len(world.asked) < 50
        assert world.markers().count((1, 7, [0])) == 1
        world.answers.clear()
        await asyncio.sleep(2)
        assert await world.state("a") == "CompleteCommit"

    story()


@pytest.mark.parametrize("error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_a_later_epoch_ends_the_work_on_a_decision(error: ErrorCode) -> None:
    @virtual_time
    async def story() -> None:
        world = await opened()
        world.answers[FOREIGN] = error
        await world.end(await world.begin("a", FOREIGN))
        await asyncio.sleep(60)
        assert len(world.asked) == 1
        assert await world.state("a") == "PrepareCommit"

    story()


@virtual_time
async def test_a_later_epoch_in_one_partition_ends_the_work_on_the_others() -> None:
    world = await opened()
    world.answers = {FOREIGN: ErrorCode.TRANSACTION_COORDINATOR_FENCED, OWN: ErrorCode.NOT_ENOUGH_REPLICAS}
    await world.end(await world.begin("a", OWN, FOREIGN))
    await asyncio.sleep(1)
    asked = world.markers()
    assert asked.count((1, 7, [0])) < 3
    await asyncio.sleep(60)
    assert world.markers() == asked


@virtual_time
async def test_a_marker_follows_its_partition_to_the_next_leader() -> None:
    world = await opened()
    world.answers[FOREIGN] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.end(await world.begin("a", FOREIGN))
    await asyncio.sleep(0.01)
    world.lead({FOREIGN: ME})
    world.answers.clear()
    await asyncio.sleep(1)
    assert world.markers() == [(2, 7, [1]), (1, 7, [1])]
    assert await world.state("a") == "CompleteCommit"


@virtual_time
async def test_a_partition_without_a_leader_is_waited_for() -> None:
    world = await opened()
    world.lead({FOREIGN: BrokerId(-1)})
    await world.end(await world.begin("a", FOREIGN))
    await asyncio.sleep(5)
    assert not world.asked
    world.lead({FOREIGN: BrokerId(9)})
    await asyncio.sleep(5)
    assert not world.asked
    world.lead({FOREIGN: OTHER})
    await asyncio.sleep(2)
    assert await world.state("a") == "CompleteCommit"


@virtual_time
async def test_a_partition_that_zookeeper_does_not_know_needs_no_marker() -> None:
    world = await opened()
    await world.end(await world.begin("a", NOWHERE, TopicPartition("t", 99), OWN))
    await asyncio.sleep(1)
    assert world.markers() == [(1, 7, [0])]
    assert await world.state("a") == "CompleteCommit"


@virtual_time
async def test_a_partition_of_which_the_controller_has_not_told_yet_is_not_taken_for_deleted() -> None:
    world = await opened()
    late = TopicPartition("t", 1)
    world.lead({late: BrokerId(-2)})
    await world.end(await world.begin("a", late))
    await asyncio.sleep(5)
    assert await world.state("a") == "PrepareCommit"
    world.lead({late: OTHER})
    await asyncio.sleep(2)
    assert await world.state("a") == "CompleteCommit"


@virtual_time
async def test_nothing_counts_as_deleted_while_zookeeper_cannot_be_asked() -> None:
    world = await opened()
    await world.zk.close()
    await world.end(await world.begin("a", NOWHERE))
    await asyncio.sleep(5)
    assert await world.state("a") == "PrepareCommit"


@virtual_time
async def test_a_broker_that_cannot_be_reached_is_tried_again() -> None:
    world = await opened()
    world.unreachable = True
    await world.end(await world.begin("a", FOREIGN))
    await asyncio.sleep(5)
    assert 3 < world.connections < 20
    world.unreachable = False
    await asyncio.sleep(2)
    assert await world.state("a") == "CompleteCommit"


@virtual_time
async def test_many_transactions_share_requests_and_one_connection() -> None:
    world = await opened()
    producers = [await world.begin(f"producer {each}", FOREIGN, producer_id=each) for each in range(100)]
    world.held = asyncio.Event()
    ends = [asyncio.create_task(world.end(each)) for each in producers]
    await asyncio.gather(*ends)
    await asyncio.sleep(1)
    world.held.set()
    await asyncio.sleep(1)
    assert len(world.asked) <= 10
    assert world.connections == 1
    assert {await world.state(f"producer {each}") for each in range(100)} == {"CompleteCommit"}


@virtual_time
@pytest.mark.parametrize("partitions", [(OWN, FOREIGN), (FOREIGN, OWN)])
async def test_in_which_order_leaders_are_asked_is_no_matter_of_hashes(partitions: tuple[TopicPartition, ...]) -> None:
    world = await opened()
    effect = SendMarkers("a", 7, 0, commit=True, coordinator_epoch=5, partitions=partitions)
    world.sending.carry_out(world.shard, effect)
    assert world.spawned == ["markers for broker 1", "markers for broker 2"]


@virtual_time
async def test_a_request_names_a_producer_once() -> None:
    world = await opened()
    before = [await world.begin(f"before {each}", FOREIGN, producer_id=each) for each in range(5)]
    producers = [await world.begin(each, FOREIGN, producer_id=7) for each in ("a", "b")]
    world.held = asyncio.Event()
    for each in (*before, *producers):
        await world.end(each)
        await asyncio.sleep(0.1)
    assert len(world.asked) == 5, "as many requests as a broker gets at once, and two decisions that wait"
    world.held.set()
    await asyncio.sleep(1)
    assert all(len(request.markers) == 1 for _, request in world.asked)
    assert [await world.state(each) for each in ("a", "b")] == ["CompleteCommit"] * 2


@virtual_time
async def test_nothing_is_sent_for_a_coordinator_that_is_gone() -> None:
    world = await opened()
    world.answers[FOREIGN] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.end(await world.begin("a", FOREIGN))
    await asyncio.sleep(5)
    world.shard.close()
    await turns()
    asked = len(world.asked)
    await asyncio.sleep(60)
    assert len(world.asked) == asked


@virtual_time
async def test_what_a_leader_wrote_for_an_earlier_life_of_the_coordinator_is_not_counted() -> None:
    world = await opened()
    producer = await world.begin("a", FOREIGN)
    earlier = world.held = asyncio.Event()
    await world.end(producer)
    await asyncio.sleep(0.1)
    memory = world.shard.log
    assert isinstance(memory, MemoryLog)
    memory.fails = ErrorCode.KAFKA_STORAGE_ERROR
    later = world.held = asyncio.Event()
    await world.begin("b", OWN)
    await asyncio.sleep(5)
    assert world.shard.counts.loads == 2
    asked = len(world.asked)
    earlier.set()
    await asyncio.sleep(1)
    assert asked == 2
    assert await world.state("a") == "PrepareCommit"
    later.set()
    await asyncio.sleep(1)
    assert await world.state("a") == "CompleteCommit"


def test_every_answer_means_something() -> None:
    assert {outcome_of(error) for error in ErrorCode} == set(MarkerOutcome)
