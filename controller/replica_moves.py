"""Reassignments under way: begun, changed, cancelled, completed, taken over.  [P]

The order of the writes is what makes a reassignment survive its controller. A replica that has to leave is out of the
in-sync set before the topic's znode drops it, and nobody is told to remove a log before that; a replica that comes is
in the znode before anybody hears of it. So at every moment the in-sync set is part of the assignment, and whoever
takes over finds a reassignment that is under way, or done, or not begun.

    begin     confine in-sync set (who leaves) - topic znode - new leader epoch - LeaderAndIsr, StopReplica(delete)
    complete  confine in-sync set to the target, leader of the target - topic znode - LeaderAndIsr, StopReplica(delete)

A topic that is asked to be deleted while it moves is deleted when it has moved; until then a cancellation is the only
change that is accepted.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, NO_LEADER_EPOCH, BrokerId, TopicPartition
from controller import deletion, legacy_requests
from controller.actions import Action, ReadTopicConfig, Report
from controller.assignments import write_assignments
from controller.events import ReassignmentsRead, TopicConfigRead
from controller.office import Office, Procedure, batches
from controller.partitions import settle, write_leaderships
from controller.questions import DONE, Outcome, Outcomes
from controller.reassignment import (
    confine,
    find_fault,
    is_complete,
    leaving,
    origin_of,
    target_of,
    thins_out,
    toward,
    would_lose_records,
)
from controller.state import AskedMoves, Assignment, Leadership, Partition

Replicas = tuple[BrokerId, ...]

_REASON: Final = "reassignment"
_ABSENT: Final = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
_UNWRITTEN: Final = Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "The new replicas could not be written to ZooKeeper.")
_AT_REST: Final = Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being reassigned.")
_LOSES: Final = Outcome(
    ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Only replicas that would be removed are in sync: records would be lost."
)

_THINS: Final = Outcome(
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    "Fewer replicas in sync would stay than min.insync.replicas asks for: acknowledged records could be lost."
    " Wait until more of those that stay are in sync, or lower min.insync.replicas of the topic.",
)
_MIN_IN_SYNC: Final = "min.insync.replicas"


def on_alter(office: Office, targets: Mapping[TopicPartition, Replicas | None]) -> Procedure[Outcomes]:
    """What administrators ask for: each partition to its replicas, None cancels."""
    outcomes: Outcomes = {}
    wanted: dict[TopicPartition, Assignment] = {}
    for batch in batches(targets):
        for at in batch:
            decision = _decide(office, at, targets[at])
            if isinstance(decision, Outcome):
                outcomes[at] = decision
            else:
                wanted[at] = decision
        yield []
    outcomes.update((yield from begin(office, wanted)))
    yield from legacy_requests.forget(office, wanted)
    return {at: outcomes[at] for at in targets}


def on_znode(office: Office, read: ReassignmentsRead) -> Procedure[None]:
    """A tool wrote /admin/reassign_partitions: begin what has not begun, and take out what is done or cannot be."""
    state = office.state
    state.asked_moves = AskedMoves(read.targets, read.version)
    wanted: dict[TopicPartition, Assignment] = {}
    for batch in batches(read.targets):
        reports: list[Action] = []
        for at in batch:
            target = read.targets[at]
            partition = state.partition(at)
            present = Assignment(()) if partition is None else partition.assignment
            if present.is_moving and target_of(present) == target:
                continue
            # A broker that is away may be named: it gets its replica when it comes.
            fault = find_fault(present, target, live=target)
            decision = decide_target(office, at, target) if fault is None else None
            if isinstance(decision, Assignment):
                wanted[at] = decision
            else:
                told = fault if decision is None else decision.message
                reports.append(Report(f"{at} does not go to {list(target)} as a tool asks: {told}", severe=True))
        yield reports
    yield from begin(office, wanted)
    # What moves leaves the znode when it has moved.
    yield from legacy_requests.forget(office, [at for at in read.targets if at not in state.moving])


def listed(office: Office, partitions: Iterable[TopicPartition] | None) -> dict[TopicPartition, Assignment]:
    """Which of these, or of all, are being reassigned."""
    moving = office.state.moving
    found: dict[TopicPartition, Assignment] = {}
    for at in moving if partitions is None else partitions:
        partition = office.state.partition(at) if at in moving else None
        if partition is not None:
            found[at] = partition.assignment
    return found


def _decide(office: Office, at: TopicPartition, target: Replicas | None) -> Outcome | Assignment:
    partition = office.state.partition(at)
    present = Assignment(()) if partition is None else partition.assignment
    if target is None:
        if not present.is_moving:
            return _AT_REST
        target = origin_of(present)
    else:
        fault = find_fault(present, target, office.state.brokers)
        if fault is not None:
            return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
        if at.topic in office.state.postponed_deletions:
            return _ABSENT
    return decide_target(office, at, target)


def decide_target(office: Office, at: TopicPartition, target: Replicas) -> Outcome | Assignment:
    """How a partition can move to a target that is a list of different brokers."""
    partition = office.state.partition(at)
    if partition is None or at.topic in office.state.deletions:
        return _ABSENT
    wanted = toward(partition.assignment, target)
    return _LOSES if would_lose_records(partition.leadership, wanted) else wanted


def begin(office: Office, wanted: Mapping[TopicPartition, Assignment]) -> Procedure[Outcomes]:
    """Let partitions move to the targets of these assignments."""
    outcomes: Outcomes = {}
    for batch in batches(wanted):
        changes = {at: wanted[at] for at in batch if _partition(office, at).assignment != wanted[at]}
        begun = yield from _begin(office, changes)
        for at in batch:
            outcomes[at] = DONE if at in begun or at not in changes else _why_not(office, at, changes[at])
            if outcomes[at] is _THINS:
                refused = f"{at} does not go to {list(target_of(changes[at]))}: {_THINS.message}"
                yield [Report(refused, severe=True)]
    yield from on_isr_changed(office, wanted)
    # Where nobody leads, what is waited for may be another replica now, or none any more (`last_replica`).
    yield from settle(office, [at for at in wanted if _is_leaderless(office, at)], tell=(), reason=_REASON)
    # What was cancelled moves no more either.
    yield from deletion.on_moved(office, dict.fromkeys(at.topic for at in wanted))
    return outcomes


def _begin(office: Office, changes: Mapping[TopicPartition, Assignment]) -> Procedure[set[TopicPartition]]:
    """Those of the partitions that are under way to their new assignment, as ZooKeeper has it."""
    state = office.state
    leaves = {at: leaving(_partition(office, at).assignment, each) for at, each in changes.items()}
    yield from _learn_min_in_sync(office, [at for at in changes if leaves[at]])

    def without_leaving(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
        if _is_within(partition, changes[at]) or _thins_out(office, at, changes[at]):
            return None
        return _confined(office, at, partition, changes[at].replicas)

    stepping = [at for at in changes if leaves[at]]
    shrunk = yield from write_leaderships(office, stepping, without_leaving, reason=_REASON)
    safe = {at: each for at, each in changes.items() if _is_within(_partition(office, at), each)}
    begun = yield from write_assignments(office, safe, reason=_REASON)
    comes = {at: leaving(changes[at], _partition(office, at).assignment) for at in begun}
    reports: list[Action] = []
    for at in begun:
        state.apply_assignment(at, changes[at])
        reports.append(Report(f"{at} goes to {list(target_of(changes[at]))}: {_told(changes[at])}"))
    yield reports
    fresh = [at for at in begun if _partition(office, at).leadership is None]
    yield from settle(office, fresh, tell=(), reason=_REASON)
    waiting = [at for at in begun if at not in fresh and not _is_complete(office, at)]
    renewed = yield from write_leaderships(office, waiting, _renewed, reason=_REASON)
    for at in dict.fromkeys((*shrunk, *renewed)):
        _tell(office, at, new=comes.get(at, ()))
    for at in begun:
        _remove(office, at, leaves[at])
        office.outbox.publish(at)
    yield office.flush()
    return begun


def _learn_min_in_sync(office: Office, partitions: Iterable[TopicPartition]) -> Procedure[None]:
    """Read how many copies acknowledged records of these topics have."""
    names = list(dict.fromkeys(at.topic for at in partitions))
    if not names:
        return
    replies = yield [ReadTopicConfig(name) for name in names]
    for name, reply in zip(names, replies, strict=True):
        text = reply.values.get(_MIN_IN_SYNC, "") if isinstance(reply, TopicConfigRead) else ""
        # A tool may have written anything there; brokers take their own value then, too.
        office.state.topics[name].min_in_sync_replicas = int(text) if text.isdecimal() else None


def _thins_out(office: Office, at: TopicPartition, wanted: Assignment) -> bool:
    own = office.state.topics[at.topic].min_in_sync_replicas
    least = office.settings.min_insync_replicas if own is None else own
    return thins_out(_partition(office, at).leadership, wanted, least)


def _why_not(office: Office, at: TopicPartition, wanted: Assignment) -> Outcome:
    return _THINS if _thins_out(office, at, wanted) else _UNWRITTEN


def on_isr_changed(office: Office, partitions: Iterable[TopicPartition]) -> Procedure[None]:
    """Complete those of these partitions whose target is all in sync now."""
    candidates = [at for at in partitions if at in office.state.moving]
    for batch in batches(candidates):
        yield from _complete(office, [at for at in batch if _is_complete(office, at)])


def resume(office: Office) -> Procedure[None]:
    """After a takeover nobody knows whether all replicas of what is under way heard of it: they hear of it again."""
    for batch in batches(list(office.state.moving)):
        waiting = [at for at in batch if not _is_complete(office, at)]
        renewed = yield from write_leaderships(office, waiting, _renewed, reason="reassignment goes on")
        for at in renewed:
            _tell(office, at)
            office.outbox.publish(at)
        yield office.flush()
    yield from on_isr_changed(office, list(office.state.moving))


def _complete(office: Office, partitions: list[TopicPartition]) -> Procedure[None]:
    state = office.state
    if not partitions:
        return
    changed = yield from write_leaderships(office, partitions, _at_target, reason=_REASON)
    finals = {at: Assignment(target_of(_partition(office, at).assignment)) for at in changed}
    done = yield from write_assignments(
        office, {at: each for at, each in finals.items() if _is_within(_partition(office, at), each)}, reason=_REASON
    )
    reports: list[Action] = []
    for at in changed:
        if at in done:
            leaves = leaving(_partition(office, at).assignment, finals[at])
            state.apply_assignment(at, finals[at])
            _remove(office, at, leaves)
            reports.append(Report(f"{at} has moved to {list(finals[at].replicas)}"))
        _tell(office, at)
        office.outbox.publish(at)
    yield [*reports, *office.flush()]
    yield from legacy_requests.forget(office, done)
    yield from deletion.on_moved(office, dict.fromkeys(at.topic for at in done))


def _tell(office: Office, at: TopicPartition, *, new: Replicas = ()) -> None:
    """LeaderAndIsr to all live replicas; `new` ones have no log yet."""
    live = office.state.live_replicas(at, _partition(office, at))
    office.outbox.lead(at, [broker for broker in live if broker not in new])
    office.outbox.lead(at, [broker for broker in live if broker in new], is_new=True)


def _remove(office: Office, at: TopicPartition, brokers: Replicas) -> None:
    """Live replicas that left lose their logs. Others learn of it by the metadata, once back, if somebody leads.

    Where nobody leads, a log may be the last copy: live ones serve it no more, and remove it by the metadata too.
    """
    leadership = _partition(office, at).leadership
    epoch = NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch
    for broker in brokers:
        if _is_leaderless(office, at):
            office.outbox.stop(at, broker)
        elif broker in office.state.brokers:
            office.outbox.delete(at, broker, epoch)


def _partition(office: Office, at: TopicPartition) -> Partition:
    partition = office.state.partition(at)
    assert partition is not None, f"{at} is not known"
    return partition


def _is_leaderless(office: Office, at: TopicPartition) -> bool:
    partition = office.state.partition(at)
    return partition is not None and partition.leadership is not None and partition.leadership.leader == NO_LEADER


def _is_within(partition: Partition, assignment: Assignment) -> bool:
    """Whether the in-sync set is part of an assignment."""
    return partition.leadership is None or set(partition.leadership.isr) <= set(assignment.replicas)


def _is_complete(office: Office, at: TopicPartition) -> bool:
    partition = _partition(office, at)
    live = office.state.live_replicas(at, partition)
    return partition.assignment.is_moving and is_complete(partition.assignment, partition.leadership, live)


def _confined(office: Office, at: TopicPartition, partition: Partition, replicas: Replicas) -> Leadership | None:
    if partition.leadership is None or not set(partition.leadership.isr) & set(replicas):
        return None
    # Of a set that died as a whole nobody is in sync until the rule for that has chosen (`last_replica`).
    live = [broker for broker in office.state.live_replicas(at, partition) if broker not in partition.stale]
    epoch = office.state.term.epoch
    staying = [broker for broker in live if office.state.is_replica_eligible(at, broker)]
    confined = confine(partition.leadership, replicas, staying, epoch)
    # A broker that is about to stop leads only where nobody else can.
    return confined if confined.leader != NO_LEADER else confine(partition.leadership, replicas, live, epoch)


def _renewed(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    return _confined(office, at, partition, partition.assignment.replicas)


def _at_target(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    if not _is_complete(office, at):
        return None
    return _confined(office, at, partition, target_of(partition.assignment))


def _told(assignment: Assignment) -> str:
    return f"{list(assignment.adding)} come, {list(assignment.removing)} go"
