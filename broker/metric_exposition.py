"""A broker's metrics as Prometheus families and text.

Names are those of Kafka's metrics as the jmx_exporter's `kafka-2_0_0.yml` writes them (`...PerSec` is `..._total`,
times are milliseconds with a `quantile` label), so that dashboards made for Kafka find them; what Kafka has not begins
with `barnabas_`. There is no registry: a broker's metrics are its own, and nothing is global.
"""

from collections.abc import Generator, Iterator
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from barnabas.protocol.ids import ApiKey
from broker.metrics import FOLLOWER_FETCH, ApiTimes, BrokerMetrics, TimeHistogram

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_SAMPLES_A_TURN: Final = 100
_FETCHES: Final = frozenset({int(ApiKey.FETCH), FOLLOWER_FETCH})

_TRAFFIC_NAMES: Final = {
    "messages_in": "messagesin",
    "bytes_in": "bytesin",
    "bytes_out": "bytesout",
    "produce_requests": "totalproducerequests",
    "fetch_requests": "totalfetchrequests",
    "failed_produce_requests": "failedproducerequests",
    "failed_fetch_requests": "failedfetchrequests",
    "produce_message_conversions": "producemessageconversions",
    "fetch_message_conversions": "fetchmessageconversions",
}

_REQUEST_NAMES: Final = {key: "".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey}


class Exposition(Collector):
    """What a broker counted, as it is when it is asked for."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics

    def text(self) -> bytes:
        """Everything."""
        return generate_latest(self)

    def steps(self) -> Generator[None, None, bytes]:
        """The same, some samples at a time."""
        texts: list[bytes] = []
        for family in self.collect():
            for piece in _pieces(family):
                text = generate_latest(piece)
                # The head of a family stands in front of its first piece only.
                texts.append(text if piece.is_first else text[text.index(b"\n", text.index(b"\n") + 1) + 1 :])
                yield
        return b"".join(texts)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        counted = self._metrics
        counted.maybe_turn_window()
        yield from self._request_families()
        yield from self._traffic_families()
        yield _summary("barnabas_event_loop_lag_ms", "How late the event loop was", {}, counted.loop_lag)
        yield GaugeMetricFamily(
            "barnabas_event_loop_greatest_lag_ms", "The latest that it ever was", counted.greatest_loop_lag_us / 1000
        )
        yield CounterMetricFamily(
            "barnabas_event_loop_late", "Times that the event loop was more than 50 ms late", counted.late_turns
        )
        yield CounterMetricFamily(
            "barnabas_refused_connections", "Connections ended for what the peer sent", counted.refused_connections
        )
        for source in counted.sources:
            yield from source()

    def _request_families(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("kafka_network_requestmetrics_requests", "Requests answered")
        errors = CounterMetricFamily("kafka_network_requestmetrics_errors", "Errors answered")
        times: dict[str, SummaryMetricFamily] = {}
        for name, api in self._named_apis():
            for version, count in sorted(api.versions.items()):
                _add(requests, "_total", {"request": name, "version": str(version)}, count)
            for error, count in sorted(api.errors.items()):
                _add(errors, "_total", {"request": name, "error": error.name}, count)
            for kind, histogram in api.histograms().items():
                family = times.setdefault(
                    kind, SummaryMetricFamily(f"kafka_network_requestmetrics_{kind}", "Milliseconds by request")
                )
                _add_histogram(family, {"request": name}, histogram)
        yield requests
        yield errors
        yield from times.values()

    def _named_apis(self) -> Iterator[tuple[str, ApiTimes]]:
        """The APIs by Kafka's names: fetches are shown in all, and by who asked."""
        for api_key in sorted(self._metrics.apis.keys() - _FETCHES):
            yield _REQUEST_NAMES[ApiKey(api_key)], self._metrics.apis[api_key]
        if not self._metrics.apis.keys().isdisjoint(_FETCHES):
            of_consumers = self._metrics.apis.get(ApiKey.FETCH) or ApiTimes()
            of_followers = self._metrics.apis.get(FOLLOWER_FETCH) or ApiTimes()
            yield "Fetch", of_consumers.merged(of_followers)
            yield "FetchConsumer", of_consumers
            yield "FetchFollower", of_followers

    def _traffic_families(self) -> Iterator[Metric]:
        for field, name in _TRAFFIC_NAMES.items():
            family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", "In all, and by topic")
            counts = {topic: getattr(traffic, field) for topic, traffic in self._metrics.topics.items()}
            _add(family, "_total", {}, sum(counts.values()) + getattr(self._metrics.gone_topics, field))
            for topic, count in counts.items():
                _add(family, "_total", {"topic": topic}, count)
            yield family


class _Piece(Collector):
    """Some samples of one family."""

    def __init__(self, family: Metric, first: int) -> None:
        self.is_first = first == 0
        self._piece = Metric(family.name, family.documentation, family.type)
        self._piece.samples = family.samples[first : first + _SAMPLES_A_TURN]

    def collect(self) -> list[Metric]:
        return [self._piece]


def _pieces(family: Metric) -> Iterator[_Piece]:
    for first in range(0, max(len(family.samples), 1), _SAMPLES_A_TURN):
        yield _Piece(family, first)


def gauge(name: str, documentation: str, value: float) -> Metric:
    """A family of one gauge without labels, for a source."""
    return GaugeMetricFamily(name, documentation, value)


def counter(name: str, documentation: str, value: float) -> Metric:
    """A family of one counter without labels, for a source; `_total` is added to its name."""
    return CounterMetricFamily(name, documentation, value)


def _add(family: Metric, suffix: str, labels: dict[str, str], value: float) -> None:
    family.samples.append(Sample(family.name + suffix, labels, value))


def _add_histogram(family: SummaryMetricFamily, labels: dict[str, str], histogram: TimeHistogram) -> None:
    histogram.settled()
    for quantile, duration_us in zip(_QUANTILES, histogram.quantiles_us(_QUANTILES), strict=True):
        _add(family, "", labels | {"quantile": str(quantile)}, duration_us / 1000)
    _add(family, "_count", labels, histogram.count)
    _add(family, "_sum", labels, histogram.sum_us / 1000)


def _summary(name: str, documentation: str, labels: dict[str, str], histogram: TimeHistogram) -> Metric:
    family = SummaryMetricFamily(name, documentation)
    _add_histogram(family, labels, histogram)
    return family
