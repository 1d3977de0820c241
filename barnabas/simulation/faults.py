"""What befalls a simulated cluster, drawn: each kind of fault picks its target and its time, acts, and heals itself.

What may be lost is bounded by what is promised. A fault that makes a machine forget acknowledged bytes acts only while
no other machine still lacks what it lost (`Damage`), unless every append was synced before it was acknowledged. All
other faults act at any time, on any number of machines.
"""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.machine import Machine
from barnabas.simulation.moments import Moment
from barnabas.simulation.world import World
from replication.partition import Partition
from zk_schema import paths


class Damage:
    """Which machines lost bytes that they had acknowledged, and have not got them back from others yet."""

    def __init__(self, world: World, *, may_lose_all: bool, may_lose_one: bool) -> None:
        self._world = world
        self.may_lose_all = may_lose_all
        self._may_lose_one = may_lose_one
        self._tainted: dict[int, None] = {}

    def may_lose(self, number: int) -> bool:
        """Whether this machine may forget now what it did not sync."""
        if self.may_lose_all:
            return True
        self._forget_healed()
        return self._may_lose_one and all(other == number for other in self._tainted)

    def may_rot(self, number: int) -> bool:
        """Whether bytes of this machine may go bad now: all others have what it has, and go on having it."""
        self._forget_healed()
        return self._may_lose_one and all(other == number for other in self._tainted)

    def lost(self, number: int) -> None:
        self._tainted[number] = None

    def _forget_healed(self) -> None:
        for number in list(self._tainted):
            if self._is_whole(self._world.machines[number]):
                del self._tainted[number]

    def _is_whole(self, machine: Machine) -> bool:
        """Every replica of it is in sync and holds all that was ever committed."""
        invariants = self._world.invariants
        invariants.compare_logs()
        if machine.broker is None or self._world.rot.stands_on(machine):
            return False
        for at in invariants.watched:
            assignment, state = invariants.assignment(at.topic), invariants.state(at)
            if assignment is None or machine.broker_id not in assignment.partitions.get(at.partition, ()):
                continue
            if state is None or machine.broker_id not in state.isr or not self._holds_all(machine, at):
                return False
        return True

    def _holds_all(self, machine: Machine, at: TopicPartition) -> bool:
        assert machine.broker is not None
        partition = machine.broker.services.replicas.partition(at)
        committed = self._world.invariants.committed.get(at)
        leader = self._end_of_leader(at)
        if partition is None or leader is None or partition.is_offline:
            return False
        end = partition.log.log_end_offset
        return end >= leader and (committed is None or end >= committed.end)

    def _end_of_leader(self, at: TopicPartition) -> int | None:
        """Up to where the true leader has told that all is committed; None when nobody leads."""
        state = self._world.invariants.state(at)
        for machine, partition in self._world.invariants.replicas():
            if partition.topic_partition == at and state is not None and state.leader == machine.broker_id:
                return partition.log.high_watermark
        return None


@dataclass(slots=True)
class Storm:
    """The faults of one seed; in the hands of one fault, with the chance of that fault."""

    world: World
    chance: random.Random
    damage: Damage
    mean_length_s: float = 5.0
    max_at_once: int = 2
    busy: dict[int, None] = field(default_factory=dict)
    running: list["asyncio.Task[None]"] = field(default_factory=list)

    async def rage(self, strikes: Iterable[Moment]) -> None:
        """Let faults happen, from now on, and return when all of them have healed."""
        loop = self.world.loop
        began_s = loop.now_s
        for at_s, kind, chance in strikes:
            await asyncio.sleep(max(0.0, began_s + at_s - loop.now_s))
            self.running = [task for task in self.running if not task.done()]
            if len(self.running) < self.max_at_once:
                storm = replace(self, chance=random.Random(chance))
                self.running.append(asyncio.ensure_future(KINDS[kind](storm)))
        await asyncio.gather(*self.running)

    def length_s(self, scale: float = 1.0) -> float:
        return self.chance.expovariate(1 / (self.mean_length_s * scale)) + 0.05

    def idle_machine(self) -> int | None:
        """A machine that no other fault has in its hands."""
        free = [number for number, machine in self.world.machines.items() if number not in self.busy and machine.is_up]
        return self.chance.choice(free) if free else None

    async def holding(self, fault: Callable[[int], Awaitable[None]]) -> None:
        """Have a machine for one fault alone."""
        number = self.idle_machine()
        if number is not None:
            self.busy[number] = None
            try:
                await fault(number)
            finally:
                del self.busy[number]


