"""The families of a whole broker, less those of its cleaner and its scrubber, which know their own."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from barnabas.runtime.network import TrafficCount
from broker.metric_controller import controller_families
from broker.metric_coordinators import coordinator_families
from broker.metric_fetchers import fetcher_families
from broker.metric_replicas import replica_families
from broker.metric_sources import log_families, traffic_families
from broker.services import Services


def broker_families(services: Services, traffic: TrafficCount) -> Iterator[Metric]:
    """Of its listeners, logs, office, coordinators, fetchers and replicas, in this order."""
    yield from traffic_families(traffic)
    yield from log_families(services)
    yield from controller_families(services)
    yield from coordinator_families(services.coordination)
    yield from fetcher_families(services.replicas.fetch_figures())
    yield from replica_families(services, services.replicas.counts)
