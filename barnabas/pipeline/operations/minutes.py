"""The job `minutes`: least, mean and greatest of every figure in every minute, by Spark, into a table or a topic.

A minute is told once, when no figure of it is expected any more: `late_s` after the newest one that was seen. Spark
keeps the open minutes and the offsets in the checkpoint. A batch that is done again after a kill has the same minutes;
the table takes a batch of a query once (see lake/table.py), and so does the topic, by transactions.
"""

import json
import os
from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.jobs.report import RunReport
from barnabas.pipeline.lake.folder import absolute, new_token, read_file, require_writable
from barnabas.pipeline.lake.names import batch_file
from barnabas.pipeline.lake.partition_writer import PartitionWriter
from barnabas.pipeline.lake.table import BatchCommit, CompactionPlan, LakeError, LakeTable, TableSchema
from barnabas.pipeline.lake.tables import create_table
from barnabas.pipeline.operations.config import MinutesConfig, OperationsConfig
from barnabas.pipeline.spark_errors import explain
from barnabas.pipeline.stream_following import FollowedQuery

__all__ = ["OperationsConfig", "run"]

_SAMPLE: Final = (
    "time BIGINT, host STRING, broker INT, figures ARRAY<STRUCT<metric: STRING, value: DOUBLE, labels: STRING>>"
)
_COLUMNS: Final = pa.schema(
    [
        ("minute", pa.timestamp("us", tz="UTC")),
        ("host", pa.string()),
        ("broker", pa.int32()),
        ("metric", pa.string()),
        ("labels", pa.string()),
        ("least", pa.float64()),
        ("mean", pa.float64()),
        ("greatest", pa.float64()),
        ("count", pa.int64()),
    ]
)
_PARTITIONS: Final = pa.schema([("date", pa.date32())])
_COMPACT_FILES: Final = 64
_COMPACT_EVERY: Final = 60
_PAUSE_S: Final = 0.5
_STATE_PARTITIONS: Final = 4


def run(run: Run[OperationsConfig]) -> None:
    """Make minutes until there are no more, or until it is told to stop. Raises JobFailed."""
    config = run.config.minutes
    if config is None:
        raise JobFailed("the configuration has no section [minutes]; give it checkpoint and table, or topic")
    try:
        checkpoint = absolute(config.checkpoint)
        require_writable(checkpoint)
        table = None if config.table is None else create_table(config.table, config.format, _schema())
        spark = run.spark()
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.shuffle.partitions", str(_STATE_PARTITIONS))
        query = _start(run, config, checkpoint, table, minutes_of(spark, run.config, config))
        _follow(run, query)
    except PySparkException as error:
        raise JobFailed(explain(error)) from error
    except (LakeError, ConfigError) as error:
        raise JobFailed(str(error)) from error


def minutes_of(spark: SparkSession, config: OperationsConfig, minutes: MinutesConfig) -> DataFrame:
    """The minutes as a stream."""
    records = (
        spark.readStream.format("barnabas")
        .options(**config.cluster.client_options())
        .option("subscribe", config.topic)
        .option("startingOffsets", "earliest")
        .schema("value BINARY")
        .load()
    )
    samples = records.select(f.from_json(f.col("value").cast("string"), _SAMPLE).alias("sample"))
    figures = samples.where("sample.time IS NOT NULL").select(
        f.timestamp_millis("sample.time").alias("time"),
        "sample.host",
        "sample.broker",
        f.explode("sample.figures").alias("figure"),
    )
    return (
        figures.withWatermark("time", f"{minutes.late_s} seconds")
        .groupBy(
            f.window("time", "1 minute").alias("window"),
            "host",
            "broker",
            f.col("figure.metric").alias("metric"),
            f.col("figure.labels").alias("labels"),
        )
        .agg(
            f.min("figure.value").alias("least"),
            f.avg("figure.value").alias("mean"),
            f.max("figure.value").alias("greatest"),
            f.count("figure.value").alias("count"),
        )
        .select(f.col("window.start").alias("minute"), *_COLUMNS.names[1:])
    )


def _schema() -> TableSchema:
    return TableSchema(_COLUMNS, _PARTITIONS)


def _start(
    run: Run[OperationsConfig], minutes: MinutesConfig, checkpoint: str, table: LakeTable | None, frame: DataFrame
) -> StreamingQuery:
    if table is not None:
        writer = frame.writeStream.foreachBatch(_table_writer(table, checkpoint, run.report))
    else:
        assert minutes.topic is not None
        key = f.to_json(f.struct("host", "broker", "metric", "labels"))
        writer = (
            frame.select(key.alias("key"), f.to_json(f.struct("*")).alias("value"))
            .writeStream.format("barnabas")
            .options(**run.config.cluster.client_options())
            .option("topic", minutes.topic)
            .option("transactionalIdPrefix", f"{minutes.topic}-minutes")
        )
    writer = writer.outputMode("append").option("checkpointLocation", checkpoint)
    if minutes.mode == "catch_up":
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{minutes.trigger_s} seconds").start()


def _table_writer(table: LakeTable, checkpoint: str, report: RunReport) -> Callable[[DataFrame, int], None]:
    """What puts each batch into the table. A minute is a few hundred rows: the driver writes them itself."""
    token = new_token()

    def write(frame: DataFrame, batch: int) -> None:
        query = f"minutes-{_query_id(checkpoint)}"
        last = table.committed(query)
        if last is not None and last >= batch:
            return
        rows = frame.toArrow().select(_COLUMNS.names).cast(_COLUMNS)
        if not rows.num_rows:
            return
        number = iter(range(rows.num_rows + 1))
        writer = PartitionWriter(
            table.location, _COLUMNS, lambda: batch_file(query, batch, run=token, attempt=0, number=next(number))
        )
        for date, part in _by_date(rows):
            for each in part.to_batches():
                writer.write(each, (("date", date),))
        table.commit(BatchCommit(query, batch, last, tuple(writer.close()), {"rows": rows.num_rows}), _schema())
        report.add("minutes", rows.num_rows)
        report.add("commits", 1)
        if report.counts["commits"] % _COMPACT_EVERY == 0:
            table.compact(CompactionPlan(least_files=_COMPACT_FILES))

    return write


def _by_date(rows: pa.Table) -> list[tuple[str, pa.Table]]:
    dates = rows["minute"].cast(pa.date32())
    return [(str(date), rows.filter(pa.compute.equal(dates, date))) for date in sorted(dates.unique().to_pylist())]


def _query_id(checkpoint: str) -> str:
    """The id that Spark gave the query when its checkpoint was made; it has written it before the first batch."""
    content = read_file(os.path.join(checkpoint, "metadata"))
    if content is None:
        raise LakeError(f"{checkpoint} has no file metadata any more; restore the checkpoint")
    return str(json.loads(content)["id"])


def _follow(run: Run[OperationsConfig], query: StreamingQuery) -> None:
    """Wait until a query ends or is told to. Raises what ended it."""
    followed = FollowedQuery(query)
    try:
        while query.isActive and not run.stopping.wait(_PAUSE_S):
            _tell(run, followed)
    finally:
        followed.end()
    _tell(run, followed)


def _tell(run: Run[OperationsConfig], followed: FollowedQuery) -> None:
    for batch in followed.batches():
        run.report.add("batches", 1)
        run.report.add("samples", batch.numInputRows)
        watermark = batch.eventTime.get("watermark", "")
        run.progress.show(f"batch {batch.batchId}: {batch.numInputRows} samples, watermark {watermark}")
