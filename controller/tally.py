"""The controller's counts of the cluster, which operators watch.  [P]

They are Kafka's (KafkaController): a topic that is to be deleted counts in none of those of partitions that want help.
"""

from dataclasses import dataclass

from controller.state import ClusterState, PartitionPhase, ReplicaPhase


@dataclass(frozen=True, slots=True)
class Tally:
    """What a controller counts. All are 0 on a broker that is none."""

    brokers: int = 0
    topics: int = 0
    partitions: int = 0
    offline_partitions: int = 0
    """Those that nobody leads."""

    preferred_replica_imbalance: int = 0
    """Those that another than the first of their replicas leads, or nobody."""

    moving_partitions: int = 0
    topics_to_delete: int = 0
    topics_ineligible_to_delete: int = 0
    """Those whose deletion waits: for a replica that is away, or for a reassignment."""

    replicas_to_delete: int = 0
    replicas_ineligible_to_delete: int = 0


def tally(state: ClusterState) -> Tally:
    """Count; the time grows with the partitions."""
    partitions = offline = imbalance = ineligible_topics = replicas = ineligible_replicas = 0
    for name, topic in state.topics.items():
        partitions += len(topic.partitions)
        if name in state.deletions or name in state.postponed_deletions:
            phases = [phase for partition in topic.partitions.values() for phase in partition.replicas.values()]
            ineligible = phases.count(ReplicaPhase.DELETION_INELIGIBLE)
            replicas += len(phases) - phases.count(ReplicaPhase.DELETION_SUCCESSFUL)
            ineligible_replicas += ineligible
            ineligible_topics += bool(ineligible or name in state.postponed_deletions)
            continue
        for partition in topic.partitions.values():
            leadership = partition.leadership
            offline += partition.phase is not PartitionPhase.ONLINE
            imbalance += leadership is None or leadership.leader != partition.assignment.replicas[0]
    return Tally(
        brokers=len(state.brokers),
        topics=len(state.topics),
        partitions=partitions,
        offline_partitions=offline,
        preferred_replica_imbalance=imbalance,
        moving_partitions=len(state.moving),
        topics_to_delete=len(state.deletions) + len(state.postponed_deletions),
        topics_ineligible_to_delete=ineligible_topics,
        replicas_to_delete=replicas,
        replicas_ineligible_to_delete=ineligible_replicas,
    )
