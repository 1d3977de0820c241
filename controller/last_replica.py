"""The last-replica defence: who leads when the whole in-sync set died and its machines lost what was not on disk.  [P]

Kafka 2.7 lets the last member of the in-sync set lead as soon as it is back. If its machine went down, the end of its
log may be gone, and records that were acknowledged with it, while a replica that had left the set still has them. So
while all members that are back are doubtful (their brokers registered as such), the partition has no leader: the live
replicas are asked where their logs end, and when every assigned replica has told, the one with the greatest (last
leader epoch, end offset) leads. A member that is not doubtful ends the wait, and so does an unclean election.

What was told is forgotten with the registration of the broker that told it, and with the disk that it was told of.
`barnabas.last.replica.defence=false` switches the defence off.
"""

from collections.abc import Collection, Iterable

from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from controller.actions import Report
from controller.commands import CommandResult, ReportLogEnds
from controller.elections import returning
from controller.office import Office, Procedure
from controller.state import Partition


def doubtful(office: Office, partition: Partition) -> Collection[BrokerId]:
    """The replicas that may have lost the ends of their logs."""
    if not office.settings.last_replica_defence:
        return ()
    brokers = office.state.brokers
    return [each for each in partition.assignment.replicas if each in brokers and not brokers[each].is_intact]


def best_log(office: Office, at: TopicPartition, partition: Partition) -> BrokerId | None:
    """The replica with the best log, once all assigned ones have told; of equals one in sync, then the first."""
    told = office.state.inquests.get(at)
    replicas = partition.assignment.replicas
    if told is None or not all(broker in told for broker in replicas):
        return None
    isr = () if partition.leadership is None else partition.leadership.isr
    return max(replicas, key=lambda broker: (told[broker], broker in isr, -replicas.index(broker)))


def inquire(office: Office, at: TopicPartition, partition: Partition) -> None:
    """Ask the live replicas that have not told, if the partition waits for it; else there is nothing to ask."""
    state, present = office.state, partition.leadership
    live = state.live_replicas(at, partition)
    if present is None or present.leader != NO_LEADER or not returning(partition.assignment.replicas, present, live):
        state.inquests.pop(at, None)
        return
    told = state.inquests.setdefault(at, {})
    for broker in live:
        if broker not in told:
            office.outbox.ask(at, broker)


def on_answer(
    office: Office, broker: BrokerId, command: ReportLogEnds, result: CommandResult
) -> Procedure[list[TopicPartition]]:
    """Take over what a broker told; the partitions about which enough is known."""
    decided: list[TopicPartition] = []
    for at in command.partitions:
        partition = office.state.partition(at)
        told = office.state.inquests.get(at)
        if partition is None or told is None:
            continue
        if at not in result.log_ends:
            yield [Report(f"broker {broker} cannot tell where its log of {at} ends", severe=True)]
            continue
        told[broker] = result.log_ends[at]
        missing = [each for each in partition.assignment.replicas if each not in told]
        if missing:
            yield [Report(f"{at} waits for {missing}: who was in sync may have lost records", severe=True)]
        else:
            decided.append(at)
    return decided


def forget(office: Office, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
    """A broker went: what it told counts no more."""
    for at in partitions:
        told = office.state.inquests.get(at)
        if told is not None:
            told.pop(broker, None)
