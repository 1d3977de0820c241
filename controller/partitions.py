"""Bringing partitions to the leadership they should have.  [P]

One procedure serves new topics, brokers that come and go, takeovers and failed directories: for each partition it asks
`elections` what should stand in ZooKeeper now, writes what differs, and only when ZooKeeper confirmed it tells the
replicas and everybody else. Each write names the version of the state znode that the decision was made from.

When a write is refused, or its outcome is not known because the connection went, the znode is read again and becomes
what is known. If it holds just what was to be written the write was done; else the decision is made anew. A znode that
a later controller wrote ends this term.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from controller import last_replica
from controller.actions import Action, ReadState, ReadTopicConfig, Report
from controller.elections import elect, elect_first
from controller.events import Confirmed, Refused, TopicConfigRead
from controller.office import LeaveOffice, Office, Procedure, batches
from controller.state import Leadership, Partition, ReplicaPhase, StateRead
from zk_schema import paths
from zk_schema.ops import Create, NodeExists, NodeMissing, Op, Set, VersionMoved, WriteRefused, Written

_UNCLEAN: Final = "unclean.leader.election.enable"
_MAX_ROUNDS: Final = 20
"""Reading and deciding again can fail only while somebody else keeps writing the same znode."""


def settle(
    office: Office, partitions: Iterable[TopicPartition], *, tell: Collection[BrokerId], reason: str
) -> Procedure[None]:
    """Elect where needed. All replicas hear of a change; the brokers in `tell` hear of their replicas in any case.

    What has no leader that is there comes first: nobody can write to it. All else waits for its in-sync set only.
    """
    leaderless: list[TopicPartition] = []
    led: list[TopicPartition] = []
    for number, batch in enumerate(batches(partitions)):
        if number:
            yield []
        for at in batch:
            (led if _is_led(office, at) else leaderless).append(at)
    for each in (leaderless, led):
        yield from _settle_in_order(office, each, tell=tell, reason=reason)


def _is_led(office: Office, at: TopicPartition) -> bool:
    partition = office.state.partition(at)
    if partition is None or partition.leadership is None:
        return False
    leader = partition.leadership.leader
    # One that started anew since has not been told that it leads.
    return leader not in partition.stale and office.state.is_replica_live(at, leader)


def _settle_in_order(
    office: Office, partitions: Iterable[TopicPartition], *, tell: Collection[BrokerId], reason: str
) -> Procedure[None]:
    state, outbox = office.state, office.outbox
    for batch in batches(office.not_in_deletion(partitions)):
        yield from _learn_unclean(office, batch)
        changed = yield from write_leaderships(office, batch, decide_now, reason=reason)
        for at in batch:
            partition = state.partition(at)
            if partition is None:
                continue
            state.apply_absences(at)
            _move_replicas(office, at, partition)
            serving = _serving(office, at, partition)
            if at in changed:
                outbox.lead(at, serving, is_new=changed[at])
            else:
                outbox.lead(at, [broker for broker in serving if broker in tell])
            outbox.publish(at)
            last_replica.inquire(office, at, partition)
        office.changes += len(changed)
        yield office.flush()


def _serving(office: Office, at: TopicPartition, partition: Partition) -> list[BrokerId]:
    """Who is to hear of a leadership: the replicas that are there and stay, and the leader in any case."""
    leader = NO_LEADER if partition.leadership is None else partition.leadership.leader
    live = office.state.live_replicas(at, partition)
    return [broker for broker in live if broker == leader or broker not in office.state.shutting_down]


def _move_replicas(office: Office, at: TopicPartition, partition: Partition) -> None:
    serving = _serving(office, at, partition)
    for broker in partition.assignment.replicas:
        if broker in serving:
            partition.move_replica(broker, ReplicaPhase.ONLINE)
            continue
        if partition.replicas.get(broker) is ReplicaPhase.ONLINE:
            # Its broker may be there without the disk.
            office.outbox.stop(at, broker)
        partition.move_replica(broker, ReplicaPhase.OFFLINE)


def _learn_unclean(office: Office, batch: Iterable[TopicPartition]) -> Procedure[None]:
    """Read whether topics allow unclean elections, those where it matters now."""
    names: dict[str, None] = {}
    for at in batch:
        partition = office.state.partition(at)
        if partition is None or partition.leadership is None:
            continue
        live = office.state.live_replicas(at, partition)
        if live and not any(each in live and each not in partition.stale for each in partition.leadership.isr):
            names[at.topic] = None
    if not names:
        return
    replies = yield [ReadTopicConfig(name) for name in names]
    for name, reply in zip(names, replies, strict=True):
        text = reply.values.get(_UNCLEAN) if isinstance(reply, TopicConfigRead) else None
        office.state.topics[name].unclean_leader_election = None if text is None else text.lower() == "true"


Decide = Callable[[Office, TopicPartition, Partition], Leadership | None]
"""What should stand in a partition's state znode now; None where nothing needs to change. Asked again after a race."""


