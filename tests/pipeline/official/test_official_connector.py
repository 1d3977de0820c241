"""Spark's own Kafka connector on a cluster of ours, and beside our source: the same rows, whoever reads or writes."""

from collections.abc import Iterable
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.sink.topics import read_topic, values
from tests.pipeline.source.events import SECONDS, Event, counted, events_of, new_topic, produce

pytestmark = pytest.mark.usefixtures("official_connector")
FORMATS = ("kafka", "barnabas")


def read(spark: SparkSession, source: str, broker: RunningBroker, topic: str, **options: str) -> DataFrame:
    """A batch query of a topic through one of the sources, all columns."""
    return (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(**{"subscribe": topic, "includeHeaders": "true", **options})
        .load()
    )


def rows(spark: SparkSession, source: str, broker: RunningBroker, topic: str, **options: str) -> list[Event]:
    return list(events_of(read(spark, source, broker, topic, **options).collect()))


def copy_stream(
    spark: SparkSession, broker: RunningBroker, between: Iterable[str], topics: Iterable[str], folder: Path
) -> None:
    """Copy what one topic has into another as a stream, read and written in these formats."""
    (reads, writes), (source, target) = between, topics
    stream = (
        spark.readStream.format(reads)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(subscribe=source, startingOffsets="earliest", includeHeaders="true", maxOffsetsPerTrigger="150")
        .load()
    )
    query = (
        stream.select("key", "value", "headers", "partition")
        .writeStream.format(writes)
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .options(topic=target, checkpointLocation=str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS * 3)


def awkward() -> list[Event]:
    """Nulls, empty values, headers with and without a value, large and small ones."""
    plain = counted(300, partitions=3)
    odd = [
        Event(0, -1, None, None, 1_700_000_000_000),
        Event(1, -1, b"", b"", 1_700_000_000_001, (("h", b"v"), ("h", None), ("", b""))),
        Event(2, -1, b"k" * 10_000, b"v" * 500_000, 1_700_000_000_002, (("trace", bytes(range(256))),)),
    ]
    return plain + odd


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_both_sources_give_the_same_rows(spark: SparkSession, broker: RunningBroker, codec: str) -> None:
    topic = new_topic(broker, partitions=3)
    produced = produce(broker.bootstrap, topic, awkward(), **{"compression.type": codec})
    ours, theirs = (read(spark, each, broker, topic) for each in ("barnabas", "kafka"))
    assert ours.schema == theirs.schema
    assert rows(spark, "kafka", broker, topic) == rows(spark, "barnabas", broker, topic) == sorted(produced)


@pytest.mark.parametrize(
    "options",
    [
        {
            "startingOffsets": '{"TOPIC": {"0": 10, "1": -2, "2": 40}}',
            "endingOffsets": '{"TOPIC": {"0": 60, "1": 20, "2": -1}}',
        },
        {"startingTimestamp": "1700000050000"},
        {"startingTimestamp": "1700000050000", "endingTimestamp": "1700000200000"},
        {"startingOffsetsByTimestamp": '{"TOPIC": {"0": 1700000020000, "1": 1700000030000, "2": 1700000040000}}'},
        {"minPartitions": "7"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_both_sources_understand_options_alike(
    spark: SparkSession, broker: RunningBroker, options: dict[str, str]
) -> None:
    topic = new_topic(broker, partitions=3)
    produce(broker.bootstrap, topic, counted(300, partitions=3))
    named = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    ours, theirs = (rows(spark, each, broker, topic, **named) for each in ("barnabas", "kafka"))
    assert ours == theirs
    assert 0 < len(ours) <= 300


def test_both_sources_leave_out_what_was_aborted(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    for number in range(6):
        producer.begin_transaction()
        for part in range(10):
            producer.produce(topic, f"{number}/{part}")
        if number % 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
    committed = {"kafka.isolation.level": "read_committed"}
    ours, theirs = (rows(spark, each, broker, topic, **committed) for each in ("barnabas", "kafka"))
    assert ours == theirs
    assert [each.value for each in ours] == [b"%d/%d" % (number, part) for number in (0, 2, 4) for part in range(10)]


@pytest.mark.parametrize("writes", FORMATS)
def test_what_either_sink_wrote_both_sources_read(spark: SparkSession, broker: RunningBroker, writes: str) -> None:
    topic = new_topic(broker, partitions=3)
    frame = spark.range(2_000, numPartitions=2).selectExpr(
        "if(id % 10 = 0, null, cast(id as string)) key",
        "repeat(concat('value ', id), 5) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
        "cast(if(id % 10 = 0, id % 3, null) as int) partition",
    )
    to_topic = frame.write.format(writes).option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic)
    to_topic.mode("append").save()
    ours, theirs = (rows(spark, each, broker, topic) for each in ("barnabas", "kafka"))
    assert ours == theirs
    assert values(ours) == sorted(b"value %d" % number * 5 for number in range(2_000))
    assert {each.partition for each in ours if each.key is None} == {0, 1, 2}


def test_both_sinks_choose_the_same_partitions_for_keys(spark: SparkSession, broker: RunningBroker) -> None:
    topics = {each: new_topic(broker, partitions=7) for each in FORMATS}
    for writes, topic in topics.items():
        frame = spark.range(3_000).selectExpr("cast(id as string) key", "cast(id as string) value")
        to_topic = frame.write.format(writes).option("kafka.bootstrap.servers", broker.bootstrap)
        to_topic.option("topic", topic).mode("append").save()
    placed = {
        each: sorted((event.key or b"", event.partition) for event in read_topic(broker, topic))
        for each, topic in topics.items()
    }
    assert placed["kafka"] == placed["barnabas"]
    assert len(placed["kafka"]) == 3_000


@pytest.mark.parametrize("between", [("kafka", "kafka"), ("kafka", "barnabas"), ("barnabas", "kafka")], ids="-".join)
def test_streams_copy_a_topic_through_either_connector(
    spark: SparkSession, broker: RunningBroker, between: tuple[str, str], tmp_path: Path
) -> None:
    source, target = new_topic(broker, partitions=2), new_topic(broker, partitions=2)
    produced = produce(broker.bootstrap, source, counted(500, partitions=2))
    copy_stream(spark, broker, between, (source, target), tmp_path / "checkpoint")
    produced += produce(broker.bootstrap, source, counted(100, partitions=2, mark="later "))
    copy_stream(spark, broker, between, (source, target), tmp_path / "checkpoint")
    copied = [(each.partition, each.key, each.value) for each in read_topic(broker, target)]
    assert sorted(copied) == sorted((each.partition, each.key, each.value) for each in produced)  # type: ignore[type-var]