# Processes and machines.


async def crash(storm: Storm) -> None:
    """SIGKILL and a new start."""

    async def act(number: int) -> None:
        storm.world.kill(number)
        await asyncio.sleep(storm.length_s())
        storm.world.start(number)

    await storm.holding(act)


async def lose_power(storm: Storm) -> None:
    """The machine forgets what it did not sync."""

    async def act(number: int) -> None:
        if storm.damage.may_lose(number):
            storm.damage.lost(number)
            storm.world.power_cut(number, keep_some=storm.chance.random() < 0.7)
            await asyncio.sleep(storm.length_s())
            storm.world.start(number)

    await storm.holding(act)


async def crash_in_a_write(storm: Storm) -> None:
    """The process ends in the middle of one of its next changes of the disk."""

    async def act(number: int) -> None:
        world, machine = storm.world, storm.world.machines[number]
        life = machine.life
        world.crash_in_change(number, storm.chance.randrange(30))
        await world.until(lambda: machine.life is not life, timeout_s=15)
        await asyncio.sleep(storm.length_s())
        machine.disk.crash_no_more()
        world.start(number)

    await storm.holding(act)


async def kill_all(storm: Storm) -> None:
    """Every broker at once; they come back one after the other."""
    await _end_all(storm, storm.world.kill)


async def lose_power_everywhere(storm: Storm) -> None:
    """Every machine at once forgets what it did not sync; only where every append was."""
    if storm.damage.may_lose_all:
        await _end_all(storm, storm.world.power_cut)


async def _end_all(storm: Storm, end: Callable[[int], object]) -> None:
    world = storm.world
    if storm.busy:
        return
    numbers = list(world.machines)
    storm.busy.update(dict.fromkeys(numbers))
    try:
        for number in numbers:
            end(number)
        storm.chance.shuffle(numbers)
        for number in numbers:
            await asyncio.sleep(storm.length_s(0.3))
            world.start(number)
    finally:
        storm.busy.clear()


async def stop(storm: Storm) -> None:
    """SIGTERM and a new start."""

    async def act(number: int) -> None:
        if await storm.world.stop(number):
            await asyncio.sleep(storm.length_s(0.5))
            storm.world.start(number)

    await storm.holding(act)


async def pause(storm: Storm) -> None:
    """SIGSTOP, for less or more than the session's timeout."""

    async def act(number: int) -> None:
        storm.world.pause(number)
        await asyncio.sleep(storm.length_s())
        storm.world.resume(number)

    await storm.holding(act)


async def jump_clock(storm: Storm) -> None:
    """The wall clock of a machine jumps, either way."""
    machine = storm.world.machines[storm.chance.choice(list(storm.world.machines))]
    machine.wall.offset_ms += storm.chance.randint(-3_600_000, 3_600_000)
    storm.world.tell(f"clock of {machine.host} jumps")
    storm.world.acted["clock jump"] += 1


# Network.


async def isolate(storm: Storm) -> None:
    """One broker is cut off: from everybody or from brokers alone, but not from ZooKeeper."""
    world, chance = storm.world, storm.chance
    number = chance.choice(list(world.machines))
    host = world.machines[number].host
    others = [each for each in world.hosts if each != host]
    if chance.random() < 0.4:
        others = [each for each in others if each.startswith("broker")]
    await _cut(storm, [(host, each) for each in others] + [(each, host) for each in others], "partition")


async def cut_one_way(storm: Storm) -> None:
    """From one broker nothing reaches another, or all others; the way back is open."""
    world, chance = storm.world, storm.chance
    source, target = chance.sample([machine.host for machine in world.machines.values()], 2)
    ways = [(source, target)]
    if chance.random() < 0.4:
        ways = [(source, each) for each in world.hosts if each != source]
    if chance.random() < 0.5:
        ways = [(there, here) for here, there in ways]
    await _cut(storm, ways, "one-way partition")


