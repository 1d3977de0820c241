"""Puts a load together and runs its query until it ends, fails, or is asked to stop."""

import asyncio
import datetime as dt
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from barnabas.pipeline.jobs.config import ConfigError, duration_ms
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.folder import new_token
from barnabas.pipeline.lake.names import QUERY_NAME
from barnabas.pipeline.lake.parquet import ParquetOptions
from barnabas.pipeline.lake.partition_writer import WriterOptions
from barnabas.pipeline.lake.table import TableSchema
from barnabas.pipeline.load.batches import BatchLoader, Compacting, Limits
from barnabas.pipeline.load.checkpoint import BackfillPlan, Checkpoints
from barnabas.pipeline.load.config import MIB, BackfillConfig, LoadConfig, PartitionConfig
from barnabas.pipeline.load.event_time import EventTime
from barnabas.pipeline.load.job import compaction_plan
from barnabas.pipeline.load.payloads.spec import PayloadSpec, new_decoder, read_spec
from barnabas.pipeline.load.publishing import LoadTables, require_place
from barnabas.pipeline.load.range_load import RangeLoad
from barnabas.pipeline.load.range_source import SOURCE, TARGETS, RangeSource
from barnabas.pipeline.load.rows import dead_letter_columns, table_columns
from barnabas.pipeline.load.steps import Span, merge, require_checkpoint
from barnabas.pipeline.source.batch_plan import plan_batch
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.filters import Pushed
from barnabas.pipeline.source.options import SourceOptions, parse_batch_options, parse_stream_options
from barnabas.pipeline.source.partition_json import nest, numbers_of
from barnabas.pipeline.source.planning import EdgeError, TopicRange
from barnabas.pipeline.spark_errors import explain

_LOOK_S: Final = 0.5
_BATCHES_TOLD: Final = 1000
_OF_BATCHES: Final = {
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "minpartitions",
    "maxrecordsperpartition",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
}
"""Options that say how a stream is cut into batches and tasks."""


def load(run: Run[LoadConfig]) -> None:
    """Load until there is nothing left, or for ever. Raises JobFailed, ConfigError, LakeError, LoadRefused."""
    config = run.config
    backfill = config.backfill if config.mode == "backfill" else None
    query = config.name if backfill is None else f"{config.name}.backfill.{backfill.id}"
    if not QUERY_NAME.fullmatch(query):
        raise ConfigError(f"name = {config.name!r}: with the id of its backfill it is longer than 100 letters")
    options = source_options(config)
    parsed = parse_stream_options(options)
    checkpoints = Checkpoints(config.checkpoint, None if backfill is None else backfill.id)
    checkpoints.require_writable()
    require_place(config.table.path, config.dead_letters.path)
    if checkpoints.id() is None:
        # A wrong address or name shows before Spark is started. Of an older query the stream tells what is lost.
        asyncio.run(_require_topics(parsed))
    spark = run.spark()
    spec = read_spec(config.payload, _spark_json)
    tables, loader = _new_loader(run, query, spec, checkpoints, options)
    known = loader.prepare()
    require_checkpoint(query, last=tables.last_batch(), known=known, found=checkpoints.id(), where=checkpoints.location)
    if backfill is not None:
        options = _bounded(options, _plan(backfill, options, checkpoints, loader))
    stream = start(spark, loader, options, checkpoints, config)
    _attend(run, stream, loader)


async def _require_topics(options: SourceOptions) -> None:
    """Raise OptionError where a topic does not exist, ClientError where no broker answers."""
    async with ClusterView(options) as view:
        await view.partitions(all_must_exist=True)


def source_options(config: LoadConfig) -> dict[str, str]:
    """The options of the source `barnabas` that a configuration stands for."""
    source = config.source
    which = (
        {"subscribe": ",".join(source.topics)} if source.topics else {"subscribePattern": source.topic_pattern or ""}
    )
    return {
        **config.cluster.client_options(),
        **source.options,
        **which,
        "kafka.bootstrap.servers": config.cluster.bootstrap_servers,
        "kafka.isolation.level": "read_committed" if source.read_committed else "read_uncommitted",
        "startingOffsets": source.start,
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
        "includeHeaders": str(config.table.headers).lower(),
        "maxOffsetsPerTrigger": str(source.max_offsets_per_batch),
    }


