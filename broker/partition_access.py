"""Finding a partition for a request, with the errors of Kafka 2.7 where it is not to be had here."""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
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
