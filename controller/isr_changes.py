"""Other in-sync sets, as leaders ask for them (AlterPartition; KIP-497).  [P]

A leader proposes from the leader epoch and the version of the state znode that it knows. What passes is written under
that version, one fenced write per partition, all of a batch together; the leader epoch stays. Everybody hears of it by
UpdateMetadata, the leader by the answer. A proposal that is what stands already is answered as done: the answer to an
earlier one may have been lost.

Beyond 2.7: a member that would be added must be alive, not on its way out (KAFKA-14140), and not have started anew
since the leader heard from it (KIP-903); and the answer to a wrong version carries what stands in ZooKeeper, so that a
leader that is still the leader can go on from there (KAFKA-2729).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, TopicPartition
from controller.actions import Action, Answer, ReadState, Report
from controller.commands import (
    UNKNOWN_BROKER_EPOCH,
    AlterPartition,
    AlterPartitionItem,
    AlterPartitionOutcome,
    AlterPartitionResult,
)
from controller.events import Confirmed, Reply, Unknown
from controller.office import Office, Procedure, batches
from controller.partitions import check_state
from controller.replica_moves import on_isr_changed
from controller.resignations import resign
from controller.state import ClusterState, Leadership, StateRead
from zk_schema import paths
from zk_schema.ops import Set, Written

_MAY_RESIGN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.INELIGIBLE_REPLICA})
"""What the set of a leader that resigns may be: it stays as the controller knows it."""


def on_alter_partition(office: Office, token: int, request: AlterPartition) -> Procedure[None]:
    """Answer one broker's request."""
    registered = office.state.brokers.get(request.broker_id)
    if registered is None or registered.epoch != request.broker_epoch:
        yield [Answer(token, AlterPartitionResult(ErrorCode.STALE_BROKER_EPOCH))]
        return
    result = AlterPartitionResult()
    changed: list[TopicPartition] = []
    for batch in batches(request.partitions):
        wanted: list[tuple[AlterPartitionItem, Leadership]] = []
        resigned: list[TopicPartition] = []
        for item in batch:
            decision = decide_isr(office.state, request, item)
            if item.resigns and (isinstance(decision, Leadership) or decision.error_code in _MAY_RESIGN):
                resigned.append(item.topic_partition)
            elif isinstance(decision, AlterPartitionOutcome):
                result.partitions[item.topic_partition] = decision
            else:
                wanted.append((item, decision))
        changed += yield from _write(office, wanted, result)
        if resigned:
            yield from resign(office, request.broker_id, resigned, result)
        yield office.flush()
    yield [Answer(token, result)]
    yield from on_isr_changed(office, changed)


def decide_isr(
    state: ClusterState, request: AlterPartition, item: AlterPartitionItem
) -> AlterPartitionOutcome | Leadership:
    """The answer, or what is to be written."""
    at = item.topic_partition
    partition = state.partition(at)
    if partition is None or partition.leadership is None or at.topic in state.deletions:
        return AlterPartitionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = partition.leadership
    if item.leader_epoch < present.leader_epoch:
        return AlterPartitionOutcome(ErrorCode.FENCED_LEADER_EPOCH)
    if item.leader_epoch > present.leader_epoch:
        # Only a later controller can have given it, one that we do not know of yet.
        return AlterPartitionOutcome(ErrorCode.NOT_CONTROLLER)
    members = set(item.new_isr)
    if present.leader != request.broker_id or len(members) != len(item.new_isr):
        return AlterPartitionOutcome(ErrorCode.INVALID_REQUEST)
    if present.leader not in members or not members.issubset(partition.assignment.replicas):
        return AlterPartitionOutcome(ErrorCode.INVALID_REQUEST)
    standing = _standing(StateRead(present, partition.version))
    if members == set(present.isr):
        return standing
    if item.zk_version != partition.version:
        return replace(standing, error_code=ErrorCode.INVALID_UPDATE_VERSION)
    if not all(may_join(state, at, broker, item.joiner_epoch) for broker in members.difference(present.isr)):
        return replace(standing, error_code=ErrorCode.INELIGIBLE_REPLICA)
    return replace(present, isr=item.new_isr, controller_epoch=state.term.epoch)


def may_join(state: ClusterState, at: TopicPartition, broker: BrokerId, joiner_epoch: BrokerEpoch) -> bool:
    """Whether a replica is alive, stays, and is still the start of its broker that the leader heard (KIP-903)."""
    if not state.is_replica_eligible(at, broker):
        return False
    return joiner_epoch in (UNKNOWN_BROKER_EPOCH, state.brokers[broker].epoch)


def _write(
    office: Office, wanted: Sequence[tuple[AlterPartitionItem, Leadership]], result: AlterPartitionResult
) -> Procedure[list[TopicPartition]]:
    """The partitions whose in-sync set was changed; all of `wanted` have their outcome in `result` then."""
    writes: list[Action] = []
    for item, leadership in wanted:
        at = item.topic_partition
        data = office.state.with_epochs(leadership).encode()
        operation = Set(paths.partition_state(at.topic, at.partition), data, item.zk_version)
        told = f"{at} isr {list(leadership.isr)}, as its leader {leadership.leader} asks"
        writes.append(office.fenced(operation, reason=told))
    if not writes:
        return []
    replies = yield writes
    changed: list[TopicPartition] = []
    doubts: list[_Doubt] = []
    for (item, leadership), reply in zip(wanted, replies, strict=True):
        if isinstance(reply, Confirmed) and isinstance(reply.results[-1], Written):
            _apply(office, item.topic_partition, StateRead(leadership, reply.results[-1].stat.version), result)
            changed.append(item.topic_partition)
        else:
            doubts.append(_Doubt(item, leadership, isinstance(reply, Unknown)))
    if doubts:
        replies = yield [ReadState(doubt.item.topic_partition) for doubt in doubts]
        for doubt, read in zip(doubts, replies, strict=True):
            changed += yield from _learn(office, doubt, read, result)
    return changed


class _Doubt(NamedTuple):
    """A write that was refused, or whose outcome is not known."""

    item: AlterPartitionItem
    wanted: Leadership
    is_unknown: bool


def _learn(office: Office, doubt: _Doubt, read: Reply, result: AlterPartitionResult) -> Procedure[list[TopicPartition]]:
    """Judge a write by what stands there now."""
    at = doubt.item.topic_partition
    if not isinstance(read, StateRead):
        yield [Report(f"{at} lost its state znode; it stays as it is", severe=True)]
        result.partitions[at] = AlterPartitionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return []
    check_state(office, at, read)
    _apply(office, at, read, result)
    if doubt.is_unknown and read.version == doubt.item.zk_version:
        # The read may be of a server that lags behind the write, which may be done yet. The leader proposes it again,
        # and counts on neither meanwhile: another write under the same version is behind the first.
        result.partitions[at].error_code = ErrorCode.REQUEST_TIMED_OUT
    elif read.leadership != doubt.wanted:
        result.partitions[at].error_code = ErrorCode.INVALID_UPDATE_VERSION
    return [at]


def _apply(office: Office, at: TopicPartition, read: StateRead, result: AlterPartitionResult) -> None:
    office.state.apply_state(at, read)
    office.outbox.publish(at)
    result.partitions[at] = _standing(read)


def _standing(read: StateRead) -> AlterPartitionOutcome:
    leadership = read.leadership
    return AlterPartitionOutcome(
        ErrorCode.NONE, leadership.leader, leadership.leader_epoch, leadership.isr, read.version
    )
