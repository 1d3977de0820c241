"""Events into counts and sessions as Spark's streaming queries have them. It describes, and starts nothing.

An event is a record whose value is a JSON object with all fields that a count needs, the time among them. What is none
is left out and counted; what is later than the watermark Spark drops and counts. A result is written once, when the
watermark has passed the end of its window or session, as a record of JSON:

    key    {"page":"index"}
    value  {"name":"views","start":"2026-11-22T13:00:00.000Z","end":"2026-11-22T14:00:00.000Z",
            "key":{"page":"index"},"events":17}

A session starts with its first event and ends `gap` after its last one.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all who use Spark call it
from pyspark.sql.types import StringType, StructField, StructType

from barnabas.pipeline.activity.config import ActivityConfig, CountConfig, EventConfig, SessionConfig, interval
from barnabas.pipeline.jobs.config import ConfigError

RECORDS: Final = "records"
NO_EVENTS: Final = "no_events"
AHEAD: Final = "ahead"
_ISO: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_LEAST_MS: Final = -62_135_596_800_000
_MOST_MS: Final = 253_402_300_799_999
"""The years 1 to 9999, which Spark's functions of time end with."""


def counted(spark: SparkSession, config: ActivityConfig, count: CountConfig) -> DataFrame:
    """The results of a count, with columns key and value."""
    events = read_events(spark, config, count.keys, count.name)
    span = F.window("time", interval(count.window), interval(count.slide or count.window))
    return results(events.groupBy(span.alias("span"), *_columns(count.keys)), count.name, count.keys)


def sessions(spark: SparkSession, config: ActivityConfig, session: SessionConfig) -> DataFrame:
    """The results of sessions, with columns key and value."""
    events = read_events(spark, config, session.keys, session.name)
    span = F.session_window("time", interval(session.gap))
    return results(events.groupBy(span.alias("span"), *_columns(session.keys)), session.name, session.keys)


def read_events(spark: SparkSession, config: ActivityConfig, keys: Sequence[str], observed: str) -> DataFrame:
    """Events with a column `time`, which has the watermark, and a text for each key, named by `_columns`.

    How many records there were, how many of them are no events, and how many of these are ahead of their time, is
    observed under the name `observed`.
    """
    source = config.source
    records = (
        spark.readStream.format("barnabas")
        .options(**source.options)
        .options(**config.cluster.client_options())
        .option("kafka.isolation.level", "read_committed" if source.read_committed else "read_uncommitted")
        .option("subscribe", ",".join(source.topics))
        .option("startingOffsets", source.start)
        .option("maxOffsetsPerTrigger", str(source.max_offsets_per_batch))
        .schema("value binary, timestamp timestamp")
        .load()
    )
    return (
        parse(records, config.event, keys)
        .observe(
            observed,
            F.count(F.lit(1)).alias(RECORDS),
            F.count(F.when(~F.col("is_event"), 1)).alias(NO_EVENTS),
            F.count(F.when(F.col("is_ahead"), 1)).alias(AHEAD),
        )
        .where("is_event and not is_ahead")
        .withWatermark("time", interval(config.watermark))
    )


def parse(records: DataFrame, event: EventConfig, keys: Sequence[str]) -> DataFrame:
    """From values and timestamps of records to their keys and times, and whether they are events."""
    fields = [*keys, *([] if event.time is None else [event.time])]
    parsed = records.select("timestamp", F.from_json(F.col("value").cast("string"), shape_of(fields)).alias("event"))
    named = [_field(key).alias(name) for name, key in zip(_columns(keys), keys, strict=True)]
    events = parsed.select("timestamp", _time(event).alias("time"), *named)
    is_event = F.col("time").isNotNull()
    for name in _columns(keys):
        is_event &= F.col(name).isNotNull()
    # The other way round Spark could leave its range of times, and with it the query would end.
    earlier = F.col("time") - F.expr(f"interval {interval(event.ahead)}")
    is_ahead = F.coalesce(is_event & (earlier > F.col("timestamp")), F.lit(False))
    return events.withColumn("is_event", is_event).withColumn("is_ahead", is_ahead)


def results(grouped: GroupedData, name: str, keys: Sequence[str]) -> DataFrame:
    """The count of each group, whose span is a window or a session, as a record."""
    key = F.struct(*(F.col(column).alias(key) for column, key in zip(_columns(keys), keys, strict=True)))
    value = F.struct(
        F.lit(name).alias("name"),
        F.date_format("span.start", _ISO).alias("start"),
        F.date_format("span.end", _ISO).alias("end"),
        key.alias("key"),
        F.col("events"),
    )
    counts = grouped.agg(F.count(F.lit(1)).alias("events"))
    return counts.select(F.to_json(key).alias("key"), F.to_json(value).alias("value"))


def shape_of(fields: Sequence[str]) -> StructType:
    """The schema that has these fields, by their paths, as texts, and nothing else. Raises ConfigError."""
    outer: dict[str, list[str]] = {}
    for field in fields:
        name, _, inner = field.partition(".")
        outer.setdefault(name, []).append(inner)
    shape = StructType()
    for name, paths in outer.items():
        if any(paths) and not all(paths):
            raise ConfigError(f"the field {name} cannot be used both as a whole and as an object with fields")
        shape.add(StructField(name, shape_of(paths) if all(paths) else StringType()))
    return shape


def _time(event: EventConfig) -> Column:
    """The time of an event, null where it has none that Spark can count with."""
    if event.time is None:
        at_ms = F.unix_millis("timestamp")
    elif event.time_format == "iso8601":
        return F.try_to_timestamp(_field(event.time))
    else:
        factor = 1000 if event.time_format == "s" else 1
        at_ms = (_field(event.time).try_cast("decimal(28, 6)") * factor).try_cast("bigint")
    return F.timestamp_millis(F.when(at_ms.between(_LEAST_MS, _MOST_MS), at_ms))


def _field(path: str) -> Column:
    return F.col(".".join(["event", *(f"`{name}`" for name in path.split("."))]))


def _columns(keys: Sequence[str]) -> list[str]:
    """Names of columns for keys, whose own may be any text."""
    return [f"key_{number}" for number in range(len(keys))]
