"""Families that tell how this broker fetches what it follows."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from broker.metric_exposition import counter, gauge
from replication.fetcher_ports import FetchFigures


def fetcher_families(figures: FetchFigures) -> Iterator[Metric]:
    """The fetchers of all leaders together."""
    yield gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "The most committed records that a followed partition lacks",
        figures.max_lag,
    )
    yield gauge(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Partitions that are followed and not fetched: fenced, or with a log that failed",
        figures.stopped_partitions,
    )
    yield gauge("barnabas_replica_fetchers", "Fetchers that run", figures.fetchers)
    yield counter("barnabas_replica_fetch_requests", "Fetches that leaders answered", figures.requests)
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes of records that leaders sent",
        figures.received_bytes,
    )
