"""The metrics of one broker: plain counters on the hot path, made into Prometheus families only when somebody asks.

A broker has its own `CollectorRegistry`; nothing is global. Names are those of Kafka's metrics as the jmx_exporter's
`kafka-2_0_0.yml` writes them (`...PerSec` is `..._total`, times are milliseconds with a `quantile` label), so that
dashboards made for Kafka find them; what Kafka has not begins with `barnabas_`.

Times are counted in buckets four to the octave, so a quantile is right within an eighth. Quantiles look back over the
last five to ten minutes, counts over the broker's life. Parts that own what is measured add a source, a function that
gives families when asked.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from operator import add
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.runtime.clock import Clock
from broker.turns import Turns

Source = Callable[[], Iterable[Metric]]

_QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
_WINDOW_MS: Final = 300_000
_BUCKETS: Final = 160
_GATHERED: Final = 256
_SAMPLES_A_TURN: Final = 100
_LATE_US: Final = 50_000
_OCTAVES: Final = _BUCKETS // 4 - 1


FOLLOWER_FETCH: Final = -int(ApiKey.FETCH)
"""Fetches of followers are counted as if they were an API of their own."""
_FETCHES: Final = frozenset({int(ApiKey.FETCH), FOLLOWER_FETCH})


class TimeHistogram:
    """How long something took, in microseconds. Durations gather first and are counted together: see `settled`."""

    __slots__ = ("_added", "count", "earlier", "greatest_us", "recent", "sum_us")

    def __init__(self) -> None:
        self._added: list[int] = []
        self.count = 0
        self.sum_us = 0
        self.greatest_us = 0
        self.recent = [0] * _BUCKETS
        self.earlier = [0] * _BUCKETS

    def add(self, duration_us: int) -> None:
        added = self._added
        added.append(duration_us)
        if len(added) >= _GATHERED:
            self.settled()

    def settled(self) -> "TimeHistogram":
        """The same with all durations counted; to be asked for before anything is read."""
        added = self._added
        if added:
            self.count += len(added)
            self.sum_us += sum(added)
            self.greatest_us = max(self.greatest_us, *added)
            for duration_us, count in Counter(added).items():
                self.recent[_bucket(duration_us)] += count
            added.clear()
        return self

    def turn(self) -> None:
        """Begin a new window of the quantiles; what was before the last one is forgotten."""
        self.earlier, self.recent = self.settled().recent, [0] * _BUCKETS

    def merged(self, other: "TimeHistogram") -> "TimeHistogram":
        """What both counted."""
        mine, theirs, both = self.settled(), other.settled(), TimeHistogram()
        both.count = mine.count + theirs.count
        both.sum_us = mine.sum_us + theirs.sum_us
        both.greatest_us = max(mine.greatest_us, theirs.greatest_us)
        both.recent = list(map(add, mine.recent, theirs.recent))
        both.earlier = list(map(add, mine.earlier, theirs.earlier))
        return both

    def zeroed(self) -> "TimeHistogram":
        """As many counts, all of them 0."""
        mine, zeros = self.settled(), TimeHistogram()
        zeros.count = mine.count
        zeros.recent[0], zeros.earlier[0] = sum(mine.recent), sum(mine.earlier)
        return zeros

    def without_zeros(self, other: "TimeHistogram") -> "TimeHistogram":
        """As many zeros fewer as `other` counted: those turned out to be something else."""
        theirs, fewer = other.settled(), self.merged(TimeHistogram())
        fewer.count = max(0, fewer.count - theirs.count)
        fewer.recent[0] = max(0, fewer.recent[0] - sum(theirs.recent))
        fewer.earlier[0] = max(0, fewer.earlier[0] - sum(theirs.earlier))
        return fewer

    def quantiles_us(self, quantiles: Iterable[float]) -> list[float]:
        """The durations below which these shares of the window's lie; 0 when there was none."""
        buckets = list(map(add, self.settled().recent, self.earlier))
        total = sum(buckets)
        return [_quantile(buckets, total, quantile) for quantile in quantiles]


def _bucket(duration_us: int) -> int:
    if duration_us < 8:
        return duration_us
    octave = duration_us.bit_length() - 3
    # No duration is above the buckets but by a clock that went astray.
    return (octave << 2) + (duration_us >> octave) if octave < _OCTAVES else _BUCKETS - 1


