"""A broker's figures, from the Prometheus text that it shows.

The names of ours are those of the table below; the broker's own are Kafka's (see broker/metric_exposition.py). Counters
become rates. Series of single topics and partitions are left out: a sample stays small however many there are.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from barnabas.pipeline.operations.figures import Figure, Rates

_GAUGES: Final = {
    "kafka_server_replicamanager_partitioncount": "partitions.count",
    "kafka_server_replicamanager_leadercount": "partitions.led",
    "kafka_server_replicamanager_underreplicatedpartitions": "partitions.under_replicated",
    "kafka_server_replicamanager_underminisrpartitioncount": "partitions.under_min_isr",
    "kafka_server_replicamanager_offlinereplicacount": "partitions.offline_replicas",
    "kafka_server_replicafetchermanager_maxlag": "replication.greatest_lag",
    "kafka_controller_kafkacontroller_activecontrollercount": "controller.active",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "controller.offline_partitions",
}
_COUNTERS: Final = {
    "kafka_server_brokertopicmetrics_messagesin_total": "messages_in_per_s",
    "kafka_server_brokertopicmetrics_bytesin_total": "bytes_in_per_s",
    "kafka_server_brokertopicmetrics_bytesout_total": "bytes_out_per_s",
    "kafka_server_brokertopicmetrics_replicationbytesin_total": "replication.bytes_in_per_s",
    "kafka_server_brokertopicmetrics_failedproducerequests_total": "requests.failed_produce_per_s",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": "requests.failed_fetch_per_s",
    "kafka_server_replicamanager_isrshrinks_total": "replication.isr_shrinks_per_s",
    "barnabas_refused_connections_total": "connections.refused_per_s",
}
_REQUESTS: Final = "kafka_network_requestmetrics_requests_total"
_ERRORS: Final = "kafka_network_requestmetrics_errors_total"
_TIMES: Final = "kafka_network_requestmetrics_totaltimems"
_LOOP_LAG: Final = "barnabas_event_loop_lag_ms"
_QUANTILES: Final = {"0.5": "p50", "0.99": "p99"}


class _Counted(NamedTuple):
    metric: str
    request: str = ""


class BrokerFigures:
    """Reads one broker's text again and again; keeps what its counters were."""

    def __init__(self) -> None:
        self._rates = Rates()

    def read(self, text: str, now_ms: int) -> list[Figure]:
        """The figures in `text`. `now_ms` is of a clock that never goes back. Raises ValueError for what is no such."""
        figures: list[Figure] = []
        counters: dict[_Counted, float] = {}
        for name, labels, value in _samples(text):
            if "topic" in labels or "partition" in labels:
                continue
            if name in _GAUGES:
                figures.append(Figure(_GAUGES[name], value))
            elif name in _COUNTERS:
                counters[_Counted(_COUNTERS[name])] = value
            elif name in (_REQUESTS, _ERRORS):
                # Of all versions, and of all kinds of errors but the one that says that there was none.
                metric = "requests.per_s" if name == _REQUESTS else "requests.errors_per_s"
                if labels.get("error") != "NONE":
                    key = _Counted(metric, labels.get("request", ""))
                    counters[key] = counters.get(key, 0.0) + value
            elif name in (_TIMES, _LOOP_LAG) and labels.get("quantile") in _QUANTILES:
                kind = _QUANTILES[labels["quantile"]]
                if name == _LOOP_LAG:
                    figures.append(Figure(f"loop_lag.{kind}_ms", value))
                else:
                    figures.append(Figure(f"requests.{kind}_ms", value, {"request": labels.get("request", "")}))
        for key, rate in self._rates.of(counters, now_ms).items():
            figures.append(Figure(key.metric, rate, {"request": key.request} if key.request else {}))
        return figures

    def forget(self) -> None:
        """The broker was not there: its counters begin anew."""
        self._rates.forget()


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, dict(sample.labels), float(sample.value)
