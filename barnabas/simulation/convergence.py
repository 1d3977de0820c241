"""When a simulated cluster is whole: every partition led, every replica in sync and at one end, nothing left undone."""

from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.world import World
from zk_schema import paths

LED_S: Final = 10.0
IN_SYNC_S: Final = 60.0


class Recovery:
    """How long after the last fault every partition was led, and every replica in sync (promise P6).

    A fault lasts as long as ZooKeeper takes those for alive whom it ended; the first bound begins then. A slow disk
    lasts until what was begun on it is done.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._since_s = self._ended_s = world.loop.now_s
        self.led_after_s: float | None = None
        """From the end of the last fault and of the sessions that it left behind."""

        self.in_sync_after_s: float | None = None
        """From the end of the last fault."""

        self._late: set[str] = set()

    def look(self) -> None:
        """To be called every now and then, from the last fault on."""
        now_s = self._world.loop.now_s
        lives = [machine.life for machine in self._world.machines.values() if machine.life is not None]
        if any(life.busy_until_s > now_s for life in lives):
            self._since_s = self._ended_s = now_s
        if self.led_after_s is None:
            if self._world.zookeeper.has_sessions_without_client:
                self._ended_s = now_s
            self.led_after_s = self._judge("led", leaderless(self._world), now_s - self._ended_s, LED_S)
        elif self.in_sync_after_s is None:
            why_not = _out_of_sync(self._world)
            self.in_sync_after_s = self._judge("in sync", why_not, now_s - self._since_s, IN_SYNC_S)

    def _judge(self, what: str, why_not: str, after_s: float, within_s: float) -> float | None:
        """The seconds that it took, once it is so."""
        if not why_not:
            return after_s
        if after_s > within_s and what not in self._late:
            self._late.add(what)
            self._world.violate(f"not all are {what} {within_s:.0f} s after the last fault: {why_not}")
        return None


def _out_of_sync(world: World) -> str:
    for at in world.invariants.watched:
        assignment, state = world.invariants.assignment(at.topic), world.invariants.state(at)
        replicas = () if assignment is None else assignment.partitions.get(at.partition, ())
        if state is None or not set(replicas) <= set(state.isr):
            return f"{at}: {state} of {replicas}"
    return ""


def leaderless(world: World) -> str:
    """A partition that nobody leads; empty when there is none."""
    leading = {
        (partition.topic_partition, partition.leader_epoch)
        for _, partition in world.invariants.replicas()
        if partition.is_leader
    }
    for at in world.invariants.watched:
        state = world.invariants.state(at)
        if state is None or (at, state.leader_epoch) not in leading:
            return f"{at}: {state}"
    return ""


def why_not_converged(world: World) -> str:
    """What keeps the cluster from being whole; empty when nothing does."""
    for machine in world.machines.values():
        if not machine.is_serving:
            return f"{machine.host} does not serve ({machine.last_failure or 'it starts'})"
    if not any(machine.broker and machine.broker.services.controller.is_active for machine in world.machines.values()):
        return "nobody is the controller"
    held = {(machine.broker_id, part.topic_partition): part for machine, part in world.invariants.replicas()}
    for at in world.invariants.watched:
        assignment, state = world.invariants.assignment(at.topic), world.invariants.state(at)
        if assignment is None or state is None or state.leader == -1:
            return f"{at} has no leader: {state}"
        replicas = assignment.partitions[at.partition]
        if assignment.adding_replicas.get(at.partition) or assignment.removing_replicas.get(at.partition):
            return f"{at}: its replicas still move: {assignment}"
        if set(state.isr) != set(replicas):
            return f"{at}: ISR {state.isr} of {replicas}, leader {state.leader} epoch {state.leader_epoch}"
        leader = held.get((state.leader, at))
        if leader is None or not leader.is_leader or leader.leader_epoch != state.leader_epoch:
            return f"{at}: broker {state.leader} does not know that it leads in epoch {state.leader_epoch}"
        end = leader.log.log_end_offset
        for replica in replicas:
            there = held.get((replica, at))
            if there is None or (there.log.log_end_offset, there.log.high_watermark) != (end, end):
                told = None if there is None else (there.log.log_end_offset, there.log.high_watermark)
                return f"{at}: broker {replica} is at {told}, the leader at {end}"
    return world.rot.standing() or _known_damage(world) or _left_of_deleted_topics(world) or _told_otherwise(world)


def _known_damage(world: World) -> str:
    """What a broker knows to be damaged."""
    for machine, partition in world.invariants.replicas():
        for damaged in partition.log.damage if partition.topic_partition in world.invariants.watched else ():
            return f"{partition.topic_partition} on {machine.host} is damaged: {damaged}"
    return ""


def _told_otherwise(world: World) -> str:
    """What a broker tells clients of that is not in ZooKeeper, or has another leader there."""
    topics = world.zookeeper.tree.children(paths.BROKER_TOPICS) or []
    states = {}
    for topic in topics:
        assignment = world.invariants.assignment(topic)
        for number in () if assignment is None else assignment.partitions:
            at = TopicPartition(topic, number)
            state = world.invariants.state(at)
            if state is not None:
                states[at] = (state.leader, state.leader_epoch)
    for machine in world.machines.values():
        if machine.broker is None:
            return f"{machine.host} is down"
        told = {each.topic_partition: (each.leader, each.leader_epoch) for each in machine.broker.services.metadata}
        for at in {**told, **states}:
            if told.get(at) != states.get(at):
                return f"{at}: {machine.host} tells of {told.get(at)}, ZooKeeper of {states.get(at)}"
    return ""


def _left_of_deleted_topics(world: World) -> str:
    """What is there of a topic that was deleted."""
    tree = world.zookeeper.tree
    if waiting := tree.children(paths.DELETE_TOPICS):
        return f"still to be deleted: {waiting}"
    topics = tree.children(paths.BROKER_TOPICS) or []
    for machine, partition in world.invariants.replicas():
        at = partition.topic_partition
        assignment = world.invariants.assignment(at.topic) if at.topic in topics else None
        if assignment is None or machine.broker_id not in assignment.partitions.get(at.partition, ()):
            return f"{at}: broker {machine.broker_id} still has a replica"
    return ""
