"""Batch queries on a real Spark: what was produced is what is read."""

import confluent_kafka
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession

from tests.compatibility.brokers import RunningBroker
from tests.compatibility.messages import CODECS
from tests.pipeline.source.events import Event, counted, delete_records, events_of, new_topic, produce, send

pytestmark = pytest.mark.timeout(600)


def reading(spark: SparkSession, broker: RunningBroker, topic: str, **options: str) -> DataFrameReader:
    return (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", topic)
        .options(**options)
    )


def test_all_that_was_produced_is_read(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker, partitions=2)
    headers = (("a", b"1"), ("a", None), ("", b""))
    produced: list[Event] = []
    for codec in CODECS:
        events = [
            Event(0, -1, None, b"no key " * 20, 1_700_000_000_001),
            Event(1, -1, b"no value", None, 1_700_000_000_002),
            Event(0, -1, b"", b"", 1),
            Event(1, -1, b"k", codec.encode(), 1_700_000_000_003, headers),
        ] * 50
        produced += produce(broker.bootstrap, topic, events, **{"compression.type": codec})
    rows = reading(spark, broker, topic, includeHeaders="true").load().collect()
    assert events_of(rows) == sorted(produced)
    assert {row.topic for row in rows} == {topic}
    assert {row.timestampType for row in rows} == {0}


def test_a_schema_with_fewer_columns_reads_these(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker)
    produced = produce(broker.bootstrap, topic, counted(300))
    table = reading(spark, broker, topic, minPartitions="2").schema("offset bigint, value binary").load()
    assert table.columns == ["offset", "value"]
    assert table.rdd.getNumPartitions() == 2
    rows = [(row.offset, bytes(row.value)) for row in table.collect()]
    assert sorted(rows) == [(each.offset, each.value) for each in sorted(produced)]
    with pytest.raises(PySparkException, match="column value is binary, not string; ask for it so"):
        reading(spark, broker, topic).schema("value string").load().collect()


def test_large_partitions_are_split_where_segments_begin(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(settings={"retention.ms": "-1", "segment.bytes": "5000"})
    produced = produce(broker.bootstrap, topic, counted(3_000), **{"batch.num.messages": 50})
    table = reading(spark, broker, topic, minPartitions="4").load()
    assert broker.log_directory is not None
    segments = {int(each.stem) for each in (broker.log_directory / f"{topic}-0").glob("*.log")}
    assert len(segments) > 6
    tasks = table.selectExpr("spark_partition_id() task", "offset").groupBy("task").agg({"offset": "min"}).collect()
    assert len(tasks) == 4
    assert {row["min(offset)"] for row in tasks} <= segments
    assert [bytes(row.value) for row in table.orderBy("offset").collect()] == [each.value for each in produced]


def test_aborted_transactions_are_read_only_when_they_are_asked_for(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "linger.ms": 5}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(60)
    committed: list[Event] = []
    aborted: list[Event] = []
    for number, event in enumerate(counted(40)):
        if number % 10 == 0:
            producer.begin_transaction()
        send(producer, topic, event, aborted if number // 10 % 2 else committed)
        if number % 10 == 9:
            producer.flush(60)
            producer.abort_transaction(60) if number // 10 % 2 else producer.commit_transaction(60)
    plain = produce(broker.bootstrap, topic, counted(5))
    seen = reading(spark, broker, topic, includeHeaders="true", **{"kafka.isolation.level": "read_committed"})
    assert events_of(seen.load().collect()) == sorted(committed + plain)
    all_of_it = reading(spark, broker, topic, includeHeaders="true")
    assert events_of(all_of_it.load().collect()) == sorted(committed + aborted + plain)


def test_predicates_are_taken_over_where_spark_lets_them(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker, partitions=3)
    produced = produce(broker.bootstrap, topic, counted(300, partitions=3))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        table = reading(spark, broker, topic, includeHeaders="true").load()
        table = table.where(
            "partition = 1 and offset >= 20 and offset < 70 and timestamp >= timestamp_millis(1700000100000)"
        )
        rows = table.collect()
        tasks = table.rdd.getNumPartitions()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    wanted = [
        each
        for each in sorted(produced)
        if each.partition == 1 and 20 <= each.offset < 70 and each.timestamp_ms >= 1_700_000_100_000
    ]
    assert events_of(rows) == wanted
    assert wanted
    assert tasks == 1


def test_records_that_are_gone_end_the_query_or_are_left_out(spark: SparkSession, broker: RunningBroker) -> None:
    topic = new_topic(broker)
    produced = produce(broker.bootstrap, topic, counted(100))
    delete_records(broker.bootstrap, topic, 0, 60)
    starts = f'{{"{topic}":{{"0":10}}}}'
    with pytest.raises(PySparkException, match=f"{topic}-0 at offset 10: the log starts at 60"):
        reading(spark, broker, topic, startingOffsets=starts).load().collect()
    borne = reading(spark, broker, topic, startingOffsets=starts, failOnDataLoss="false", includeHeaders="true")
    assert events_of(borne.load().collect()) == sorted(produced)[60:]