def _quantile(buckets: list[int], total: int, quantile: float) -> float:
    if total == 0:
        return 0.0
    wanted = quantile * total
    seen = 0
    for index, count in enumerate(buckets):
        seen += count
        if seen >= wanted and count:
            return _middle_us(index)
    raise AssertionError("the buckets hold fewer than their total")


def _middle_us(index: int) -> float:
    """The middle of what a bucket stands for."""
    if index < 8:
        return float(index)
    octave = (index >> 2) - 1
    return ((4 + (index & 3)) << octave) + ((1 << octave) - 1) / 2


class _ApiTimes:
    """What one API's requests took. Those that waited for nothing are counted once, in `at_once`."""

    __slots__ = ("at_once", "delayed", "errors", "local", "queue", "remote", "send", "total", "versions")

    def __init__(self) -> None:
        self.at_once = TimeHistogram()
        self.delayed = TimeHistogram()
        self.queue = TimeHistogram()
        self.local = TimeHistogram()
        self.remote = TimeHistogram()
        self.send = TimeHistogram()
        self.total = TimeHistogram()
        self.versions: dict[int, int] = {}
        self.errors: dict[ErrorCode, int] = {}

    def merged(self, other: "_ApiTimes") -> "_ApiTimes":
        """What both counted."""
        both = _ApiTimes()
        for name in ("at_once", "delayed", "queue", "local", "remote", "send", "total"):
            setattr(both, name, getattr(self, name).merged(getattr(other, name)))
        both.versions = dict(Counter(self.versions) + Counter(other.versions))
        both.errors = dict(Counter(self.errors) + Counter(other.errors))
        return both

    def histograms(self) -> dict[str, TimeHistogram]:
        """By the name that Kafka gives each."""
        no_time = self.at_once.zeroed()
        return {
            "requestqueuetimems": self.queue.merged(no_time),
            "localtimems": self.local.merged(self.at_once),
            "remotetimems": self.remote.merged(no_time),
            "responsesendtimems": self.send.merged(no_time.without_zeros(self.delayed)).merged(self.delayed),
            "totaltimems": self.total.merged(self.at_once),
        }

    def turn(self) -> None:
        """Begin a new window of all quantiles."""
        for histogram in (self.at_once, self.delayed, self.queue, self.local, self.remote, self.send, self.total):
            histogram.turn()


