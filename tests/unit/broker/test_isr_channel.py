"""Proposals on their way to the controller: in batches, one request at a time, until there is an answer."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from barnabas.runtime.tasks import Supervisor
from broker.isr_channel import LINGER_MS, RETRY_MS, TIMEOUT_MS, AlterPartitionChannel
from broker.metadata_view import MetadataView
from controller.commands import (
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
    Endpoint,
    LiveBroker,
    UpdateMetadata,
)
from controller.control_plane import ControllerUnreachable
from replication.isr import IsrAnswer, IsrProposal
from tests.support.virtual_time import turns, virtual_time

ME, OTHER = BrokerId(1), BrokerId(2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCH = LeaderEpoch(3)
Answering = Callable[[AlterPartition], AlterPartitionResult]


class LoopClock:
    """The loop's time."""

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)


class Plane:
    """A controller that the test answers for. `calls` has what reached it, with the time and the endpoint."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, str, AlterPartition]] = []
        self.answers: list[Answering | Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def call(self, endpoint: str, request: AlterPartition, *, timeout_ms: int) -> AlterPartitionResult:
        assert timeout_ms == TIMEOUT_MS
        self.calls.append((LoopClock().monotonic_ms(), endpoint, request))
        await self.gate.wait()
        answer = self.answers.pop(0) if self.answers else obey
        if isinstance(answer, Exception):
            raise answer
        return answer(request)

    @property
    def items(self) -> list[list[tuple[TopicPartition, tuple[BrokerId, ...]]]]:
        return [[(item.topic_partition, item.new_isr) for item in request.partitions] for _, _, request in self.calls]


def obey(request: AlterPartition) -> AlterPartitionResult:
    return AlterPartitionResult(partitions={item.topic_partition: state(item) for item in request.partitions})


def state(item: AlterPartitionItem) -> AlterPartitionOutcome:
    return AlterPartitionOutcome(ErrorCode.NONE, ME, item.leader_epoch, item.new_isr, item.zk_version + 1)


def refuse(error: ErrorCode, *, whole: bool = False) -> Answering:
    def answer(request: AlterPartition) -> AlterPartitionResult:
        if whole:
            return AlterPartitionResult(error)
        return AlterPartitionResult(
            partitions={item.topic_partition: AlterPartitionOutcome(error) for item in request.partitions}
        )

    return answer


class World:
    def __init__(self) -> None:
        self.plane = Plane()
        self.failed: list[str] = []
        self.supervisor = Supervisor(lambda what, error: self.failed.append(f"{what}: {error!r}"))
        self.view = MetadataView()
        self.lead_by(OTHER)
        self.heard: list[tuple[TopicPartition, IsrAnswer]] = []
        self.channel = AlterPartitionChannel(
            ME,
            broker_epoch=lambda: BrokerEpoch(55),
            metadata=self.view,
            control_plane=self.plane,  # type: ignore[arg-type]
            clock=LoopClock(),  # type: ignore[arg-type]
            spawn=self.supervisor.spawn,
        )

    def lead_by(self, controller: BrokerId) -> None:
        brokers = tuple(
            LiveBroker(broker, (Endpoint("L", "h", 1),), control_endpoint=f"control:{broker}") for broker in (ME, OTHER)
        )
        epoch = ControllerEpoch(self.view.controller_epoch + 1)
        self.view.apply(UpdateMetadata(controller, epoch, BrokerEpoch(1), [], brokers))

    def propose(
        self, at: TopicPartition, *members: BrokerId, version: int = 0, again: IsrProposal | None = None
    ) -> IsrProposal:
        proposal = again or IsrProposal(EPOCH, members, version, True, BrokerEpoch(9))
        self.channel.propose(at, proposal, lambda answer: self.heard.append((at, answer)))
        return proposal

    def outcomes(self) -> list[tuple[TopicPartition, ErrorCode]]:
        return [(at, answer.error) for at, answer in self.heard]


@virtual_time
async def test_what_is_proposed_within_the_linger_goes_in_one_request() -> None:
    world = World()
    world.propose(T0, ME, OTHER)
    await asyncio.sleep(LINGER_MS / 2000)
    world.propose(T1, ME, version=4)
    await asyncio.sleep(LINGER_MS / 1000)
    ((sent_ms, endpoint, request),) = world.plane.calls
    assert (sent_ms, endpoint) == (LINGER_MS, "control:2")
    assert (request.broker_id, request.broker_epoch) == (ME, 55)
    assert request.partitions == [
        AlterPartitionItem("t", 0, EPOCH, (ME, OTHER), 0, BrokerEpoch(9)),
        AlterPartitionItem("t", 1, EPOCH, (ME,), 4, BrokerEpoch(9)),
    ]
    assert world.heard == [
        (T0, IsrAnswer(ErrorCode.NONE, EPOCH, (ME, OTHER), 1)),
        (T1, IsrAnswer(ErrorCode.NONE, EPOCH, (ME,), 5)),
    ]
    await asyncio.sleep(10)
    assert len(world.plane.calls) == 1
    assert not [task for task in world.supervisor._tasks if not task.done()], "nothing runs while nothing waits"


@virtual_time
async def test_one_request_is_under_way_at_a_time() -> None:
    world = World()
    world.plane.gate.clear()
    world.propose(T0, ME)
    await asyncio.sleep(1)
    world.propose(T1, ME)
    await asyncio.sleep(1)
    assert world.plane.items == [[(T0, (ME,))]]
    world.plane.gate.set()
    await asyncio.sleep(1)
    assert world.plane.items == [[(T0, (ME,))], [(T1, (ME,))]]
    assert world.outcomes() == [(T0, ErrorCode.NONE), (T1, ErrorCode.NONE)]


@virtual_time
async def test_what_is_proposed_meanwhile_takes_the_place_of_what_is_under_way() -> None:
    world = World()
    world.plane.gate.clear()
    world.propose(T0, ME)
    await asyncio.sleep(1)
    world.propose(T0, ME, OTHER)
    world.plane.gate.set()
    await asyncio.sleep(1)
    assert world.plane.items == [[(T0, (ME,))], [(T0, (ME, OTHER))]]
    assert [answer.isr for _, answer in world.heard] == [(ME, OTHER)]


@virtual_time
async def test_who_withdraws_hears_nothing_and_sends_nothing_more() -> None:
    world = World()
    world.plane.gate.clear()
    world.propose(T0, ME)
    await asyncio.sleep(1)
    world.propose(T1, ME)
    for at in (T0, T1):
        world.channel.withdraw(at)
    world.plane.gate.set()
    await asyncio.sleep(1)
    assert world.plane.items == [[(T0, (ME,))]]
    assert world.heard == []


@pytest.mark.parametrize(
    "trouble",
    [
        refuse(ErrorCode.NOT_CONTROLLER, whole=True),
        refuse(ErrorCode.STALE_BROKER_EPOCH, whole=True),
        refuse(ErrorCode.UNKNOWN_SERVER_ERROR),
        lambda _: AlterPartitionResult(),
    ],
)
def test_what_is_only_true_for_the_moment_is_tried_again(trouble: Answering) -> None:
    @virtual_time
    async def run() -> None:
        world = World()
        world.plane.answers = [trouble, trouble]
        world.propose(T0, ME)
        await asyncio.sleep((LINGER_MS + 1) / 1000)
        world.lead_by(ME)
        await asyncio.sleep(1)
        assert [(at_ms, endpoint) for at_ms, endpoint, _ in world.plane.calls] == [
            (LINGER_MS, "control:2"),
            (LINGER_MS + RETRY_MS, "control:1"),
            (LINGER_MS + 2 * RETRY_MS, "control:1"),
        ]
        assert world.outcomes() == [(T0, ErrorCode.NONE)]

    run()


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INELIGIBLE_REPLICA,
    ],
)
def test_what_the_controller_refuses_is_told_and_not_tried_again(error: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        world = World()
        world.plane.answers = [refuse(error)]
        world.propose(T0, ME)
        await asyncio.sleep(5)
        assert len(world.plane.calls) == 1
        assert world.outcomes() == [(T0, error)]

    run()


@virtual_time
async def test_without_a_controller_it_waits_for_one() -> None:
    world = World()
    world.lead_by(BrokerId(-1))
    world.propose(T0, ME)
    await asyncio.sleep(1)
    assert world.plane.calls == []
    world.lead_by(OTHER)
    await asyncio.sleep(1)
    assert world.outcomes() == [(T0, ErrorCode.NONE)]


@virtual_time
async def test_a_lost_attempt_is_told_of_until_its_time_is_over() -> None:
    world = World()
    world.plane.answers = [ControllerUnreachable("gone"), *[refuse(ErrorCode.INELIGIBLE_REPLICA)] * 4]
    proposal = world.propose(T0, ME, OTHER)
    await asyncio.sleep(1)
    world.propose(T0, again=proposal)
    await asyncio.sleep(TIMEOUT_MS / 1000)
    world.propose(T0, again=proposal)
    await asyncio.sleep(1)
    assert len(world.plane.calls) == 4
    assert [answer.may_still_apply for _, answer in world.heard] == [True, True, False]


@virtual_time
async def test_a_lost_attempt_says_nothing_of_another_proposal() -> None:
    world = World()
    world.plane.answers = [ControllerUnreachable("gone"), *[refuse(ErrorCode.INELIGIBLE_REPLICA)] * 2]
    world.propose(T0, ME, OTHER)
    await asyncio.sleep(1)
    world.propose(T0, ME)
    await asyncio.sleep(1)
    assert [answer.may_still_apply for _, answer in world.heard] == [True, False]


@virtual_time
async def test_nothing_is_sent_or_heard_after_the_end() -> None:
    world = World()
    world.propose(T0, ME)
    world.channel.stop()
    await asyncio.sleep(1)
    assert world.plane.calls == []
    assert world.failed == []
    await turns()
