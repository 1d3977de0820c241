"""Random reassignments while brokers come, go and lose connections: nothing acknowledged is lost, all moves end.

The brokers here have logs, kept on disks that outlive them: a leader appends, followers that know its leader epoch copy
it, and a record is acknowledged when all that the leader takes for in sync have it.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from controller.commands import Command, CommandResult, LeaderAndIsr, StopReplica
from controller.inbox import NotController
from controller.questions import AlterReassignments
from controller.reassignment import origin_of, target_of
from controller.state import Assignment
from tests.unit.controller.cluster import Cluster, FakeBroker
from tests.unit.controller.replication import active, replicate
from zk_schema import paths
from zk_schema.memory import MemorySession
from zk_schema.ops import Create, NodeExists
from zk_schema.payloads import PartitionState, ReassignPartitions, TopicAssignment

Step = tuple[Any, ...]
Log = list[tuple[int, int]]
Disks = dict[int, dict[TopicPartition, Log]]
Replicas = tuple[int, ...]

BROKERS = (1, 2, 3, 4, 5)
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
BROKER, PARTITION = st.sampled_from(BROKERS), st.sampled_from(PARTITIONS)
REPLICAS = st.permutations(BROKERS).flatmap(lambda ids: st.integers(1, 4).map(lambda count: tuple(ids[:count])))
MOVE, WRITE = st.tuples(st.just("move"), PARTITION, REPLICAS), st.just(("write",))
TURN = st.tuples(st.just("turn"), st.integers(1, 60))
STEP = st.one_of(
    *[st.tuples(st.just("start"), BROKER), st.tuples(st.just("kill"), BROKER), st.tuples(st.just("bounce"), BROKER)],
    *[st.tuples(st.just("deafen"), BROKER, st.booleans()), st.tuples(st.just("cut"), BROKER, st.booleans())],
    *[MOVE, MOVE, st.tuples(st.just("cancel"), PARTITION), st.tuples(st.just("tool"), PARTITION, REPLICAS)],
    *[WRITE, WRITE, WRITE, TURN, TURN],
)
QUIET = 100
"""Turns of the loop after which the controller has heard of all that happened to brokers."""

SETTLE = [("turn", 100), ("write",), ("turn", 100), ("write",), ("turn", 100)]
A, B = PARTITIONS
STUCK = [("deafen", 5, True), ("move", B, (4, 5)), *SETTLE]
"""Partition B on its way from 2 and 3 to 4 and 5, with 4 in sync and 5 not."""


@dataclass
class DiskBroker(FakeBroker):
    """A broker whose logs are on a disk that stays when it goes."""

    disk: dict[TopicPartition, Log] = field(default_factory=dict)

    def obey(self, command: Command) -> CommandResult:
        result = super().obey(command)
        if isinstance(command, LeaderAndIsr) and result.error_code is ErrorCode.NONE:
            for entry in command.partitions:
                at = entry.topic_partition
                if result.of(at) is ErrorCode.NONE:
                    self.disk[at] = [] if entry.is_new else self.disk.get(at, [])
        elif isinstance(command, StopReplica) and result.error_code is ErrorCode.NONE:
            for stop in command.partitions:
                if stop.delete and result.of(stop.topic_partition) is ErrorCode.NONE:
                    self.disk.pop(stop.topic_partition, None)
        return result


@dataclass
class World:
    """The cluster, its disks, what was acknowledged and what was asked for."""

    cluster: Cluster
    disks: Disks = field(default_factory=lambda: {number: {} for number in BROKERS})
    acknowledged: dict[TopicPartition, Log] = field(default_factory=lambda: {at: [] for at in PARTITIONS})
    wanted: dict[TopicPartition, set[frozenset[int]]] = field(default_factory=dict)
    records: int = 0
    seen: dict[TopicPartition, tuple[Assignment, PartitionState]] = field(default_factory=dict)
    quiet_turns: int = 0
    """Turns of the loop since a broker came, went or lost its connection."""

    def make(self, broker_id: BrokerId, session: MemorySession) -> DiskBroker:
        return DiskBroker(broker_id, session, disk=self.disks[broker_id])

    def assignment(self, at: TopicPartition) -> Assignment:
        znode = self.cluster.zk.tree.get(paths.topic(at.topic))
        assert znode is not None
        read, number = TopicAssignment.decode(znode.data), at.partition
        return Assignment(
            read.partitions[number], read.adding_replicas.get(number, ()), read.removing_replicas.get(number, ())
        )

    def watch(self) -> Iterator[str]:
        """No live replica loses its place in sync but one that leaves, and none leaves before the target is in sync."""
        for at in PARTITIONS:
            state = self.cluster.state(at.topic, at.partition)
            if state is None:
                continue
            now = self.assignment(at), state
            before = self.seen.get(at, now)
            self.seen[at] = now
            if self.quiet_turns < QUIET:
                continue
            # Those that come leave again before the znode says that they do not come.
            keeping = (set(target_of(now[0])) - set(now[0].adding)) & set(self.cluster.brokers)
            lost = (set(before[1].isr) - set(state.isr)) & keeping
            if lost and now[0].replicas == before[0].replicas:
                yield f"{at}: brokers {lost} live and are in sync no more: {before}, {now}"
            if before[0].is_moving and now[0] == Assignment(target_of(before[0])):
                missing = set(now[0].replicas) - set(state.isr)
                if missing:
                    yield f"{at} has moved though {missing} are not in sync: {before}, {now}"

    async def write(self) -> None:
        """Each leader appends a record; those who follow it copy; then the in-sync sets grow."""
        for broker in self.cluster.brokers.values():
            for at, role in broker.roles.items():
                if role.leader == broker.broker_id and not broker.is_deaf:
                    self.append(at, broker, role.leader_epoch, role.isr)
        await replicate(
            self.cluster,
            lambda leader, other, at: self.disks[other.broker_id].get(at) == self.disks[leader.broker_id].get(at),
        )

    def append(self, at: TopicPartition, leader: FakeBroker, epoch: int, isr: tuple[BrokerId, ...]) -> None:
        self.records += 1
        log = self.disks[leader.broker_id][at]
        log.append((epoch, self.records))
        for other in self.cluster.brokers.values():
            role = other.roles.get(at)
            if other is not leader and role is not None and role.leader_epoch == epoch and not other.is_deaf:
                self.disks[other.broker_id][at] = list(log)
        if all(self.disks[each].get(at, [])[-1:] == [(epoch, self.records)] for each in isr):
            self.acknowledged[at].append((epoch, self.records))

    def faults(self) -> Iterator[str]:
        """What must never be."""
        for at in PARTITIONS:
            state = self.cluster.state(at.topic, at.partition)
            if state is None:
                continue
            if not state.isr or not set(state.isr) <= set(self.assignment(at).replicas):
                yield f"{at} has in sync {state.isr} of {self.assignment(at)}"
            for member in state.isr:
                missing = [each for each in self.acknowledged[at] if each not in self.disks[member].get(at, [])]
                if missing:
                    yield f"{at}: broker {member} is in sync ({state.isr}) without {missing[:5]}"

    def unfinished(self) -> Iterator[str]:
        """What must be in the end."""
        for at in PARTITIONS:
            assignment, state = self.assignment(at), self.cluster.state(at.topic, at.partition)
            if assignment.is_moving:
                yield f"{at} still moves: {assignment}"
            if state is None or state.leader == -1 or set(state.isr) != set(assignment.replicas):
                yield f"{at} is {state} of {assignment}"
            if not assignment.is_moving and frozenset(assignment.replicas) not in self.wanted[at]:
                yield f"{at} is on {assignment.replicas}, asked for {self.wanted[at]}"
        if self.cluster.exists(paths.REASSIGN_PARTITIONS):
            yield "the old znode is still there"


@given(script=st.lists(STEP, min_size=3, max_size=40))
@example(script=[*STUCK, ("kill", 2), ("kill", 3), ("turn", 60), ("write",), ("cancel", B), *SETTLE])
@example(script=[*STUCK, ("cancel", B), *SETTLE])
@example(script=[*STUCK, ("move", B, (1, 5)), *SETTLE])
@example(script=[*STUCK, ("kill", 1), *SETTLE])
@example(script=[*STUCK, ("kill", 5), *SETTLE, ("start", 5), *SETTLE])
@example(script=[("deafen", 4, True), ("tool", B, (4, 5)), *SETTLE, ("move", B, (1, 2)), *SETTLE])
@example(script=[("move", B, (2, 4)), *[("turn", 1), ("kill", 1)], *SETTLE])
@settings(max_examples=150)
def test_every_move_ends_and_loses_nothing(script: list[Step]) -> None:
    asyncio.run(play(script))


async def play(script: list[Step]) -> None:
    world = World(Cluster())
    cluster = world.cluster
    cluster.make_broker = world.make
    await cluster.open()
    for number in BROKERS:
        await start(cluster, number)
    await turn(world, 200)
    await cluster.create("t", {0: [1, 2, 3], 1: [2, 3]})
    world.wanted = {PARTITIONS[0]: {frozenset({1, 2, 3})}, PARTITIONS[1]: {frozenset({2, 3})}}
    await turn(world, 100)
    for step in script:
        await perform(world, *step)
        await turn(world, 1)
    world.quiet_turns = 0
    for number in BROKERS:
        if number in cluster.brokers:
            cluster.brokers[number].is_deaf = False
        else:
            await start(cluster, number)
    for channel in cluster.channels:
        channel.deliver()
    wrong = ["not looked at"]
    for _ in range(400):
        await turn(world, 10)
        await world.write()
        wrong = list(world.unfinished())
        if not wrong or cluster.failures:
            break
    await cluster.close()
    assert not wrong, wrong


async def turn(world: World, turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
        world.quiet_turns += 1
        faults = [*world.faults(), *world.watch()] if world.wanted and world.cluster.exists(paths.topic("t")) else []
        assert not faults, faults


async def start(cluster: Cluster, number: int) -> None:
    await cluster.start_broker(number)
    cluster.start_controller_later(number)


async def perform(world: World, kind: str, *what: object) -> None:
    cluster = world.cluster
    if kind in {"start", "kill", "bounce", "cut"}:
        world.quiet_turns = 0
    match kind, *what:
        case ("turn", int() as turns):
            await turn(world, turns)
        case ("start", int() as number) if number not in cluster.brokers:
            await start(cluster, number)
        case ("kill", int() as number) if number in cluster.brokers:
            cluster.kill(number)
        case ("bounce", int() as number) if number in cluster.brokers:
            cluster.kill(number)
            await start(cluster, number)
        case ("deafen", int() as number, bool() as deaf) if number in cluster.brokers:
            cluster.brokers[number].is_deaf = deaf
            for channel in cluster.channels:
                channel.deliver()
        case ("cut", int() as number, bool() as applied) if number in cluster.brokers:
            cluster.zk.disconnect(cluster.brokers[number].session, apply_under_way=applied)
        case ("write",):
            await asyncio.wait_for(world.write(), 5)
        case ("move", TopicPartition() as at, tuple() as replicas):
            ask(world, at, replicas)
        case ("cancel", TopicPartition() as at):
            ask(world, at, None)
        case ("tool", TopicPartition() as at, tuple() as replicas):
            data = ReassignPartitions({at: replicas}).encode()
            try:
                await cluster.tool.write(Create(paths.REASSIGN_PARTITIONS, data))
            except NodeExists:
                return
            # It may be refused, or come to pass much later.
            world.wanted[at].add(frozenset(replicas))


def ask(world: World, at: TopicPartition, target: tuple[BrokerId, ...] | None) -> None:
    """Whether it was done is not known if the controller goes; what was known before may stand then too."""
    controller = active(world.cluster)
    if controller is None:
        return
    question = AlterReassignments({at: target})
    goal = frozenset(origin_of(world.assignment(at)) if target is None else target)
    world.wanted[at].add(goal)
    asked = asyncio.ensure_future(controller.ask(question))
    asked.add_done_callback(partial(_settle, world, at, goal))


def _settle(world: World, at: TopicPartition, goal: frozenset[int], asked: "asyncio.Future[Any]") -> None:
    if not asked.cancelled() and asked.exception() is not None:
        assert isinstance(asked.exception(), NotController)