class TopicTraffic:
    """What one topic's partitions on this broker took and gave. Whoever serves a request adds to the fields."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_message_conversions",
        "fetch_requests",
        "messages_in",
        "produce_message_conversions",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.produce_message_conversions = 0
        self.fetch_message_conversions = 0


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


class BrokerMetrics(Collector):
    """See the module. Called on the event loop only."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._clock = clock
        self._apis: dict[int, _ApiTimes] = {}
        self._topics: dict[str, TopicTraffic] = {}
        self._gone_topics = TopicTraffic()
        self._loop_lag = TimeHistogram()
        self._late_turns = 0
        self._refused_connections = 0
        self.replication_bytes_out = 0
        """What followers fetched; it is no topic's `bytes_out`."""
        self._sources: list[Source] = []
        self._window_began_ms = clock.monotonic_ms()
        self.registry.register(self)

    # Counting.

    def request_done(
        self, api_key: int, *, local_us: int, remote_us: int, queue_us: int = 0, send_us: int = 0, version: int = 0
    ) -> None:
        """One request was answered: it waited its turn, was worked on, waited for others, and was sent."""
        if not (queue_us or remote_us or send_us):
            self.request_done_at_once(api_key, version, local_us)
            return
        times = self._apis.get(api_key)
        if times is None:
            times = self._apis[api_key] = _ApiTimes()
        versions = times.versions
        versions[version] = versions.get(version, 0) + 1
        times.queue.add(queue_us)
        times.local.add(local_us)
        times.remote.add(remote_us)
        times.send.add(send_us)
        times.total.add(queue_us + local_us + remote_us + send_us)

    def request_done_at_once(self, api_key: int, version: int, local_us: int) -> None:
        """One request was answered that waited for nothing."""
        times = self._apis.get(api_key)
        if times is None:
            times = self._apis[api_key] = _ApiTimes()
        versions = times.versions
        versions[version] = versions.get(version, 0) + 1
        times.at_once.add(local_us)

    def send_delayed(self, api_key: int, send_us: int) -> None:
        """An answer that was counted as done had to wait for its peer."""
        self._apis[api_key].delayed.add(send_us)

    def count_error(self, api_key: int, error: ErrorCode, count: int = 1) -> None:
        """An answer bore this error, so many times."""
        times = self._apis.get(api_key)
        if times is None:
            times = self._apis[api_key] = _ApiTimes()
        times.errors[error] = times.errors.get(error, 0) + count

    def topic(self, topic: str) -> TopicTraffic:
        """The counters of a topic, made on first use."""
        traffic = self._topics.get(topic)
        if traffic is None:
            traffic = self._topics[topic] = TopicTraffic()
        return traffic

    def forget_topic(self, topic: str) -> None:
        """A topic is gone; what it added to the broker's totals stays."""
        traffic = self._topics.pop(topic, None)
        if traffic is not None:
            for field in _TRAFFIC_NAMES:
                setattr(self._gone_topics, field, getattr(self._gone_topics, field) + getattr(traffic, field))

    def count_refused_connection(self) -> None:
        """A connection was ended because of what its peer sent."""
        self._refused_connections += 1

    def observe_loop_lag(self, lag_us: int) -> None:
        """The event loop came so much later than it should have."""
        self._loop_lag.add(lag_us)
        if lag_us > _LATE_US:
            self._late_turns += 1

    @property
    def greatest_loop_lag_us(self) -> int:
        """Of the broker's life."""
        return self._loop_lag.settled().greatest_us

    def add_source(self, source: Source) -> None:
        """Ask `source` for families each time the metrics are shown."""
        self._sources.append(source)

    # Showing.

    def exposition(self) -> bytes:
        """Everything as Prometheus text."""
        return generate_latest(self.registry)

    async def exposition_in_turns(self) -> bytes:
        """The same, with turns for others: a broker of thousands of partitions has as many samples of some families."""
        return await Turns(self._clock).finish(self._exposition_steps())

    def _exposition_steps(self) -> Generator[None, None, bytes]:
        texts: list[bytes] = []
        for family in self.collect():
            for piece in _pieces(family):
                text = generate_latest(piece)
                # The head of a family stands in front of its first piece only.
                texts.append(text if piece.is_first else text[text.index(b"\n", text.index(b"\n") + 1) + 1 :])
                yield
        return b"".join(texts)

    def collect(self) -> Iterator[Metric]:
        """All families; called by the registry."""
        self._maybe_turn_window()
        yield from self._request_families()
        yield from self._traffic_families()
        yield _summary("barnabas_event_loop_lag_ms", "How late the event loop was", {}, self._loop_lag)
        yield GaugeMetricFamily(
            "barnabas_event_loop_greatest_lag_ms", "The latest that it ever was", self.greatest_loop_lag_us / 1000
        )
        yield CounterMetricFamily(
            "barnabas_event_loop_late", "Times that the event loop was more than 50 ms late", self._late_turns
        )
        yield CounterMetricFamily(
            "barnabas_refused_connections", "Connections ended for what the peer sent", self._refused_connections
        )
        for source in self._sources:
            yield from source()

    def _maybe_turn_window(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._window_began_ms < _WINDOW_MS:
            return False
        self._window_began_ms = now_ms
        self._loop_lag.turn()
        for times in self._apis.values():
            times.turn()
        return True

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

    def _named_apis(self) -> Iterator[tuple[str, _ApiTimes]]:
        """The APIs by Kafka's names: fetches are shown in all, and by who asked."""
        for api_key in sorted(self._apis.keys() - _FETCHES):
            yield _REQUEST_NAMES[ApiKey(api_key)], self._apis[api_key]
        if not self._apis.keys().isdisjoint(_FETCHES):
            of_consumers = self._apis.get(ApiKey.FETCH) or _ApiTimes()
            of_followers = self._apis.get(FOLLOWER_FETCH) or _ApiTimes()
            yield "Fetch", of_consumers.merged(of_followers)
            yield "FetchConsumer", of_consumers
            yield "FetchFollower", of_followers

    def _traffic_families(self) -> Iterator[Metric]:
        for field, name in _TRAFFIC_NAMES.items():
            family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", "In all, and by topic")
            counts = {topic: getattr(traffic, field) for topic, traffic in self._topics.items()}
            _add(family, "_total", {}, sum(counts.values()) + getattr(self._gone_topics, field))
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
