"""Leaders that are asked for: by administrators, by tools through a znode, by the balance between brokers.  [P]

A preferred election gives a partition to the first replica of its assignment, if that lives, stays and is in sync; the
in-sync set is unchanged. An unclean one gives a partition that nobody leads to a live replica, whatever that may lack.
The balance looks from time to time at each broker's share of the partitions that it is preferred for and that others
lead, and gives them back above a percentage; while any partition is being reassigned it leaves all as it is.
"""

from collections.abc import Collection, Iterable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from controller.actions import Report, SetTimer, Timer
from controller.elections import elect, elect_preferred
from controller.events import PreferredElectionsRead
from controller.office import Office, Procedure, batches
from controller.partitions import Decide, write_leaderships
from controller.questions import Elected, ElectionKind, Outcome
from controller.state import ClusterState, Leadership, Partition
from zk_schema import paths
from zk_schema.ops import Delete

FIRST_BALANCE_MS: Final = 5_000
"""After taking office; brokers that start together should have time to come."""

_LOOK_AT: Final = 2_000
"""Partitions that are counted before others have their turn."""

_ABSENT: Final = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
_GOING: Final = Outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
_NOT_NEEDED: Final = Outcome(ErrorCode.ELECTION_NOT_NEEDED, "The partition is led as it should be.")
_NO_PREFERRED: Final = Outcome(
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred replica is not alive or not in sync."
)
_NO_ELIGIBLE: Final = Outcome(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is alive.")


def on_elect(office: Office, kind: ElectionKind, partitions: Collection[TopicPartition]) -> Procedure[Elected]:
    """Elect leaders; answered when they stand in ZooKeeper and their brokers were told."""
    result = Elected()
    electable: list[TopicPartition] = []
    for batch in batches(dict.fromkeys(partitions)):
        for at in batch:
            refusal = _refuse(office.state, kind, at)
            if refusal is None:
                electable.append(at)
            else:
                result.refused[at] = refusal
        yield []
    preferred = kind is ElectionKind.PREFERRED
    decide = _preferred if preferred else _unclean
    for batch in batches(electable):
        changed = yield from _elect(office, batch, decide, reason=f"{kind.name.lower()} election")
        for at in batch:
            partition = office.state.partition(at)
            if at in changed and partition is not None and partition.leadership is not None:
                result.leaders[at] = partition.leadership.leader
            else:
                result.refused[at] = _NO_PREFERRED if preferred else _NO_ELIGIBLE
    return result


def on_znode(office: Office, read: PreferredElectionsRead) -> Procedure[None]:
    """A tool wrote /admin/preferred_replica_election: do it, then remove the znode."""
    result = yield from on_elect(office, ElectionKind.PREFERRED, read.partitions)
    told = ", ".join(f"{at} ({outcome.error.name})" for at, outcome in result.refused.items())
    path = paths.PREFERRED_REPLICA_ELECTION
    yield [
        Report(f"{path}: {len(result.leaders)} leaders elected{', not of ' if told else ''}{told}"),
        # Where a tool wrote it again meanwhile, that is read next.
        office.fenced(Delete(path, read.version), reason=f"{path} is done"),
    ]


def start_balance(office: Office) -> Procedure[None]:
    """On taking office."""
    if office.settings.auto_leader_rebalance_enable:
        yield [SetTimer(Timer.LEADER_BALANCE, FIRST_BALANCE_MS)]


def on_balance(office: Office) -> Procedure[None]:
    """Give back what others lead, where it is too much, and look again later."""
    state, settings = office.state, office.settings
    if not state.moving:
        displaced = yield from _displaced(office)
        for batch in batches(displaced):
            yield from _elect(office, batch, _preferred, reason="leaders are balanced")
    yield [SetTimer(Timer.LEADER_BALANCE, settings.leader_imbalance_check_interval_ms)]


class Balance:
    """Each broker's share of the partitions that it is preferred for, gathered a few partitions at a time."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._displaced: dict[BrokerId, list[TopicPartition]] = {}
        self._preferred: dict[BrokerId, int] = {}

    def look_at(self, partitions: Iterable[TopicPartition]) -> None:
        """Count these; what is being deleted does not count."""
        state = self._state
        for at in partitions:
            partition = state.partition(at)
            if partition is None or at.topic in state.deletions or at.topic in state.postponed_deletions:
                continue
            broker = partition.assignment.replicas[0]
            self._preferred[broker] = self._preferred.get(broker, 0) + 1
            if partition.leadership is not None and partition.leadership.leader != broker:
                self._displaced.setdefault(broker, []).append(at)

    def decide(self, *, percentage: int) -> list[TopicPartition]:
        """The partitions that go back: those of brokers that lead too few of what they should, where they can lead."""
        return [
            at
            for broker, displaced in self._displaced.items()
            if len(displaced) * 100 > percentage * self._preferred[broker]
            for at in displaced
            if _may_lead(self._state, at, broker)
        ]


def _displaced(office: Office) -> Procedure[list[TopicPartition]]:
    balance = Balance(office.state)
    for batch in batches(list(office.state.all_partitions()), _LOOK_AT):
        balance.look_at(batch)
        yield []
    return balance.decide(percentage=office.settings.leader_imbalance_per_broker_percentage)


def _may_lead(state: ClusterState, at: TopicPartition, broker: BrokerId) -> bool:
    partition = state.partition(at)
    return (
        partition is not None
        and partition.leadership is not None
        and broker in partition.leadership.isr
        # Of a set that died as a whole nobody is in sync until the rule for that has chosen (`last_replica`).
        and broker not in partition.stale
        and state.is_replica_eligible(at, broker)
    )


def _refuse(state: ClusterState, kind: ElectionKind, at: TopicPartition) -> Outcome | None:
    partition = state.partition(at)
    if partition is None:
        return _ABSENT
    if at.topic in state.deletions or at.topic in state.postponed_deletions:
        return _GOING
    leader = NO_LEADER if partition.leadership is None else partition.leadership.leader
    if kind is ElectionKind.PREFERRED:
        is_led = leader == partition.assignment.replicas[0]
    else:
        is_led = leader in state.brokers
    return _NOT_NEEDED if is_led else None


def _elect(
    office: Office, batch: list[TopicPartition], decide: Decide, *, reason: str
) -> Procedure[Iterable[TopicPartition]]:
    """The partitions that got another leader; their replicas and all brokers are told."""
    changed = yield from write_leaderships(office, batch, decide, reason=reason)
    for at in changed:
        partition = office.state.partition(at)
        assert partition is not None
        office.outbox.lead(at, office.state.live_replicas(at, partition))
        office.outbox.publish(at)
    office.changes += len(changed)
    yield office.flush()
    return changed


def _preferred(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    if not _may_lead(office.state, at, partition.assignment.replicas[0]):
        return None
    assert partition.leadership is not None
    return elect_preferred(partition.assignment.replicas, partition.leadership, office.state.term.epoch)


def _unclean(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
    if partition.leadership is None:
        return None
    elected = elect(
        partition.assignment.replicas,
        partition.leadership,
        office.state.live_replicas(at, partition),
        office.state.term.epoch,
        unclean=True,
        stale=partition.stale,
    )
    return None if elected is None or elected.leader == NO_LEADER else elected
