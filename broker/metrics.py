"""The metrics of one broker: plain counters on the hot path. `broker.metric_exposition` makes them into Prometheus
families when somebody asks, and not before: a start does without that library.

Times are counted in buckets four to the octave, so a quantile is right within an eighth. Quantiles look back over the
last five to ten minutes, counts over the broker's life. Parts that own what is measured add a source, a function that
gives families when asked.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from operator import add
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.runtime.clock import Clock
from broker.turns import Turns

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from broker.metric_exposition import Exposition

Families: TypeAlias = "Iterable[Metric]"
Source = Callable[[], Families]

_WINDOW_MS: Final = 300_000
_BUCKETS: Final = 160
_GATHERED: Final = 256
_LATE_US: Final = 50_000
_OCTAVES: Final = _BUCKETS // 4 - 1


FOLLOWER_FETCH: Final = -int(ApiKey.FETCH)
"""Fetches of followers are counted as if they were an API of their own."""


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


class ApiTimes:
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

    def merged(self, other: "ApiTimes") -> "ApiTimes":
        """What both counted."""
        both = ApiTimes()
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

    def add(self, other: "TopicTraffic") -> None:
        """Count in what another one counted."""
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.produce_requests += other.produce_requests
        self.fetch_requests += other.fetch_requests
        self.failed_produce_requests += other.failed_produce_requests
        self.failed_fetch_requests += other.failed_fetch_requests
        self.produce_message_conversions += other.produce_message_conversions
        self.fetch_message_conversions += other.fetch_message_conversions


class BrokerMetrics:
    """See the module. Called on the event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.apis: dict[int, ApiTimes] = {}
        self.topics: dict[str, TopicTraffic] = {}
        self.gone_topics = TopicTraffic()
        self.loop_lag = TimeHistogram()
        self.late_turns = 0
        self.refused_connections = 0
        self.replication_bytes_out = 0
        """What followers fetched; it is no topic's `bytes_out`."""
        self.sources: list[Source] = []
        self._window_began_ms = clock.monotonic_ms()

    # Counting.

    def request_done(
        self, api_key: int, *, local_us: int, remote_us: int, queue_us: int = 0, send_us: int = 0, version: int = 0
    ) -> None:
        """One request was answered: it waited its turn, was worked on, waited for others, and was sent."""
        if not (queue_us or remote_us or send_us):
            self.request_done_at_once(api_key, version, local_us)
            return
        times = self.apis.get(api_key)
        if times is None:
            times = self.apis[api_key] = ApiTimes()
        versions = times.versions
        versions[version] = versions.get(version, 0) + 1
        times.queue.add(queue_us)
        times.local.add(local_us)
        times.remote.add(remote_us)
        times.send.add(send_us)
        times.total.add(queue_us + local_us + remote_us + send_us)

    def request_done_at_once(self, api_key: int, version: int, local_us: int) -> None:
        """One request was answered that waited for nothing."""
        times = self.apis.get(api_key)
        if times is None:
            times = self.apis[api_key] = ApiTimes()
        versions = times.versions
        versions[version] = versions.get(version, 0) + 1
        times.at_once.add(local_us)

    def send_delayed(self, api_key: int, send_us: int) -> None:
        """An answer that was counted as done had to wait for its peer."""
        self.apis[api_key].delayed.add(send_us)

    def count_error(self, api_key: int, error: ErrorCode, count: int = 1) -> None:
        """An answer bore this error, so many times."""
        times = self.apis.get(api_key)
        if times is None:
            times = self.apis[api_key] = ApiTimes()
        times.errors[error] = times.errors.get(error, 0) + count

    def topic(self, topic: str) -> TopicTraffic:
        """The counters of a topic, made on first use."""
        traffic = self.topics.get(topic)
        if traffic is None:
            traffic = self.topics[topic] = TopicTraffic()
        return traffic

    def forget_topic(self, topic: str) -> None:
        """A topic is gone; what it added to the broker's totals stays."""
        traffic = self.topics.pop(topic, None)
        if traffic is not None:
            self.gone_topics.add(traffic)

    def count_refused_connection(self) -> None:
        """A connection was ended because of what its peer sent."""
        self.refused_connections += 1

    def observe_loop_lag(self, lag_us: int) -> None:
        """The event loop came so much later than it should have."""
        self.loop_lag.add(lag_us)
        if lag_us > _LATE_US:
            self.late_turns += 1

    @property
    def greatest_loop_lag_us(self) -> int:
        """Of the broker's life."""
        return self.loop_lag.settled().greatest_us

    def add_source(self, source: Source) -> None:
        """Ask `source` for families each time the metrics are shown."""
        self.sources.append(source)

    # Showing.

    def exposition(self) -> bytes:
        """Everything as Prometheus text."""
        return self._exposition().text()

    async def exposition_in_turns(self) -> bytes:
        """The same, with turns for others: a broker of thousands of partitions has as many samples of some families."""
        return await Turns(self._clock).finish(self._exposition().steps())

    def maybe_turn_window(self) -> bool:
        """Begin a new window of all quantiles when the last one is over."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._window_began_ms < _WINDOW_MS:
            return False
        self._window_began_ms = now_ms
        self.loop_lag.turn()
        for times in self.apis.values():
            times.turn()
        return True

    def _exposition(self) -> "Exposition":
        from broker.metric_exposition import Exposition  # noqa: PLC0415 - see the module

        return Exposition(self)
