"""Deleting topics.  [P]

A topic asked to be deleted loses its partitions first: all brokers forget them, and each live replica is told to stop
and to remove its log. When every replica answered that it did, the topic's znodes go, in one multi with its config and
the request, children before. A replica whose broker is gone, or that could not remove its log, makes the topic
ineligible: it stays half deleted and is tried again when such a broker comes (back). A topic in deletion is never
given a leader.

The deletion of a topic whose replicas move begins when they have moved, or when the moves are cancelled. Until then the
topic is served, and whoever asked for its deletion waits; Kafka hides it at once, and lets nobody cancel.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LEADER_EPOCH_DURING_DELETE, BrokerId, TopicPartition
from controller import legacy_requests
from controller.actions import Action, ReadTree, Report
from controller.commands import CommandResult, StopReplica
from controller.events import Confirmed
from controller.office import BATCH_PARTITIONS, Office, Procedure, batches
from controller.state import Partition, PartitionPhase, ReplicaPhase
from zk_schema import paths
from zk_schema.ops import Delete

_MAX_ROUNDS: Final = 20


def on_requests(office: Office, names: Collection[str]) -> Procedure[None]:
    """All requests that stand in ZooKeeper; one that waited and is not among them was taken back."""
    postponed = office.state.postponed_deletions
    for name in [name for name in postponed if name not in names]:
        del postponed[name]
    yield from request(office, names)


def request(office: Office, names: Iterable[str]) -> Procedure[None]:
    """Start the deletion of the topics that are asked to be deleted; erase requests that cannot be met."""
    state = office.state
    void: list[str] = []
    for name in names:
        if name in state.deletions or name in state.postponed_deletions:
            continue
        if name in state.topics and office.settings.delete_topic_enable:
            if is_moving(office, name):
                state.postponed_deletions[name] = None
                yield [Report(f"the deletion of {name} waits for its reassignment")]
                continue
            state.deletions[name] = None
            yield from start(office, name)
        else:
            void.append(name)
    if void:
        yield from _erase(office, void)


def _erase(office: Office, names: Sequence[str]) -> Procedure[None]:
    why = "the topic does not exist" if office.settings.delete_topic_enable else "delete.topic.enable is false"
    writes: list[Action] = [Report(f"requests to delete {', '.join(names)} are dropped: {why}")]
    writes += [
        office.fenced(Delete(paths.delete_topic(name)), reason=f"{name} is not deleted: {why}") for name in names
    ]
    # A request that somebody else erased, or that could not be erased now, is looked at again with the next one.
    yield writes


def is_moving(office: Office, name: str) -> bool:
    """Whether a partition of the topic is being reassigned, which its deletion waits for."""
    moving = office.state.moving
    return bool(moving) and any(at in moving for at, _ in office.state.partitions_of(name))


def on_moved(office: Office, names: Iterable[str]) -> Procedure[None]:
    """Reassignments of these topics ended: what waited for that begins."""
    for name in names:
        if name in office.state.postponed_deletions and not is_moving(office, name):
            del office.state.postponed_deletions[name]
            yield from request(office, [name])


def start(office: Office, name: str) -> Procedure[None]:
    """Send the live replicas of a topic in deletion away, those that are not gone yet."""
    state, waiting = office.state, set[BrokerId]()
    for batch in batches(list(state.partitions_of(name))):
        for at, partition in batch:
            _withdraw(office, at, partition)
            for broker, phase in partition.replicas.items():
                if phase in {ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL}:
                    continue
                partition.move_replica(broker, ReplicaPhase.OFFLINE)
                if state.is_replica_live(at, broker):
                    partition.move_replica(broker, ReplicaPhase.DELETION_STARTED)
                    office.outbox.delete(at, broker, LEADER_EPOCH_DURING_DELETE)
                else:
                    partition.move_replica(broker, ReplicaPhase.DELETION_INELIGIBLE)
                    waiting.add(broker)
        yield office.flush()
    if waiting:
        yield [Report(f"the deletion of {name} waits for brokers {sorted(waiting)}")]
    # All replicas may have gone before a takeover that was cut short.
    yield from _maybe_complete(office, name)


def _withdraw(office: Office, at: TopicPartition, partition: Partition) -> None:
    if partition.phase is not PartitionPhase.NON_EXISTENT:
        partition.move(PartitionPhase.OFFLINE)
        partition.move(PartitionPhase.NON_EXISTENT)
        office.outbox.forget(at, partition)


def on_brokers_gone(office: Office, partitions: Iterable[tuple[TopicPartition, BrokerId]]) -> None:
    """Replicas on brokers that went cannot answer any more."""
    for at, broker in partitions:
        partition = office.state.partition(at)
        if partition is not None and partition.replicas[broker] is ReplicaPhase.DELETION_STARTED:
            partition.move_replica(broker, ReplicaPhase.DELETION_INELIGIBLE)


def on_brokers_added(office: Office, brokers: Iterable[BrokerId]) -> Procedure[None]:
    """Try again what waited for these brokers."""
    held = (at.topic for broker in brokers for at in office.state.partitions_on.get(broker, ()))
    for name in dict.fromkeys(held):
        if name in office.state.deletions:
            yield from start(office, name)


def on_answer(office: Office, broker: BrokerId, command: StopReplica, result: CommandResult) -> Procedure[None]:
    """A broker removed logs, or could not."""
    touched: dict[str, None] = {}
    failed: list[str] = []
    for entry in command.partitions:
        partition = office.state.partition(entry.topic_partition)
        if not entry.delete or partition is None:
            continue
        if partition.replicas.get(broker) is not ReplicaPhase.DELETION_STARTED:
            continue
        error = result.of(entry.topic_partition)
        if error is ErrorCode.NONE:
            partition.move_replica(broker, ReplicaPhase.DELETION_SUCCESSFUL)
            touched[entry.topic] = None
        else:
            partition.move_replica(broker, ReplicaPhase.DELETION_INELIGIBLE)
            failed.append(f"{entry.topic_partition} ({error.name})")
    if failed:
        yield [Report(f"broker {broker} did not delete {', '.join(failed)}", severe=True)]
    for name in touched:
        yield from _maybe_complete(office, name)


def _maybe_complete(office: Office, name: str) -> Procedure[None]:
    """Remove the topic's znodes once no replica is left."""
    for _, partition in office.state.partitions_of(name):
        if any(phase is not ReplicaPhase.DELETION_SUCCESSFUL for phase in partition.replicas.values()):
            return
    for _ in range(_MAX_ROUNDS):
        roots = (paths.topic(name), paths.topic_config(name), paths.delete_topic(name))
        trees = yield [ReadTree(root) for root in roots]
        existing = [path for tree in trees if isinstance(tree, tuple) for path in tree]
        if not existing:
            break
        replies = yield _removals(office, name, existing=existing, roots=roots)
        if all(isinstance(reply, Confirmed) for reply in replies):
            break
    else:
        yield [Report(f"{name} is not deleted: its znodes keep changing", severe=True)]
        return
    gone = [at for at, _ in office.state.partitions_of(name)]
    office.state.apply_topic_gone(name)
    yield [Report(f"topic {name} is deleted")]
    yield from legacy_requests.forget(office, gone)


def _removals(office: Office, name: str, *, existing: Sequence[str], roots: Sequence[str]) -> list[Action]:
    """Fenced multis that remove what exists, children before parents, and the roots together at the end."""
    below = [path for path in reversed(existing) if path not in roots]
    last = [path for path in roots if path in existing]
    groups = [*batches(below, BATCH_PARTITIONS), last] if last else [*batches(below, BATCH_PARTITIONS)]
    return [office.fenced(*map(Delete, group), reason=f"{name}: {len(group)} znodes go") for group in groups]
