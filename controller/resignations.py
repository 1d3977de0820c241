"""A leader gives up single partitions (`AlterPartitionItem.resigns`): what it has of them on disk is damaged.  [P]

Another member of the in-sync set that lives and stays leads from now on, in the order of the assignment. The set stays:
the one that resigned has all but what is damaged, and asks its new leader for that. Without another member nothing
changes, and ELIGIBLE_LEADERS_NOT_AVAILABLE is answered. Beyond 2.7.
"""

from collections.abc import Sequence
from dataclasses import replace

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from controller.commands import AlterPartitionOutcome, AlterPartitionResult
from controller.office import Office, Procedure
from controller.partitions import write_leaderships
from controller.state import Leadership, Partition


def resign(
    office: Office, broker: BrokerId, partitions: Sequence[TopicPartition], result: AlterPartitionResult
) -> Procedure[None]:
    """Let others lead these, which `broker` leads; all have their outcome in `result` then."""

    def decide(office: Office, at: TopicPartition, partition: Partition) -> Leadership | None:
        return elect_another(office, at, partition, broker)

    changed = yield from write_leaderships(office, partitions, decide, reason=f"broker {broker} resigns")
    for at in partitions:
        partition = office.state.partition(at)
        if at not in changed or partition is None or partition.leadership is None:
            result.partitions[at] = AlterPartitionOutcome(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
            continue
        present = partition.leadership
        office.outbox.lead(at, office.state.live_replicas(at, partition))
        office.outbox.publish(at)
        result.partitions[at] = AlterPartitionOutcome(
            ErrorCode.NONE, present.leader, present.leader_epoch, present.isr, partition.version
        )
    office.changes += len(changed)


def elect_another(office: Office, at: TopicPartition, partition: Partition, broker: BrokerId) -> Leadership | None:
    """The leadership without `broker` as the leader; None where it does not lead, or nobody else can."""
    present = partition.leadership
    if present is None or present.leader != broker or at.topic in office.state.deletions:
        return None
    for other in partition.assignment.replicas:
        in_sync = other in present.isr and other not in partition.stale
        if other != broker and in_sync and office.state.is_replica_eligible(at, other):
            return replace(
                present,
                leader=other,
                leader_epoch=LeaderEpoch(present.leader_epoch + 1),
                controller_epoch=office.state.term.epoch,
            )
    return None
