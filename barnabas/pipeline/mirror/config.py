"""The configuration of a mirror, and what it must not say."""

import re
from typing import Final, Literal

import msgspec

from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig
from barnabas.protocol.batch import Codec

MIB: Final = 1024 * 1024
MOST_TRANSACTION_MS: Final = 30_000
"""Half of what a coordinator is told to wait for before it ends a transaction by itself."""

_ALIAS: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NEVER_COPIED: Final = frozenset(
    {"message.timestamp.type", "message.timestamp.difference.max.ms", "message.format.version"}
)


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster that is mirrored: its short name, its brokers, and which topics.

    `topics` are names, `pattern` is a regular expression that the whole name has to match; `exclude` is one for names
    that are left out all the same. Where a partition is new to the mirror it begins at `start`; in a topic that came
    while it ran, at the earliest record.
    """

    alias: str
    bootstrap_servers: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    topics: list[str] = msgspec.field(default_factory=list)
    pattern: str | None = None
    exclude: str | None = None
    start: Literal["earliest", "latest"] = "earliest"

    @property
    def cluster(self) -> ClusterConfig:
        return ClusterConfig(bootstrap_servers=self.bootstrap_servers, options=self.options)


class TopicsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How topics are made that the target lacks. -1 is the broker's default.

    `copied` are the settings that are taken over where the source's topic has them set; `configs` are set whatever it
    has. Their partitions are those of the source, and grow with them if `grow` is on.
    """

    replication_factor: int = -1
    copied: list[str] = msgspec.field(
        default_factory=lambda: [
            "cleanup.policy",
            "compression.type",
            "delete.retention.ms",
            "max.message.bytes",
            "min.compaction.lag.ms",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.ms",
        ]
    )
    configs: dict[str, str] = msgspec.field(default_factory=dict)
    grow: bool = True


class TranslateConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For the job `translate`: the groups whose offsets are translated, none for all that have any.

    With `execute` they are committed at the target, where no member may be; else they are only shown.
    """

    groups: list[str] = msgspec.field(default_factory=list)
    execute: bool = False


class MirrorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See README. `cluster` is the target, `alias` its short name; `name` is the mirror's, one for each target.

    `engine`: `client` needs no Spark; `spark` is a streaming query for each source, which keeps its progress in
    `checkpoint`, moves on in batches that begin every `transaction_ms`, and cannot do all that the other can.

    `naming`: `alias` puts `<alias of the source><separator>` in front of topics, `same` keeps their names. `loops`:
    `refuse` does not start where records would come back to where they came from; `drop` lets records through that did
    not come from the target. `on_data_loss`: what happens where records are gone before they were mirrored. A
    transaction ends after `transaction_ms` or `transaction_bytes`. `patience_s` is how long it is tried again without
    any progress. `offsets_retention_ms` is how long offsets can be translated that were mirrored then.
    """

    name: str
    cluster: ClusterConfig
    alias: str
    sources: list[SourceConfig]
    mode: Literal["continuous", "catch_up"] = "continuous"
    engine: Literal["client", "spark"] = "client"
    checkpoint: str | None = None
    spark: SparkConfig = msgspec.field(default_factory=SparkConfig)
    naming: Literal["alias", "same"] = "alias"
    separator: str = "."
    topics: TopicsConfig = msgspec.field(default_factory=TopicsConfig)
    loops: Literal["refuse", "drop"] = "refuse"
    on_data_loss: Literal["fail", "continue"] = "fail"
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    transaction_ms: int = 1000
    transaction_bytes: int = 64 * MIB
    bytes_per_second: int | None = None
    refresh_ms: int = 30_000
    patience_s: int = 300
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    verify: bool = False
    translate: TranslateConfig = msgspec.field(default_factory=TranslateConfig)

    @property
    def codec(self) -> Codec:
        """How batches are compressed that could not be passed on as they are."""
        return Codec[self.compression.upper()]

    def __post_init__(self) -> None:
        """Raise ConfigError for what contradicts itself."""
        for key in ("transaction_ms", "transaction_bytes", "bytes_per_second", "refresh_ms", "patience_s"):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ConfigError(f"{key}={value} must be greater than 0")
        if self.transaction_ms > MOST_TRANSACTION_MS:
            raise ConfigError(f"transaction_ms={self.transaction_ms} must be at most {MOST_TRANSACTION_MS}")
        if not self.sources:
            raise ConfigError("sources is empty: name a cluster to mirror in [[sources]]")
        _check_name("name", self.name)
        _check_name("alias", self.alias)
        self._check_engine()
        if self.naming == "alias" and not re.fullmatch(r"[a-zA-Z0-9._-]+", self.separator):
            raise ConfigError(f"separator={self.separator!r} cannot stand in the name of a topic; '.' would do")
        aliases = [self.alias]
        for source in self.sources:
            _check_name("alias", source.alias)
            if source.alias in aliases:
                raise ConfigError(f"alias={source.alias!r} names two clusters; give each an alias of its own")
            aliases.append(source.alias)
            _check_topics(source)
        for key in (*self.topics.copied, *self.topics.configs):
            if key in _NEVER_COPIED:
                raise ConfigError(f"topics: {key} cannot be set: records keep the timestamps that they have")

    def _check_engine(self) -> None:
        if self.engine == "client":
            if self.checkpoint is not None:
                raise ConfigError(f"checkpoint={self.checkpoint!r} acts with engine='spark'; progress is at the target")
            return
        if self.checkpoint is None:
            raise ConfigError("engine='spark' needs checkpoint, a folder for the progress of its queries")
        for key, value in (
            ("loops", "drop" if self.loops == "drop" else None),
            ("verify", self.verify or None),
            ("bytes_per_second", self.bytes_per_second),
        ):
            if value is not None:
                raise ConfigError(f"{key}={value!r} acts with engine='client' alone; take it away")


def _check_name(key: str, value: str) -> None:
    if not _ALIAS.fullmatch(value):
        raise ConfigError(f"{key}={value!r} must have letters, digits, '_' and '-' only, and at least one")


def _check_topics(source: SourceConfig) -> None:
    where = f"sources: {source.alias}"
    if bool(source.topics) == (source.pattern is not None):
        raise ConfigError(f"{where}: give either topics, a list of names, or pattern, a regular expression")
    for key in ("pattern", "exclude"):
        text = getattr(source, key)
        try:
            re.compile(text or "")
        except re.error as error:
            raise ConfigError(f"{where}: {key}={text!r} is no regular expression: {error}") from None
