"""Finding a partition for a request, with the errors of Kafka 2.7 where it is not to be had here."""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER_EPOCH, TopicPartition
from broker.services import Services
from replication.partition import Partition, PartitionRefused


def find_partition(broker: Services, topic_partition: TopicPartition) -> Partition:
    """This broker's replica, whatever its role.

    Raises:
        PartitionRefused: NOT_LEADER_OR_FOLLOWER where the partition lives elsewhere, UNKNOWN_TOPIC_OR_PARTITION where
            nobody knows it.
    """
    partition = broker.replicas.partition(topic_partition)
    if partition is None:
        require_known(broker, topic_partition)
        raise PartitionRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return partition


def require_known(broker: Services, topic_partition: TopicPartition) -> None:
    """Refuse with UNKNOWN_TOPIC_OR_PARTITION what no broker of the cluster is known to hold."""
    if broker.metadata.partition(topic_partition) is None:
        raise PartitionRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def require_replica(partition: Partition, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
    """As `Partition.require_leader`, for whoever may also read from a follower."""
    if partition.is_offline:
        raise PartitionRefused(ErrorCode.KAFKA_STORAGE_ERROR)
    if current_leader_epoch not in (NO_LEADER_EPOCH, partition.leader_epoch):
        older = current_leader_epoch < partition.leader_epoch
        raise PartitionRefused(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
