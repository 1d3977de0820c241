"""What the job activity does: a streaming query for each count and each kind of sessions, until they end.

The state is Spark's, one checkpoint for each query: which offsets a batch reads is written down before it begins, what
is counted when it ends. After a kill at any moment the batch is done again from the same offsets and the same counts,
with the same results; these the sink writes in transactions that bear query and batch, so that the topic has them once.

A checkpoint belongs to the description of its count, which stands beside it: with another one the job refuses to go on,
as windows of two kinds would be mixed.
"""

import contextlib
import json
import os
from typing import Any, Final

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.pipeline.activity.config import ActivityConfig, CountConfig, SessionConfig, interval
from barnabas.pipeline.activity.queries import AHEAD, NO_EVENTS, RECORDS, counted, sessions
from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.lake.folder import absolute, publish, read_file, require_writable
from barnabas.pipeline.spark_errors import explain
from barnabas.pipeline.stream_following import FollowedQuery, await_sources

_PAUSE_S: Final = 0.2


def count(run: Run[ActivityConfig]) -> None:
    """Run all queries. Raises JobFailed for the first that fails; the others are stopped. LakeError, ConfigError."""
    config = run.config
    checkpoint = absolute(config.checkpoint)
    require_writable(checkpoint)
    described: tuple[CountConfig | SessionConfig, ...] = (*config.counts, *config.sessions)
    for each in described:
        require_same(checkpoint, each, config)
    spark = run.spark()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.shuffle.partitions", str(config.state_partitions))
    frames = {each.name: counted(spark, config, each) for each in config.counts}
    frames |= {each.name: sessions(spark, config, each) for each in config.sessions}
    followed: list[Followed] = []
    try:
        for name, frame in frames.items():
            query = start(config, checkpoint, name, frame)
            followed.append(Followed(run, name, query))
            await_sources(query, run)
        while sum(begun.follow() for begun in followed) and not run.stopping.wait(_PAUSE_S):
            run.progress.show("; ".join(begun.state() for begun in followed))
    except PySparkException as error:
        raise JobFailed(explain(error)) from error
    finally:
        for begun in followed:
            begun.end()


def start(config: ActivityConfig, checkpoint: str, name: str, results: DataFrame) -> StreamingQuery:
    """Start a query, where its checkpoint says."""
    writer = (
        results.writeStream.format("barnabas")
        .queryName(name)
        .outputMode("append")
        .options(**config.cluster.client_options())
        .options(**config.output.options)
        .option("kafka.bootstrap.servers", config.cluster.bootstrap_servers)
        .option("topic", config.output.topic)
        .option("checkpointLocation", os.path.join(checkpoint, name))
    )
    if config.output.transactional:
        writer = writer.option("transactionalIdPrefix", f"{config.output.topic}-{name}")
    if config.every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=interval(config.every)).start()


def require_same(checkpoint: str, count: CountConfig | SessionConfig, config: ActivityConfig) -> None:
    """Note what a count is when it is new. Raises ConfigError where its checkpoint is of another one."""
    described = {
        "count": msgspec.to_builtins(count),
        "topics": config.source.topics,
        "event": msgspec.to_builtins(config.event),
        "watermark": config.watermark,
        "output": config.output.topic,
        "state_partitions": config.state_partitions,
    }
    wanted = json.dumps(described, sort_keys=True).encode()
    path = os.path.join(checkpoint, f"{count.name}.json")
    if not publish(path, wanted) and read_file(path) != wanted:
        found = json.loads(read_file(path) or b"{}")
        differing = ", ".join(name for name, value in json.loads(wanted).items() if found.get(name) != value)
        raise ConfigError(
            f"the checkpoint of {count.name} in {checkpoint} is of another {differing}: what it has counted would be "
            "mixed with what this would. Give the count another name, or set it back"
        )


class Followed:
    """A query that runs, and how much of what it did is told already."""

    def __init__(self, run: Run[ActivityConfig], name: str, query: StreamingQuery) -> None:
        self._run = run
        self._name = name
        self._query = query
        self._batches = FollowedQuery(query)
        self._told = -1
        self._records = 0

    def follow(self) -> bool:
        """Tell what is new; whether the query goes on. Raises JobFailed where it failed."""
        is_active = self._query.isActive
        for progress in self._batches.batches():
            self._tell(json.loads(progress.json))
        failure = None if is_active else self._query.exception()
        if failure is not None:
            raise JobFailed(f"{self._name}: {explain(failure)}") from failure
        return is_active

    def state(self) -> str:
        """One phrase."""
        return f"{self._name}: batch {self._told}, {self._records} records" if self._told >= 0 else self._name

    def end(self) -> None:
        """Stop the query; a batch that is under way is done again by the next run."""
        # Why it failed is told by `follow`, or the job fails for another reason.
        with contextlib.suppress(StreamingQueryException):
            self._query.stop()

    def _tell(self, progress: dict[str, Any]) -> None:
        self._told = progress["batchId"]
        observed = progress.get("observedMetrics", {}).get(self._name, {})
        states = progress.get("stateOperators", [])
        told = {
            RECORDS: observed.get(RECORDS, 0),
            NO_EVENTS: observed.get(NO_EVENTS, 0),
            AHEAD: observed.get(AHEAD, 0),
            "late": sum(each.get("numRowsDroppedByWatermark", 0) for each in states),
            "results": sum(each.get("numRowsRemoved", 0) for each in states),
            "open": sum(each.get("numRowsTotal", 0) for each in states),
        }
        self._records += told[RECORDS]
        for key, number in told.items():
            if key != "open":
                self._run.report.add(f"{self._name}.{key}", number)
        self._run.report.tell(f"{self._name}.open", told["open"])
        watermark = progress.get("eventTime", {}).get("watermark")
        self._run.report.add_batch({"count": self._name, "batch": self._told, **told, "watermark": watermark})