async def _cut(storm: Storm, ways: list[tuple[str, str]], name: str) -> None:
    world = storm.world
    hits_before = world.wires.cut_hits
    for source, target in ways:
        world.cut(source, target)
    await asyncio.sleep(storm.length_s(1.5))
    for source, target in ways:
        world.heal(source, target)
    if world.wires.cut_hits > hits_before:
        world.acted[name] += 1


async def cut_off_entirely(storm: Storm) -> None:
    """One broker reaches nobody, ZooKeeper neither."""
    number = storm.chance.choice(list(storm.world.machines))
    storm.world.cut_zookeeper(number)
    host = storm.world.machines[number].host
    others = [each for each in storm.world.hosts if each != host]
    await _cut(storm, [(host, each) for each in others] + [(each, host) for each in others], "partition")
    storm.world.heal_zookeeper(number)


async def slow_links(storm: Storm) -> None:
    """Some ways take long."""
    world, chance = storm.world, storm.chance
    hosts = world.hosts
    pairs = [(one, other) for one in hosts for other in hosts if one != other and chance.random() < 0.4]
    ways = {pair: chance.uniform(0.02, 1.5) for pair in pairs}
    hits_before = world.wires.slow_hits
    world.slow(ways)
    await asyncio.sleep(storm.length_s(1.5))
    world.quicken(ways)
    if world.wires.slow_hits > hits_before:
        world.acted["slow links"] += 1


async def reset(storm: Storm) -> None:
    """Connections between two hosts break."""
    one, other = storm.chance.sample(storm.world.hosts, 2)
    storm.world.reset(one, other)


# ZooKeeper.


async def expire_session(storm: Storm) -> None:
    """ZooKeeper ends a session."""
    storm.world.expire_session(storm.chance.choice(list(storm.world.machines)))


async def chase_leaders(storm: Storm) -> None:
    """A partition's leader loses its session, and the next: each at once, or when its records have reached some or all.

    So epochs come about without records, and with records that only one follower has.
    """
    world, chance, invariants = storm.world, storm.chance, storm.world.invariants
    at = chance.choice(list(invariants.watched))

    def leader() -> tuple[Machine, Partition] | None:
        return next((each for each in invariants.replicas_of(at) if invariants.is_true_leader(*each)), None)

    def have_reached(which: str) -> bool:
        found = leader()
        if found is None or which == "nobody":
            return found is not None
        partition, leadership = found[1], found[1].leadership
        ends = [part.log.log_end_offset for _, part in invariants.replicas_of(at) if part is not partition]
        if leadership is None or which == "some":
            return leadership is not None and sum(end > leadership.epoch_start_offset for end in ends) == 1
        return set(partition.isr) == set(partition.replicas) and set(ends) == {partition.log.log_end_offset}

    for _ in range(chance.randint(2, 6)):
        which = chance.choice(["nobody", "some", "all"])
        await world.until(lambda: have_reached(which), timeout_s=5, step_s=0.005)  # noqa: B023 - within the turn
        found = leader()
        if found is not None:
            world.expire_session(found[0].broker_id)
            await world.until(lambda: leader() not in (found, None), timeout_s=5, step_s=0.005)  # noqa: B023


async def break_zookeeper_connection(storm: Storm) -> None:
    """A connection breaks, best when a write is under way: done or not, nobody says."""
    world, chance = storm.world, storm.chance
    number = chance.choice(list(world.machines))
    machine = world.machines[number]
    await world.until(
        lambda: machine.session is not None and machine.session.writes_under_way > 0, timeout_s=6, step_s=0.002
    )
    world.lose_zookeeper_connection(number, apply_under_way=chance.random() < 0.5)


