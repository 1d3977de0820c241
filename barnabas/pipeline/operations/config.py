"""The configuration of the agent and of the table of minutes, and what it must not say."""

from difflib import get_close_matches
from typing import Final, Literal

import msgspec

from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig
from barnabas.pipeline.operations.figures import METRICS

_LEAST_INTERVAL_MS: Final = 100


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A broker whose metrics the agent would not find itself: its id, and where its metrics are as Prometheus text."""

    id: int
    metrics: str

    def __post_init__(self) -> None:
        """Raise ConfigError for what is no address of metrics."""
        if not self.metrics.startswith("http://"):
            raise ConfigError(f"brokers: metrics={self.metrics!r} must be http://host:port/metrics")


class ThresholdConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a figure is too high (`above`) or too low (`below`).

    An event is raised when that was so for `for_s` without a break, and cleared when the figure has been on the other
    side of `clear` (the same limit where it is not given) for `clear_for_s`. `labels` name which series of the metric
    are looked at, all of them where empty; each is judged for itself.
    """

    name: str
    metric: str
    above: float | None = None
    below: float | None = None
    for_s: float = 0
    clear: float | None = None
    clear_for_s: float = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ConfigError for what contradicts itself."""
        where = f"threshold {self.name!r}"
        if (self.above is None) == (self.below is None):
            raise ConfigError(f"{where}: give either above or below")
        if self.for_s < 0 or self.clear_for_s < 0:
            raise ConfigError(f"{where}: for_s={self.for_s:g} and clear_for_s={self.clear_for_s:g} are not negative")
        if self.clear is not None:
            if self.above is not None and self.clear > self.above:
                raise ConfigError(f"{where}: clear={self.clear:g} is higher than above={self.above:g}")
            if self.below is not None and self.clear < self.below:
                raise ConfigError(f"{where}: clear={self.clear:g} is lower than below={self.below:g}")


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How topics are made that are not there; -1 is the broker's default."""

    partitions: int = 1
    replication_factor: int = -1
    retention_ms: int = 7 * 24 * 3_600_000


class MinutesConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For the job `minutes`: where the table goes, and how late a figure may come and still count.

    Give `table`, the path of a lake table, or `topic`. `checkpoint` is where the query keeps its progress. With
    `mode="catch_up"` it ends with what there is.
    """

    checkpoint: str
    table: str | None = None
    format: Literal["delta", "parquet"] = "delta"
    topic: str | None = None
    late_s: int = 10
    trigger_s: int = 10
    mode: Literal["continuous", "catch_up"] = "continuous"

    def __post_init__(self) -> None:
        """Raise ConfigError for what contradicts itself."""
        if (self.table is None) == (self.topic is None):
            raise ConfigError("minutes: give either table or topic")
        if self.late_s < 0 or self.trigger_s <= 0:
            raise ConfigError(f"minutes: late_s={self.late_s} and trigger_s={self.trigger_s} are positive")


class OperationsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See README. Figures of this host and of the brokers of `cluster` that run on it go into `topic`.

    `host` is what the host is called, its own name where it is empty. `disks` are paths whose file systems are looked
    at, beside those of the brokers' logs. `brokers` are read over the network, wherever they run. `silence_s`: a series
    that has no figures for so long is forgotten, and what was raised for it is cleared.
    """

    cluster: ClusterConfig
    spark: SparkConfig = msgspec.field(default_factory=SparkConfig)
    topic: str = "operations"
    events_topic: str = "operations-events"
    topics: TopicConfig = msgspec.field(default_factory=TopicConfig)
    host: str = ""
    interval_ms: int = 1000
    discover_s: int = 30
    silence_s: float = 60
    disks: list[str] = msgspec.field(default_factory=lambda: ["/"])
    brokers: list[BrokerConfig] = msgspec.field(default_factory=list)
    finds_brokers: bool = True
    thresholds: list[ThresholdConfig] = msgspec.field(default_factory=list)
    minutes: MinutesConfig | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for what contradicts itself."""
        if self.interval_ms < _LEAST_INTERVAL_MS:
            raise ConfigError(f"interval_ms={self.interval_ms} must be at least {_LEAST_INTERVAL_MS}")
        for key, value in (("discover_s", self.discover_s), ("silence_s", self.silence_s)):
            if value <= 0:
                raise ConfigError(f"{key}={value:g} must be greater than 0")
        names = [each.name for each in self.thresholds]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"thresholds: {name!r} is there twice; what is raised is known by its name")
        for each in self.thresholds:
            if each.metric not in METRICS:
                like = get_close_matches(each.metric, METRICS, 3, 0)
                raise ConfigError(
                    f"threshold {each.name!r}: no figure is called {each.metric!r}; {', '.join(like)} are"
                )
        ids = [each.id for each in self.brokers]
        for broker in ids:
            if ids.count(broker) > 1:
                raise ConfigError(f"brokers: {broker} is there twice")
        if self.topic == self.events_topic:
            raise ConfigError(f"topic and events_topic are both {self.topic!r}")
