"""The tiers as Spark queries: what producers told, what a topic holds, what a table's files have.

Tasks count (see counting.py) and Spark adds up; what comes to the driver is a row for each cell, and for cells that do
not balance a row for each offset that differs, as many as are asked for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all who use Spark call it

from barnabas.pipeline.audit.count_events import BadCountEvent, counts_of, decode_event
from barnabas.pipeline.audit.counting import HOLE, Scope, count_records, hole_rows, pick_records, tally_of
from barnabas.pipeline.audit.findings import Finding, Kind, compare_offset
from barnabas.pipeline.audit.tallies import NOTHING, Cell, Tally, add_up
from barnabas.pipeline.audit.task_frames import frame_of
from barnabas.pipeline.audit.topic_reading import Hole, TopicRead, join_holes
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.planning import LogSpan, TopicRange, split_ranges
from barnabas.pipeline.source.range_task import PlannedRange
from barnabas.protocol.ids import TopicPartition

_PARTIAL_DDL: Final = (
    "topic string, partition int, hour bigint, part int, records bigint, content_high bigint, content_low bigint, "
    "places_high bigint, places_low bigint, least bigint, most bigint"
)
_PICKED_DDL: Final = "topic string, partition int, offset bigint, hour bigint, content bigint, places bigint"
_EVENT_DDL: Final = (
    "instance string, producer string, sequence bigint, last boolean, error string, topic string, partition int, "
    "hour bigint, records bigint, content_high bigint, content_low bigint, least bigint, most bigint"
)
_SUMS: Final = ("records", "content_high", "content_low", "places_high", "places_low")
_BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 16 * 1024 * 1024
_TASKS_PER_CORE: Final = 2
_NAMED_INSTANCES: Final = 100


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one version; `columns` are those that are counted."""

    paths: Sequence[str]
    columns: Sequence[str]


class Silence(NamedTuple):
    """A producer that did not say that it ended, or of whose events some are not there."""

    producer: str
    instance: str
    events: int
    last_sequence: int
    is_closed: bool


@dataclass(frozen=True)
class Told:
    """What producers told: tallies, events that cannot be read, and producers of whom not all is known."""

    tallies: dict[Cell, Tally]
    events: int
    unreadable: dict[str, int]
    silences: list[Silence]


def topic_tasks(
    spark: SparkSession, spans: Mapping[TopicPartition, LogSpan], options: SourceOptions
) -> list[PlannedRange]:
    """The ranges that tasks read: at least one for each partition, large ones in parts."""
    ranges = [TopicRange(at, span.start, span.end) for at, span in spans.items() if span.end > span.start]
    cut = split_ranges(ranges, min_partitions=_tasks(spark), max_records=options.max_records_per_partition)
    return [PlannedRange(each) for each in cut]


def count_topic(
    spark: SparkSession,
    tasks: Sequence[PlannedRange],
    options: SourceOptions,
    scope: Scope,
    compacted_topics: Collection[str],
) -> tuple[dict[int, dict[Cell, Tally]], list[Hole]]:
    """Tallies by part, and the holes in logs that are not compacted."""
    compacted = frozenset(compacted_topics)

    def count(task: PlannedRange) -> Iterator[pa.RecordBatch]:
        read, at = TopicRead(task, options), task.range.topic_partition
        yield from count_records(read, scope)
        if at.topic not in compacted:
            yield from hole_rows(at.topic, at.partition, [(each.first, each.last) for each in read.holes])

    parts = _collect(frame_of(spark, tasks, count, _PARTIAL_DDL, "audit-topics"))
    holes = parts.pop(HOLE, {})
    found = [
        Hole(TopicPartition(cell.topic, cell.partition), tally.least_offset, tally.most_offset)
        for cell, tally in holes.items()
    ]
    return parts, join_holes(found)


def count_table(spark: SparkSession, files: TableFiles, scope: Scope) -> dict[int, dict[Cell, Tally]]:
    """Tallies by part."""
    columns = list(files.columns)
    return _collect(
        frame_of(
            spark,
            _dealt(files.paths, spark),
            lambda paths: count_records(_rows(paths, columns), scope),
            _PARTIAL_DDL,
            "audit-lake",
        )
    )


def pick_from_topic(
    spark: SparkSession,
    tasks: Sequence[PlannedRange],
    options: SourceOptions,
    scope: Scope,
    *,
    part: int,
    cells: frozenset[Cell],
) -> DataFrame:
    """The records of cells."""
    return frame_of(
        spark,
        tasks,
        lambda task: pick_records(TopicRead(task, options), scope, part, cells),
        _PICKED_DDL,
        "audit-topics-offsets",
    )


def pick_from_table(
    spark: SparkSession, files: TableFiles, scope: Scope, *, part: int, cells: frozenset[Cell]
) -> DataFrame:
    """The rows of cells."""
    columns = list(files.columns)
    return frame_of(
        spark,
        _dealt(files.paths, spark),
        lambda paths: pick_records(_rows(paths, columns), scope, part, cells),
        _PICKED_DDL,
        "audit-lake-offsets",
    )