def event_time(config: PartitionConfig, payload: pa.DataType) -> EventTime:
    """Whose time counts. Raises ConfigError for a field that the payload does not have or that is no time."""
    if config.event_time is not None:
        if not pa.types.is_struct(payload) or payload.get_field_index(config.event_time) < 0:
            raise ConfigError(f"partitions.event_time = {config.event_time!r}: the payload has no such field")
        kind = payload.field(config.event_time).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
            raise ConfigError(f"partitions.event_time = {config.event_time!r}: it is {kind}, which is no time")
    earliest = time_ms("partitions.earliest", config.earliest)
    latest = time_ms("partitions.latest", config.latest)
    if not earliest < latest:
        raise ConfigError(f"partitions.latest = {config.latest!r}: it is not after earliest ({config.earliest})")
    return EventTime(config.by, earliest * 1000, latest * 1000, config.event_time, config.unit)


def time_ms(key: str, text: str) -> int:
    """A time or a date in ISO 8601; without a zone it is UTC. Raises ConfigError."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{key} = {text!r}: it must be a time as 2024-05-01T12:00:00Z, or a date") from None
    return int((found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _new_loader(
    run: Run[LoadConfig], query: str, spec: PayloadSpec, checkpoints: Checkpoints, options: Mapping[str, str]
) -> tuple[LoadTables, BatchLoader]:
    config = run.config
    decoder = new_decoder(spec)
    times = event_time(config.partitions, decoder.kind)
    tables = LoadTables(
        query,
        config.table.path,
        config.table.format,
        schema=TableSchema(table_columns(decoder.kind, headers=config.table.headers), times.partitions()),
        dead_letter_path=config.dead_letters.path,
        dead_letter_schema=TableSchema(dead_letter_columns(headers=config.table.headers)),
    )
    source, token = parse_stream_options(options), new_token()
    sizes = config.table
    writer = WriterOptions(
        ParquetOptions(sizes.compression, sizes.compression_level),
        file_bytes=sizes.file_mib * MIB,
        group_bytes=sizes.row_group_mib * MIB,
        waiting_bytes=sizes.waiting_mib * MIB,
        open_files=sizes.open_files,
    )

    def new_load(batch: int, late_before_us: int | None) -> RangeLoad:
        return RangeLoad(
            query=query,
            batch=batch,
            run=token,
            location=tables.data.location,
            dead_letter_location=tables.dead_letter_location,
            source=source,
            payload=spec,
            event_time=times,
            writer=writer,
            headers=config.table.headers,
            late_before_us=late_before_us,
        )

    dead = config.dead_letters
    return tables, BatchLoader(
        tables,
        new_load,
        limits=Limits(dead.max_dead_letters, dead.max_dead_letter_fraction, config.table.overlap),
        compacting=Compacting(config.compaction.every_batches, compaction_plan(config.compaction)),
        late_after_us=duration_ms("partitions.late_after", config.partitions.late_after) * 1000,
        checkpoint=checkpoints.id,
        told=_Teller(run).batch,
    )


class _Teller:
    """Tells of batches: in the report the first thousand, and sums of all."""

    def __init__(self, run: Run[LoadConfig]) -> None:
        self._run = run
        self._batches = 0

    def batch(self, told: dict[str, Any]) -> None:
        report = self._run.report
        self._batches += 1
        if self._batches <= _BATCHES_TOLD:
            report.add_batch(told)
        report.add("batches", 1)
        for name in ("rows", "dead_letters", "gaps", "late", "files", "bytes", "offsets"):
            report.add(name, told.get(name, 0))
        counts = report.counts
        self._run.progress.show(
            f"batch {told['batch']}: {counts['rows']:,} rows loaded, {counts['dead_letters']:,} dead letters"
        )


def start(
    spark: SparkSession, loader: BatchLoader, options: Mapping[str, str], checkpoints: Checkpoints, config: LoadConfig
) -> StreamingQuery:
    """Start the query."""
    spark.dataSource.register(RangeSource)
    given = dict(options)
    if "minpartitions" not in {name.lower() for name in given}:
        given["minPartitions"] = str(spark.sparkContext.defaultParallelism)
    writer = (
        spark.readStream.format(SOURCE)
        .options(**given)
        .load()
        .writeStream.foreachBatch(loader.process)
        .option("checkpointLocation", checkpoints.location)
    )
    if config.every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{duration_ms('every', config.every)} milliseconds").start()


def _attend(run: Run[LoadConfig], stream: StreamingQuery, loader: BatchLoader) -> None:
    try:
        while not stream.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # fractions of a second are taken
            if run.stopping.is_set():
                stream.stop()
                return
    except PySparkException as error:
        failure = loader.failure
        if failure is not None and not isinstance(failure, PySparkException):
            # Spark has made a text of it.
            raise failure from error
        raise JobFailed(explain(error)) from error


def _spark_json(ddl: str) -> str:
    try:
        return str(StructType.fromDDL(ddl).json())
    except PySparkException as error:
        raise ConfigError(f"payload.schema = {ddl!r}: Spark takes it for no schema: {str(error)[:300]}") from None


def _plan(
    backfill: BackfillConfig, options: Mapping[str, str], checkpoints: Checkpoints, loader: BatchLoader
) -> BackfillPlan:
    """Where the backfill starts and ends: as it was found out when it began. Raises LoadRefused, ConfigError."""
    asked = _edges(backfill)
    plan = checkpoints.plan(asked)
    if plan is None:
        given = {name: value for name, value in options.items() if name.lower() not in _OF_BATCHES}
        parsed = parse_batch_options({**given, "startingOffsets": "earliest", **asked})

        async def ranges() -> list[TopicRange]:
            async with ClusterView(parsed) as view:
                return await plan_batch(view, parsed, Pushed())

        try:
            found = asyncio.run(ranges())
        except EdgeError as error:
            raise ConfigError(f"backfill: {error}") from None
        if not found:
            raise JobFailed(f"the backfill {backfill.id} has nothing to load between {asked}")
        spans = merge(Span(each.topic_partition, each.start, each.end) for each in found)
        loader.require_free(spans)
        plan = BackfillPlan(
            asked=asked,
            starts=nest({each.topic_partition: each.start for each in spans}),
            ends=nest({each.topic_partition: each.end for each in spans}),
        )
        checkpoints.keep(plan)
    return plan


def _edges(backfill: BackfillConfig) -> dict[str, str]:
    """The edges as options of the source."""
    edges = {}
    for side, time, offsets in (
        ("starting", backfill.start_time, backfill.start_offsets),
        ("ending", backfill.end_time, backfill.end_offsets),
    ):
        if time is not None:
            edges[f"{side}Timestamp"] = str(time_ms(f"backfill.{side[:-3]}_time", time))
            if side == "starting":
                # A partition without later records has nothing to load.
                edges["startingOffsetsByTimestampStrategy"] = "latest"
        else:
            edges[f"{side}Offsets"] = json.dumps(offsets, sort_keys=True)
    return edges


def _bounded(options: Mapping[str, str], plan: BackfillPlan) -> dict[str, str]:
    """The options of a stream that begins and ends as planned."""
    ends = numbers_of(plan.ends)
    assigned: dict[str, list[int]] = {}
    for each in sorted(ends):
        assigned.setdefault(each.topic, []).append(each.partition)
    rest = {name: value for name, value in options.items() if name not in {"subscribe", "subscribePattern"}}
    return {
        **rest,
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(plan.starts),
        TARGETS: json.dumps(plan.ends),
    }
