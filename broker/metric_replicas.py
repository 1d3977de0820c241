"""The metrics of what this broker leads: in-sync sets, and how far followers are behind.

Names are Kafka's; a follower's lag as its leader sees it has none there and begins with `barnabas_`. Read off the
partitions when somebody asks.
"""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from broker.metric_exposition import counter, gauge
from broker.services import Services
from replication.leader import LeaderState
from replication.partition import Partition
from replication.ports import ReplicationCount

_PARTITION = ("topic", "partition")


def replica_families(services: Services, counts: ReplicationCount) -> Iterator[Metric]:
    """All of them."""
    yield counter("kafka_server_replicamanager_isrshrinks", "Replicas left an in-sync set", counts.shrinks)
    yield counter("kafka_server_replicamanager_isrexpands", "A replica joined an in-sync set", counts.expands)
    yield counter(
        "kafka_server_replicamanager_failedisrupdates",
        "The controller did not do what was proposed",
        counts.failed_updates,
    )
    yield counter("kafka_server_brokertopicmetrics_replicationbytesin", "Bytes fetched from leaders", counts.bytes_in)
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesout",
        "Bytes that followers fetched",
        services.metrics.replication_bytes_out,
    )
    led = [
        (partition, partition.leadership)
        for partition in services.replicas.partitions()
        if partition.leadership is not None and partition.is_leader
    ]
    yield gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Led here, with a replica out of sync",
        sum(_is_under_replicated(*each) for each in led),
    )
    yield gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Led here, with fewer in sync than min.insync.replicas",
        sum(len(leadership.isr.committed) < partition.min_in_sync_replicas for partition, leadership in led),
    )
    yield gauge(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Led here, with as many in sync as min.insync.replicas",
        sum(len(leadership.isr.committed) == partition.min_in_sync_replicas for partition, leadership in led),
    )
    yield from _partition_families(led)


def _partition_families(led: list[tuple[Partition, LeaderState]]) -> Iterator[Metric]:
    in_sync = GaugeMetricFamily("kafka_cluster_partition_insyncreplicascount", "Replicas in sync", labels=_PARTITION)
    assigned = GaugeMetricFamily("kafka_cluster_partition_replicascount", "Replicas assigned", labels=_PARTITION)
    under = GaugeMetricFamily("kafka_cluster_partition_underreplicated", "1 with one out of sync", labels=_PARTITION)
    under_min = GaugeMetricFamily("kafka_cluster_partition_underminisr", "1 with too few in sync", labels=_PARTITION)
    lag = GaugeMetricFamily(
        "barnabas_replica_lag", "Records that a follower has not fetched yet", labels=(*_PARTITION, "replica")
    )
    for partition, leadership in led:
        topic, number = partition.topic_partition
        labels = (topic, str(number))
        members = len(leadership.isr.committed)
        in_sync.add_metric(labels, members)
        assigned.add_metric(labels, len(partition.replicas))
        under.add_metric(labels, _is_under_replicated(partition, leadership))
        under_min.add_metric(labels, members < partition.min_in_sync_replicas)
        for replica, remote in leadership.remotes.items():
            behind = partition.log.log_end_offset - max(remote.end_offset, partition.log.log_start_offset)
            lag.add_metric((*labels, str(replica)), max(behind, 0))
    yield from (in_sync, assigned, under, under_min, lag)


def _is_under_replicated(partition: Partition, leadership: LeaderState) -> bool:
    # Those that a reassignment adds are not missed before it is done.
    return len(leadership.isr.committed) < len(partition.replicas) - len(partition.adding)
