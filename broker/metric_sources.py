"""Families that are read off the broker's parts when somebody asks for the metrics."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from barnabas.runtime.network import TrafficCount
from broker.metric_exposition import counter, gauge
from broker.services import Services


def traffic_families(traffic: TrafficCount) -> Iterator[Metric]:
    """What crossed the listeners, and how much of it went straight from the page cache."""
    yield counter("barnabas_network_received_bytes", "Bytes that clients sent", traffic.received_bytes)
    yield counter("barnabas_network_sent_bytes", "Bytes that were sent to clients", traffic.sent_bytes)
    yield counter("barnabas_sendfile_bytes", "Bytes of these that went by sendfile", traffic.sendfile_bytes)
    yield counter("barnabas_sendfile_calls", "Calls of sendfile", traffic.sendfile_calls)
    yield counter("barnabas_slices_read_ahead", "Slices that were not in memory", traffic.slices_read_ahead)


def log_families(services: Services) -> Iterator[Metric]:
    """The logs and the fetch sessions of this broker."""
    partitions = services.replicas.partitions()
    leaders = sum(partition.is_leader for partition in partitions)
    yield gauge("kafka_server_replicamanager_partitioncount", "Replicas on this broker", len(partitions))
    yield gauge("kafka_server_replicamanager_leadercount", "Replicas that lead", leaders)
    yield gauge(
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas whose directory failed",
        sum(partition.is_offline for partition in partitions),
    )
    yield gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions", len(services.fetch_sessions)
    )
    yield gauge(
        "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
        "Partitions that fetch sessions remember",
        services.fetch_sessions.cached_partitions,
    )
    size = GaugeMetricFamily("kafka_log_log_size", "Bytes of a log", labels=["topic", "partition"])
    for partition in partitions:
        topic, number = partition.topic_partition
        size.add_metric([topic, str(number)], partition.log.size_bytes)
    yield size