def compare(topic: DataFrame, lake: DataFrame, most: int) -> tuple[list[Finding], bool]:
    """Up to `most` offsets that differ, in order, and whether there are more."""
    both = topic.withColumn("of_lake", F.lit(0)).unionByName(lake.withColumn("of_lake", F.lit(1)))
    of_topic, of_lake = F.col("of_lake") == 0, F.col("of_lake") == 1
    offsets = both.groupBy("topic", "partition", "offset").agg(
        F.count(F.when(of_topic, 1)).alias("topic_records"),
        F.count(F.when(of_lake, 1)).alias("lake_records"),
        F.coalesce(F.min(F.when(of_topic, F.col("hour"))), F.min("hour")).alias("hour"),
        (F.min("content") == F.max("content")).alias("content_is_equal"),
        (F.min("places") == F.max("places")).alias("place_is_equal"),
    )
    alike = (F.col("topic_records") == 1) & (F.col("lake_records") == 1) & F.col("content_is_equal")
    differing = offsets.where(~(alike & F.col("place_is_equal"))).orderBy("topic", "partition", "offset")
    rows = differing.limit(most + 1).collect()
    return [_finding(row) for row in rows[:most]], len(rows) > most


def _finding(row: Row) -> Finding:
    kind = compare_offset(
        topic_records=row.topic_records,
        lake_records=row.lake_records,
        content_is_equal=row.content_is_equal,
        place_is_equal=row.place_is_equal,
    )
    assert isinstance(kind, Kind)
    return Finding(Cell(row.topic, row.partition, row.hour), row.offset, kind, row.lake_records)


def read_counts(spark: SparkSession, tasks: Sequence[PlannedRange], options: SourceOptions, scope: Scope) -> Told:
    """What producers told in a topic of count events, each event once."""
    told = frame_of(spark, tasks, lambda task: _parse(TopicRead(task, options, ("value",))), _EVENT_DDL, "audit-events")
    told = told.persist()
    try:
        unreadable = told.where("error is not null").groupBy("error").count().orderBy("error").limit(_NAMED_INSTANCES)
        once = told.where("error is null").dropDuplicates(["instance", "sequence", "topic", "partition", "hour"])
        heads, counts = once.where("topic is null"), once.where("topic is not null")
        sums = [F.sum(name).alias(name) for name in ("records", "content_high", "content_low")]
        bounds = [F.min(F.when(F.col("least") >= 0, F.col("least"))).alias("least"), F.max("most").alias("most")]
        instances = heads.groupBy("producer", "instance").agg(
            F.count("*").alias("events"), F.max("sequence").alias("sequence"), F.max("last").alias("last")
        )
        silent = instances.where("events < sequence or not last").orderBy("producer", "instance")
        return Told(
            {
                cell: tally
                for cell, tally in _cells(counts.groupBy("topic", "partition", "hour").agg(*sums, *bounds).collect())
                if _is_asked_for(cell, scope)
            },
            heads.count(),
            {row["error"]: row["count"] for row in unreadable.collect()},
            [Silence(*row) for row in silent.limit(_NAMED_INSTANCES).collect()],
        )
    finally:
        told.unpersist()


def _is_asked_for(cell: Cell, scope: Scope) -> bool:
    return (
        cell.topic in scope.topics
        and (scope.since_ms is None or cell.hour_ms >= scope.since_ms)
        and (scope.until_ms is None or cell.hour_ms < scope.until_ms)
    )


def _parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Events as rows: one of the event itself, without a topic, and one for each cell that it tells of."""
    names = [part.split()[0] for part in _EVENT_DDL.split(", ")]
    kinds = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "boolean": pa.bool_()}
    schema = pa.schema([pa.field(part.split()[0], kinds[part.split()[1]]) for part in _EVENT_DDL.split(", ")])
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for value in batch.column(0).to_pylist():
            rows += _event_rows(value)
        yield pa.RecordBatch.from_pylist([{name: row.get(name) for name in names} for row in rows], schema=schema)


def _event_rows(value: bytes | None) -> list[dict[str, Any]]:
    try:
        event = decode_event(value)
    except BadCountEvent as error:
        return [{"error": str(error)}]
    head = {
        "instance": event.instance,
        "producer": event.producer,
        "sequence": event.sequence,
        "last": event.last,
    }
    return [head] + [
        {
            **head,
            "topic": cell.topic,
            "partition": cell.partition,
            "hour": cell.hour_ms,
            "records": tally.records,
            "content_high": tally.content >> 32,
            "content_low": tally.content & 0xFFFFFFFF,
            "least": tally.least_offset,
            "most": tally.most_offset,
        }
        for cell, tally in add_up(counts_of(event)).items()
    ]


def _collect(partial: DataFrame) -> dict[int, dict[Cell, Tally]]:
    sums = [F.sum(name).alias(name) for name in _SUMS]
    added = partial.groupBy("topic", "partition", "hour", "part").agg(
        *sums, F.min("least").alias("least"), F.max("most").alias("most")
    )
    parts: dict[int, list[Row]] = {}
    for row in added.collect():
        parts.setdefault(row.part, []).append(row)
    return {part: dict(_cells(rows)) for part, rows in parts.items()}


def _cells(rows: Iterable[Row]) -> Iterator[tuple[Cell, Tally]]:
    for row in rows:
        sums = {name: value for name, value in row.asDict().items() if isinstance(value, int)}
        yield Cell(row.topic, row.partition, row.hour), NOTHING + tally_of({"least": -1, "most": -1, **sums})


def _dealt(paths: Sequence[str], spark: SparkSession) -> list[list[str]]:
    """Files in as many groups as there are tasks."""
    tasks = max(1, min(len(paths), _tasks(spark)))
    return [list(paths[at::tasks]) for at in range(tasks)]


def _rows(paths: Sequence[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            size = sum(file.metadata.row_group(at).total_byte_size for at in range(file.num_row_groups))
            rows = _BATCH_BYTES * file.metadata.num_rows // max(size, 1)
            yield from file.iter_batches(batch_size=min(max(rows, 1), _BATCH_ROWS), columns=columns)


def _tasks(spark: SparkSession) -> int:
    return _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
