"""What must come about in a simulated cluster though faults go on elsewhere: leaders, replication, replicas in sync.

A machine is *well* while its broker serves, nothing of it is cut, slow, full or about to stop, and it is connected to
ZooKeeper. What follows needs only the machines that it is about, well without a break for its time:

- somebody holds the office of the controller, where anybody is well;
- a controller that is well writes a leader wherever a replica in sync is well, unless the last-replica defence waits;
- a leader that is well, as its controller is, knows that it leads;
- between a leader and an in-sync set that are all well, all that was appended becomes committed;
- a replica that is well is in sync again with a leader that is well, and who is gone, or cut off and behind, is not;
- a producer whose partition is so, and whose brokers are all well, is answered, and each of its requests in its time.

The bounds are generous: they are to find what never comes about.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from barnabas.protocol.ids import NO_LEADER, TopicPartition
from barnabas.simulation.machine import Machine
from barnabas.simulation.world import World
from barnabas.storage.log import Log
from replication.partition import Partition
from zk_schema import paths
from zk_schema.payloads import PartitionState

IN_OFFICE_S: Final = 10.0
ACTIVE_S: Final = 30.0
ELECTED_S: Final = 10.0
KNOWN_S: Final = 15.0
COMMITTED_S: Final = 20.0
IN_SYNC_S: Final = 30.0
ANSWERED_S: Final = 30.0
GONE_S: Final = 10.0
BEHIND_S: Final = 4.0
"""Beyond the time after which a replica that lags is looked for."""

SETTLED_S: Final = 10.0
"""All must have been well for so long when a request is sent that must be answered in its time."""
_SLOW_S: Final = 0.05
"""Where messages take so long on average, a leader that is written to all the time may stay ahead of its followers: a
fetch brings no more than one segment has."""

_RARE_SPIKES_S: Final = 0.006
"""Where messages are held up for longer than that on average, a request may take longer than its client waits."""

_OFFICE: Final = ("office is taken", "office is filled")


@dataclass(slots=True)
class _Lasting:
    """Something that has been the same for some time."""

    what: Hashable
    since_s: float
    told: bool = False


class Liveness:
    """Looks at a world and reports what did not come about in its time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._well: dict[int, float] = {}
        self._lasting: dict[Hashable, _Lasting] = {}
        self.looked = 0
        """How often something was due, and had come about."""

    def look(self) -> None:
        """To be called every now and then."""
        world, now_s = self._world, self._world.loop.now_s
        for number, machine in world.machines.items():
            if not self._is_well(machine):
                self._well[number] = now_s
            else:
                since_s = self._well.get(number, now_s)
                self._well[number] = max(since_s, world.disturbed_s.get(machine.host, 0.0))
        controller = self._controller()
        self._look_at_office(is_active=controller is not None)
        if controller is None:
            self._lasting = {name: known for name, known in self._lasting.items() if name in _OFFICE}
            return
        term_s = self._last("term", controller)
        held = {(machine.broker_id, part.topic_partition): part for machine, part in world.invariants.replicas()}
        for at in world.invariants.watched:
            state = world.invariants.state(at)
            if state is not None:
                self._led_since_s(at, state)
                self._look_at(at, state, held, controller, office_s=max(term_s, self._well[controller[0]]))

    def on_late(self, client: str, at: TopicPartition, sent_s: float) -> None:
        """A producer's request with acks=all was not answered in its time."""
        world = self._world
        weather, machines = world.wires.weather, world.machines
        has_spikes = weather.spike_chance * weather.spike_s > _RARE_SPIKES_S
        if has_spikes or not all(map(self._is_well, machines.values())):
            return
        since_s = max(max(self._well[each], world.disturbed_s.get(machines[each].host, 0.0)) for each in machines)
        state = world.invariants.state(at)
        if state is not None:
            # A follower asks its new leader when it has the answer that it waits for, with other partitions.
            since_s = max(since_s, self._led_since_s(at, state))
        replicas = [part for _, part in world.invariants.replicas() if part.topic_partition == at]
        is_held = any(each.throttled_as_leader or each.throttled_as_follower for each in replicas)
        if sent_s - since_s >= SETTLED_S and not is_held:
            waits = f"{client} was not answered from {sent_s:.3f} s on, though all are well since {since_s:.1f} s"
            world.violate(f"{at}: {state}: {waits}")

    # Who is well.

    def _is_well(self, machine: Machine) -> bool:
        return self._runs_well(machine) and not any(machine.host in way for way in self._world.wires.cuts)

    def _runs_well(self, machine: Machine) -> bool:
        """Whether it is well but for what is cut."""
        world, session = self._world, machine.session
        return (
            machine.is_serving
            and session is not None
            and session.is_connected
            and not (machine.is_pausing or machine.is_stopping or machine.has_lost_a_directory)
            and not machine.disk.is_troubled
            and machine.host not in world.surroundings.zookeeper_cuts
            and not any(machine.host in way for way in world.wires.slow_s)
            and world.zookeeper.tree.get(paths.broker(machine.broker_id)) is not None
        )

    def _controller(self) -> tuple[int, int] | None:
        """Who holds the office, and in which epoch."""
        for number, machine in self._world.machines.items():
            epoch = None if machine.broker is None else machine.broker.services.controller.controller_epoch
            if epoch is not None and epoch == self._world.invariants.controller_epoch:
                return number, epoch
        return None

    def _last(self, name: Hashable, what: Hashable) -> float:
        """Since when something has been what it is."""
        known = self._lasting.get(name)
        if known is None or known.what != what:
            known = self._lasting[name] = _Lasting(what, self._world.loop.now_s)
        return known.since_s

    def _led_since_s(self, at: TopicPartition, state: PartitionState) -> float:
        return self._last((at, "led"), state.leader_epoch)

    def _expect(
        self, name: Hashable, what: Hashable, holds: bool, told: str, *, since_s: float, within_s: float
    ) -> None:
        """`holds` must be true once `what` has lasted, and all else since `since_s`, for `within_s`."""
        since_s = max(since_s, self._last(name, what))
        known, now_s = self._lasting[name], self._world.loop.now_s
        if now_s - since_s < within_s or known.told:
            return
        if holds:
            self.looked += 1
        else:
            known.told = True
            self._world.violate(f"{told}, for {now_s - since_s:.1f} s")

    # What must come about.

    def _look_at_office(self, *, is_active: bool) -> None:
        """Somebody takes it once its znode is gone; who has the znode for longer than a session acts."""
        well = [self._well[number] for number, each in self._world.machines.items() if self._is_well(each)]
        since_s = min(well, default=self._world.loop.now_s)
        is_taken = self._world.zookeeper.tree.get(paths.CONTROLLER) is not None
        for name, holds, within_s in zip(_OFFICE, (is_taken, is_active), (IN_OFFICE_S, ACTIVE_S), strict=True):
            self._expect(name, holds, holds, "nobody is the controller", since_s=since_s, within_s=within_s)

    def _look_at(
        self,
        at: TopicPartition,
        state: PartitionState,
        held: dict[tuple[int, TopicPartition], Partition],
        controller: tuple[int, int],
        *,
        office_s: float,
    ) -> None:
        told = f"{at}: {state}"
        candidates = [number for number in state.isr if self._may_lead(at, number, held)]
        if candidates:
            is_led = (
                state.leader != NO_LEADER and self._world.zookeeper.tree.get(paths.broker(state.leader)) is not None
            )
            self._expect(
                (at, "elected"),
                is_led,
                is_led,
                f"{told}, though {candidates} could lead",
                since_s=max(office_s, min(self._well[number] for number in candidates)),
                within_s=ELECTED_S,
            )
        leader = held.get((state.leader, at))
        self._look_at_members(at, state, held, controller)
        if leader is None or not self._is_well(self._world.machines[state.leader]):
            return
        since_s = max(office_s, self._well[state.leader])
        knows = leader.is_leader and leader.leader_epoch == state.leader_epoch
        what = (state.leader_epoch, knows)
        self._expect((at, "known"), what, knows, f"{told}: its leader does not know", since_s=since_s, within_s=KNOWN_S)
        if knows:
            self._look_at_replication(at, state, leader, held, since_s)

    def _may_lead(self, at: TopicPartition, number: int, held: dict[tuple[int, TopicPartition], Partition]) -> bool:
        """Whether a member of the in-sync set is well, and its log is surely what it was."""
        machine, partition = self._world.machines.get(number), held.get((number, at))
        if machine is None or partition is None or partition.is_offline or not self._is_well(machine):
            return False
        # A disk that was full may not have taken the note of the last start that a broker believes its logs by. Where
        # one failed at a start its logs were missing, and what the cache held when a sync failed may be gone from it.
        return machine.boot == 0 and not machine.disk.full_hits and not machine.disk.failures

    def _look_at_replication(
        self,
        at: TopicPartition,
        state: PartitionState,
        leader: Partition,
        held: dict[tuple[int, TopicPartition], Partition],
        since_s: float,
    ) -> None:
        world, told = self._world, f"{at}: {state}"
        assignment = world.invariants.assignment(at.topic)
        replicas = () if assignment is None else assignment.partitions.get(at.partition, ())
        well = [number for number in replicas if self._is_well(world.machines[number]) and (number, at) in held]
        for number in well:
            is_held = leader.throttled_as_leader or held[number, at].throttled_as_follower
            if not is_held and world.wires.weather.mean_s < _SLOW_S:
                is_in = number in state.isr
                long_since_s = max(since_s, self._well[number])
                what = (state.leader_epoch, is_in)
                waits = f"{told}, and not broker {number}"
                self._expect((at, "in sync", number), what, is_in, waits, since_s=long_since_s, within_s=IN_SYNC_S)
        if not set(state.isr) <= set(well) or len(state.isr) < leader.min_in_sync_replicas:
            return
        since_s = max(since_s, *(self._well[number] for number in state.isr))
        self._look_at_progress(at, (state.leader_epoch, state.isr), leader.log, since_s)
        if all(map(self._is_well, world.machines.values())):
            since_s = max(since_s, *self._well.values())
            for (name, partition), asked_s in world.stage.waiting.items():
                if partition == at:
                    waits = f"{name} waits for an answer of {told}"
                    asked_s = max(asked_s, since_s)
                    self._expect((name, at), asked_s, False, waits, since_s=asked_s, within_s=ANSWERED_S)

    def _look_at_members(
        self,
        at: TopicPartition,
        state: PartitionState,
        held: dict[tuple[int, TopicPartition], Partition],
        controller: tuple[int, int],
    ) -> None:
        """Who is in sync as ZooKeeper has it, and may not be so for long."""
        leader = held.get((state.leader, at))
        for number in self._world.machines:
            if leader is None or number == state.leader or number not in state.isr:
                # Who comes back has its time anew.
                self._lasting.pop((at, "out", number), None)
            else:
                end_offset = held[number, at].log.log_end_offset if (number, at) in held else None
                is_behind = leader.is_leader and end_offset is not None and end_offset < leader.log.log_end_offset
                why, within_s = self._why_out(number, state.leader, controller[0], is_behind=is_behind)
                told = f"{at}: {state}, and broker {number} {why}"
                what = (state.leader_epoch, controller, why)
                self._expect((at, "out", number), what, not why, told, since_s=0.0, within_s=within_s)

    def _why_out(self, number: int, leader: int, controller: int, *, is_behind: bool) -> tuple[str, float]:
        """Why it should not be in sync, and how long it may be nevertheless; "" where it may be."""
        world = self._world
        machine, leading, office = (world.machines[each] for each in (number, leader, controller))
        if not self._runs_well(office):
            return "", 0.0
        if world.zookeeper.tree.get(paths.broker(number)) is None:
            return "is gone", GONE_S
        if not is_behind or not self._runs_well(leading) or self._is_cut(leading, office):
            return "", 0.0
        # It is looked for twice in that time.
        within_s = 1.5 * int(leading.settings.get("replica.lag.time.max.ms", 30_000)) / 1000 + BEHIND_S
        if machine.is_pausing:
            return "is behind and does not run", within_s
        return ("is behind and cut off", within_s) if self._is_cut(machine, leading) else ("", 0.0)

    def _is_cut(self, one: Machine, other: Machine) -> bool:
        cuts = self._world.wires.cuts
        return (one.host, other.host) in cuts or (other.host, one.host) in cuts

    def _look_at_progress(self, at: TopicPartition, key: Hashable, log: Log, since_s: float) -> None:
        """What was appended when the last aim was reached is the next aim."""
        known = self._lasting.get((at, "committed"))
        aim = log.log_end_offset
        if known is not None and isinstance(known.what, tuple) and known.what[0] == key:
            aim = known.what[1] if log.high_watermark < known.what[1] else aim
        told = f"{at}: {log.high_watermark} is committed and {aim} was appended, all in sync are well"
        is_done = log.high_watermark >= aim
        self._expect((at, "committed"), (key, aim), is_done, told, since_s=since_s, within_s=COMMITTED_S)