async def break_at_write(storm: Storm) -> None:
    """A connection breaks exactly at a write, done or not: most often the controller's, with a cause to write."""
    world, chance = storm.world, storm.chance
    path = chance.choice(_WRITTEN)
    number = chance.choice(list(world.machines))
    controllers = [number for number, machine in world.machines.items() if machine.is_controller]
    if controllers and path != paths.BROKER_IDS:
        number = chance.choice(controllers)
    is_done, skip = chance.random() < 0.5, chance.choice([0, 0, 0, 1, 3])
    hold_s = storm.length_s(1.5) if chance.random() < 0.25 else 0.0
    other = chance.choice([each for each in world.machines if each != number])
    # Nobody knows who will be the first to stand for election.
    is_election = path == paths.CONTROLLER
    breaking = asyncio.gather(
        *(
            world.break_at_write(each, path, is_done=is_done, hold_s=hold_s, wait_s=8, skip=0 if is_election else skip)
            for each in (world.machines if is_election else [number])
        )
    )
    match chance.choice(["wait", "expire", "expire", "kill"]):
        case "expire":
            world.expire_session(number if is_election or path == paths.BROKER_IDS else other)
        case "kill" if other not in storm.busy:
            storm.busy[other] = None
            world.kill(other)
            await breaking
            await asyncio.sleep(storm.length_s(0.5))
            world.start(other)
            del storm.busy[other]
    await breaking


_WRITTEN: Final = (paths.BROKER_TOPICS, paths.BROKER_TOPICS, paths.CONTROLLER, paths.BROKER_IDS, "")


async def cut_from_zookeeper(storm: Storm) -> None:
    """A broker reaches everybody but ZooKeeper."""
    number = storm.chance.choice(list(storm.world.machines))
    storm.world.cut_zookeeper(number)
    await asyncio.sleep(storm.length_s(2))
    storm.world.heal_zookeeper(number)


async def lose_quorum(storm: Storm) -> None:
    """ZooKeeper serves nobody for a while."""
    if storm.world.zookeeper.is_running:
        storm.world.stop_zookeeper()
        await asyncio.sleep(storm.length_s(2))
        storm.world.start_zookeeper()


# Disks.


_DISK_OPERATIONS: Final = ("pwrite", "pwrite", "fsync", "rename", "truncate", "open", "remove", "fsync_directory")


async def fail_disk(storm: Storm) -> None:
    """One log directory fails, by an error or because the disk is full; later the broker starts on a mended one."""

    async def act(number: int) -> None:
        world, chance = storm.world, storm.chance
        path = chance.choice(world.machines[number].settings["log.dirs"].split(","))
        operation = chance.choice(_DISK_OPERATIONS)
        code = errno.ENOSPC if operation == "pwrite" and chance.random() < 0.5 else errno.EIO
        await world.fail_disk(number, path, operation, code, heals_after_s=storm.length_s(2))

    await storm.holding(act)


async def fill_disk(storm: Storm) -> None:
    """A machine's disk is full in the middle of a write; later there is room and the broker starts again."""

    async def act(number: int) -> None:
        await storm.world.fill_disk(number, room_bytes=storm.chance.randrange(4_000), lasts_s=storm.length_s(2))

    await storm.holding(act)


async def slow_disk(storm: Storm) -> None:
    """Every operation in one log directory takes long."""

    async def act(number: int) -> None:
        machine = storm.world.machines[number]
        path = storm.chance.choice(machine.settings["log.dirs"].split(","))
        await storm.world.slow_disk(number, path, seconds=storm.chance.uniform(0.005, 0.2), lasts_s=storm.length_s())

    await storm.holding(act)


KINDS: Final[Mapping[str, Callable[[Storm], Awaitable[None]]]] = {
    "crash": crash,
    "power": lose_power,
    "crash in a write": crash_in_a_write,
    "kill all": kill_all,
    "power all": lose_power_everywhere,
    "stop": stop,
    "pause": pause,
    "clock": jump_clock,
    "isolate": isolate,
    "cut off": cut_off_entirely,
    "one way": cut_one_way,
    "slow links": slow_links,
    "reset": reset,
    "expire": expire_session,
    "chase": chase_leaders,
    "connection": break_zookeeper_connection,
    "write": break_at_write,
    "zookeeper cut": cut_from_zookeeper,
    "quorum": lose_quorum,
    "disk": fail_disk,
    "full": fill_disk,
    "slow disk": slow_disk,
}