def write_leaderships(
    office: Office, batch: Sequence[TopicPartition], decide: Decide, *, reason: str
) -> Procedure[dict[TopicPartition, bool]]:
    """Write what `decide` says. The partitions whose leadership was written, and whether it was their first."""
    changed: dict[TopicPartition, bool] = {}
    remaining: Sequence[TopicPartition] = batch
    for _ in range(_MAX_ROUNDS):
        wanted = _decide_all(office, remaining, decide)
        if not wanted:
            return changed
        replies = yield _writes(office, wanted, reason)
        doubtful: dict[TopicPartition, Leadership] = {}
        for (at, decision), reply in zip(wanted.items(), replies, strict=True):
            if isinstance(reply, Confirmed):
                version = reply.results[-1].stat.version if isinstance(reply.results[-1], Written) else 0
                changed[at] = _apply(office, at, StateRead(decision, version))
            elif not isinstance(reply, Refused) or _learn(office, at, reply.error):
                doubtful[at] = decision
            else:
                yield [Report(f"{reason}: {at} stays as it is: {reply.error}", severe=True)]
        if not doubtful:
            return changed
        remaining = yield from _read_again(office, doubtful, changed)
    yield [Report(f"{reason}: somebody else keeps writing: {', '.join(map(str, remaining))}", severe=True)]
    return changed


def _decide_all(
    office: Office, partitions: Iterable[TopicPartition], decide: Decide
) -> dict[TopicPartition, Leadership]:
    wanted = {}
    for at in partitions:
        partition = office.state.partition(at)
        decision = None if partition is None else decide(office, at, partition)
        if decision is not None:
            wanted[at] = decision
    return wanted


def decide_now(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    """By the rule for partitions that are new or whose brokers came or went."""
    state = office.state
    replicas, live = partition.assignment.replicas, state.live_replicas(at, partition)
    if partition.leadership is None:
        staying = [broker for broker in live if broker not in state.shutting_down]
        return elect_first(replicas, staying or live, state.term.epoch)
    unclean = state.topics[at.topic].unclean_leader_election
    return elect(
        replicas,
        partition.leadership,
        live,
        state.term.epoch,
        unclean=office.settings.unclean_leader_election_enable if unclean is None else unclean,
        stale=partition.stale,
        doubtful=last_replica.doubtful(office, partition),
        leaving=state.shutting_down,
        best=last_replica.best_log(office, at, partition),
    )


def _writes(office: Office, wanted: Mapping[TopicPartition, Leadership], reason: str) -> list[Action]:
    """One fenced write for each; the first of a new topic makes the parent of all of them too."""
    with_parent: set[str] = set()
    writes: list[Action] = []
    for at, leadership in wanted.items():
        topic = office.state.topics[at.topic]
        partition = topic.partitions[at.partition]
        path, data = paths.partition_state(at.topic, at.partition), office.state.with_epochs(leadership).encode()
        operations: list[Op] = []
        if partition.leadership is not None:
            operations.append(Set(path, data, partition.version))
        else:
            if not topic.has_partitions_znode and at.topic not in with_parent:
                with_parent.add(at.topic)
                operations.append(Create(paths.topic_partitions(at.topic), None))
            if not partition.has_znode:
                operations.append(Create(paths.partition(at.topic, at.partition), None))
            operations.append(Create(path, data))
        told = f"{reason}: {at} leader {leadership.leader} epoch {leadership.leader_epoch} isr {list(leadership.isr)}"
        writes.append(office.fenced(*operations, reason=told))
    return writes


def _apply(office: Office, at: TopicPartition, read: StateRead) -> bool:
    """Whether it is the partition's first leadership."""
    partition = office.state.partition(at)
    assert partition is not None
    is_first = partition.leadership is None
    office.state.apply_state(at, read)
    return is_first


def _learn(office: Office, at: TopicPartition, error: WriteRefused) -> bool:
    """Take from a refusal what it tells of the znodes above the state; whether another round can help."""
    topic = office.state.topics[at.topic]
    partition = topic.partitions[at.partition]
    path = error.operation.path
    parent, own = paths.topic_partitions(at.topic), paths.partition(at.topic, at.partition)
    match error:
        case NodeExists():
            topic.has_partitions_znode |= path in {parent, own}
            partition.has_znode |= path == own
            return True
        case NodeMissing() if path == parent:
            return False
        case NodeMissing():
            topic.has_partitions_znode &= path != own
            partition.has_znode = False
            return True
        case VersionMoved():
            return True
        case _:
            return False


def _read_again(
    office: Office, doubtful: Mapping[TopicPartition, Leadership], changed: dict[TopicPartition, bool]
) -> Procedure[list[TopicPartition]]:
    """Learn what stands in ZooKeeper; the partitions about which must be decided again."""
    questions: list[Action] = [ReadState(at) for at in doubtful]
    replies = yield questions
    again: list[TopicPartition] = []
    for (at, wanted), reply in zip(doubtful.items(), replies, strict=True):
        partition = office.state.partition(at)
        assert partition is not None
        if reply is None:
            if partition.leadership is None:
                again.append(at)
            else:
                yield [Report(f"{at} lost its state znode; it stays as it is", severe=True)]
            continue
        assert isinstance(reply, StateRead)
        check_state(office, at, reply)
        is_first = _apply(office, at, reply)
        if reply.leadership == wanted:
            changed[at] = is_first
        else:
            again.append(at)
    return again


def check_state(office: Office, at: TopicPartition, read: StateRead) -> None:
    """A state that a later controller wrote means that this one is in office no more."""
    written_by = read.leadership.controller_epoch
    if written_by > office.state.term.epoch:
        raise LeaveOffice(f"{at} was written by the controller of epoch {written_by}")
