"""The metrics of the office: whether this broker is the controller, and what the controller counts of the cluster.

Names are Kafka's; brokers and moves, which it does not count, begin with `barnabas_`. On other brokers all are 0, so
that a sum over brokers is the cluster's figure whoever is in office.
"""

from collections.abc import Iterator

from prometheus_client.core import Metric

from broker.metric_exposition import gauge
from broker.services import Services

_CONTROLLER = "kafka_controller_kafkacontroller_"


def controller_families(services: Services) -> Iterator[Metric]:
    """All of them."""
    yield gauge(
        f"{_CONTROLLER}activecontrollercount", "1 on the controller, else 0", int(services.controller.is_active)
    )
    counts = services.controller.tally()
    for name, documentation, value in (
        ("globaltopiccount", "Topics of the cluster", counts.topics),
        ("globalpartitioncount", "Partitions of the cluster", counts.partitions),
        ("offlinepartitionscount", "Partitions that nobody leads", counts.offline_partitions),
        (
            "preferredreplicaimbalancecount",
            "Partitions that their preferred replica does not lead",
            counts.preferred_replica_imbalance,
        ),
        ("topicstodeletecount", "Topics whose deletion is under way", counts.topics_to_delete),
        ("topicsineligibletodeletecount", "Those of them that have to wait", counts.topics_ineligible_to_delete),
        ("replicastodeletecount", "Replicas whose deletion is under way", counts.replicas_to_delete),
        ("replicasineligibletodeletecount", "Those of them that have to wait", counts.replicas_ineligible_to_delete),
    ):
        yield gauge(_CONTROLLER + name, documentation, value)
    yield gauge("barnabas_controller_brokers", "Brokers that live", counts.brokers)
    yield gauge("barnabas_controller_moving_partitions", "Partitions under reassignment", counts.moving_partitions)
