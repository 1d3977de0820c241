"""The configuration of a load, and what it means: options of the source, columns, sizes.

What two keys say together is checked here, before Spark is started.
"""

from typing import Final, Literal

import msgspec

from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig, duration_ms, refuse
from barnabas.pipeline.lake.names import QUERY_NAME

MIB: Final = 1024 * 1024

Mode = Literal["stream", "backfill", "compact", "vacuum"]
Compression = Literal["none", "snappy", "lz4", "zstd", "gzip"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the file."""


class SourceConfig(Section, frozen=True, kw_only=True):
    """What is read: topics, or those whose name matches a pattern, from `start` on when the query is new.

    `max_offsets_per_batch` bounds what is done again after a crash; `options` are further ones of the source barnabas.
    """

    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    start: Literal["earliest", "latest"] = "earliest"
    max_offsets_per_batch: int = 10_000_000
    read_committed: bool = True
    fail_on_data_loss: bool = True
    options: dict[str, str] = msgspec.field(default_factory=dict)


class TableConfig(Section, frozen=True, kw_only=True):
    """Where the rows go, and how their files are written.

    `waiting_mib` bounds the rows that a task holds. A batch that is to load what another query had put into the table
    before the run began is refused unless `overlap` allows it.
    """

    path: str
    format: Literal["delta", "parquet"] = "delta"
    headers: bool = True
    overlap: bool = False
    compression: Compression = "zstd"
    compression_level: int | None = None
    file_mib: int = 256
    row_group_mib: int = 16
    waiting_mib: int = 64
    open_files: int = 32


class PartitionConfig(Section, frozen=True, kw_only=True):
    """The folders of the table: by the day or hour of event time, in UTC.

    Event time is the record's timestamp, or the field `event_time` of the payload: a timestamp, a date, or a whole
    number of `unit`s since 1970. Rows without one, or with one before `earliest` or not before `latest`, go to the
    folder of null.
    """

    by: Literal["day", "hour", "none"] = "day"
    event_time: str | None = None
    unit: Literal["s", "ms", "us"] = "ms"
    earliest: str = "1970-01-01"
    latest: str = "2200-01-01"
    late_after: str = "1h"


class PayloadConfig(Section, frozen=True, kw_only=True):
    """What values hold.

    `raw` keeps their bytes. `json` needs `schema`, as Spark writes it ("user string, age int") or its JSON, or a file
    with that. `avro` needs `schema_file`, the schema of the values; `confluent-avro` needs `schemas`, a folder with
    `<id>.avsc` for the id in each value, and takes `schema_file` as the schema to read them as.
    """

    kind: Literal["raw", "json", "avro", "confluent-avro"] = "raw"
    schema: str | None = None
    schema_file: str | None = None
    schemas: str | None = None


class DeadLetterConfig(Section, frozen=True, kw_only=True):
    """Where values go that cannot be read, and how many of a batch may: over it the job fails before the commit."""

    path: str | None = None
    max_dead_letters: int | None = None
    max_dead_letter_fraction: float = 0.1


class CompactionConfig(Section, frozen=True, kw_only=True):
    """Files below `small_mib` are merged to about `target_mib`, after each so many batches (0: never by itself)."""

    every_batches: int = 0
    small_mib: int = 128
    target_mib: int = 256
    least_files: int = 4


class VacuumConfig(Section, frozen=True, kw_only=True):
    """How long files stay that no commit names (any more): longer than any batch, and than any reader, takes."""

    keep: str = "7d"


class BackfillConfig(Section, frozen=True, kw_only=True):
    """A range that is loaded once, by a query of its own: between times in ISO 8601, or between offsets.

    Offsets are written {"topic" = {"0" = 23}}.
    """

    id: str
    start_time: str | None = None
    end_time: str | None = None
    start_offsets: dict[str, dict[str, int]] | None = None
    end_offsets: dict[str, dict[str, int]] | None = None


class LoadConfig(Section, frozen=True, kw_only=True):
    """A load. `name` is that of its query, and stands in the table: a query has one checkpoint, for ever.

    Without `every` it loads what there is and ends; with it, a batch begins that often, until it is stopped.
    """

    name: str
    cluster: ClusterConfig
    source: SourceConfig
    table: TableConfig
    checkpoint: str
    mode: Mode = "stream"
    every: str | None = None
    partitions: PartitionConfig = PartitionConfig()
    payload: PayloadConfig = PayloadConfig()
    dead_letters: DeadLetterConfig = DeadLetterConfig()
    compaction: CompactionConfig = CompactionConfig()
    vacuum: VacuumConfig = VacuumConfig()
    backfill: BackfillConfig | None = None
    spark: SparkConfig = SparkConfig()


def check(config: LoadConfig) -> None:
    """Raise ConfigError for what cannot be, with the key, the value and what would do."""
    source, payload = config.source, config.payload
    if not QUERY_NAME.fullmatch(config.name):
        refuse("name", config.name, "it goes into names of files: letters, digits, dots, hyphens and underscores")
    if bool(source.topics) == (source.topic_pattern is not None):
        refuse("source.topics", list(source.topics), "name topics, or a topic_pattern, and not both")
    if source.max_offsets_per_batch < 1:
        refuse("source.max_offsets_per_batch", source.max_offsets_per_batch, "it must be greater than 0")
    for option in source.options:
        if option.lower() in _OWN_OPTIONS:
            refuse(f"source.options.{option}", source.options[option], f"say {_OWN_OPTIONS[option.lower()]}")
    for key in ("file_mib", "row_group_mib", "waiting_mib", "open_files"):
        if getattr(config.table, key) < 1:
            refuse(f"table.{key}", getattr(config.table, key), "it must be greater than 0")
    if config.table.row_group_mib > 1024:
        refuse("table.row_group_mib", config.table.row_group_mib, "a row group has 1024 MiB at most")
    if config.table.compression_level is not None and config.table.compression not in {"zstd", "gzip"}:
        refuse("table.compression_level", config.table.compression_level, "it is of zstd and gzip alone")
    if config.every is not None:
        duration_ms("every", config.every)
    duration_ms("partitions.late_after", config.partitions.late_after)
    duration_ms("vacuum.keep", config.vacuum.keep)
    if config.partitions.event_time is not None and payload.kind == "raw":
        refuse("partitions.event_time", config.partitions.event_time, "raw values have no fields; take it away")
    _check_payload(payload)
    _check_limits(config)
    _check_backfill(config)


def _check_payload(payload: PayloadConfig) -> None:
    """Which keys a kind of payload needs, and which act on it."""
    given = {name for name in ("schema", "schema_file", "schemas") if getattr(payload, name) is not None}
    needs = _PAYLOAD_KEYS[payload.kind]
    for name in sorted(given - {each for some in needs for each in some}):
        refuse(f"payload.{name}", getattr(payload, name), f"it does not act on payload.kind {payload.kind}")
    for some in needs:
        if len(given & set(some)) != 1:
            refuse("payload.kind", payload.kind, f"it needs {' or '.join(f'payload.{each}' for each in some)}")


def _check_limits(config: LoadConfig) -> None:
    dead, merging = config.dead_letters, config.compaction
    if dead.max_dead_letters is not None and dead.max_dead_letters < 0:
        refuse("dead_letters.max_dead_letters", dead.max_dead_letters, "it must be 0 or more")
    if not 0 <= dead.max_dead_letter_fraction <= 1:
        refuse("dead_letters.max_dead_letter_fraction", dead.max_dead_letter_fraction, "it must be 0 to 1")
    if merging.every_batches < 0:
        refuse("compaction.every_batches", merging.every_batches, "it must be 0 (never) or more")
    if not 1 <= merging.small_mib <= merging.target_mib:
        refuse("compaction.small_mib", merging.small_mib, f"it must be 1 to target_mib ({merging.target_mib})")
    if merging.least_files < 2:
        refuse("compaction.least_files", merging.least_files, "fewer than 2 files are not merged")


def _check_backfill(config: LoadConfig) -> None:
    plan = config.backfill
    if config.mode != "backfill":
        return
    if plan is None:
        raise ConfigError('mode = "backfill" needs a section [backfill] with an id and where it starts and ends')
    if not QUERY_NAME.fullmatch(plan.id):
        refuse("backfill.id", plan.id, "it goes into names of files: letters, digits, dots, hyphens and underscores")
    if config.every is not None:
        refuse("every", config.every, "a backfill ends; take it away")
    for side in ("start", "end"):
        if (getattr(plan, f"{side}_time") is None) == (getattr(plan, f"{side}_offsets") is None):
            raise ConfigError(f"backfill.{side}_time or backfill.{side}_offsets must be given, and not both")


_PAYLOAD_KEYS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "raw": (),
    "json": (("schema", "schema_file"),),
    "avro": (("schema_file",),),
    "confluent-avro": (("schemas",), ("schema_file",)),
}
_OWN_OPTIONS: Final = {
    "subscribe": "source.topics",
    "subscribepattern": "source.topic_pattern",
    "assign": "source.topics, or a backfill with offsets",
    "startingoffsets": "source.start, or run a backfill",
    "targets": "backfill.end_offsets",
    "failondataloss": "source.fail_on_data_loss",
    "includeheaders": "table.headers",
    "maxoffsetspertrigger": "source.max_offsets_per_batch",
    "kafka.isolation.level": "source.read_committed",
    "kafka.bootstrap.servers": "cluster.bootstrap_servers",
}
