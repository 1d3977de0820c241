"""Batch writes on a real Spark: what rows say is what stands in the topics."""

import datetime as dt
import time
from typing import Any

import pytest
from kafka.partitioner.default import murmur2
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.sink.topics import read_topic, values

ALL_COLUMNS = (
    "key binary, value binary, topic string, partition int, headers array<struct<key: string, value: binary>>, "
    "timestamp timestamp"
)
SECONDS = 60


def write(table: DataFrame, broker: RunningBroker, *, mode: str = "append", **options: str) -> None:
    writer = table.write.format("barnabas").option("kafka.bootstrap.servers", broker.bootstrap).options(**options)
    try:
        writer.mode(mode).save()
    finally:
        # A write fails as soon as one of its tasks does. Another one may come later still and fence the next write's.
        await_tasks(table.sparkSession)


def await_tasks(spark: SparkSession) -> None:
    deadline = time.monotonic() + SECONDS
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    while running := sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        assert time.monotonic() < deadline, f"{running} tasks still run after {SECONDS} s"
        time.sleep(0.05)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_rows_say_stands_in_the_topics_to_the_byte(spark: SparkSession, broker: RunningBroker, codec: str) -> None:
    topics = [broker.new_topic(partitions=2, settings={"retention.ms": "-1"}) for _ in range(2)]
    moment = dt.datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=dt.UTC)
    headers = [("a", b"1"), ("a", None), ("", b""), ("ü", bytes(range(256)))]
    rows: list[tuple[Any, ...]] = [
        (b"k", b"v" * 1000, topics[0], 0, headers, moment),
        (None, b"", topics[0], 1, None, moment + dt.timedelta(days=1)),
        (b"", None, topics[1], 1, [], moment - dt.timedelta(days=1)),
        (bytes(range(256)), bytes(range(256)), topics[1], 0, [("only", None)], moment),
    ] * 50
    write(spark.createDataFrame(rows, ALL_COLUMNS).coalesce(1), broker, **{"kafka.compression.type": codec})
    for topic in topics:
        found = read_topic(broker, topic)
        assert [each.offset for each in found] == [*range(50), *range(50)]
        wanted = sorted(
            (partition, key, value, int(at.timestamp() * 1000), tuple(given or ()))
            for key, value, where, partition, given, at in rows
            if where == topic
        )
        assert [(e.partition, e.key, e.value, e.timestamp_ms, e.headers) for e in found] == wanted


def test_keys_go_to_the_partitions_that_kafkas_clients_choose(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=7)
    table = spark.range(3000).selectExpr("concat('key-', id % 500) as key", "string(id) as value")
    write(table.coalesce(1), broker, topic=topic)
    found = read_topic(broker, topic)
    assert {each.partition for each in found} == set(range(7))
    assert all(each.partition == (murmur2(each.key) & 0x7FFFFFFF) % 7 for each in found)
    assert values(found) == sorted(b"%d" % number for number in range(3000))
    by_key: dict[bytes | None, list[int]] = {}
    for each in found:
        by_key.setdefault(each.key, []).append(int(each.value or b""))
    assert all(numbers == sorted(numbers) for numbers in by_key.values()), "a key's rows keep their order"


def test_rows_without_a_key_fill_batches_of_all_partitions(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=3)
    table = spark.range(20_000).selectExpr("concat(id, repeat('x', 100)) as value").coalesce(1)
    write(table, broker, topic=topic, **{"kafka.batch.size": "10000"})
    found = read_topic(broker, topic)
    assert len({each.value for each in found}) == len(found) == 20_000
    sizes = [sum(each.partition == partition for each in found) for partition in range(3)]
    assert min(sizes) > 4000


@pytest.mark.parametrize("prefix", ["", "batch"])
def test_a_table_goes_through_a_topic_and_back(spark: SparkSession, broker: RunningBroker, prefix: str) -> None:
    topic = broker.new_topic(partitions=2)
    options = {"transactionalIdPrefix": prefix} if prefix else {}
    table = spark.range(5000).selectExpr("binary(string(id)) as value", "binary(null) as key")
    write(table, broker, topic=topic, **options)
    back = (
        spark.read.format("barnabas")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap, "kafka.isolation.level": "read_committed"})
        .option("subscribe", topic)
        .load()
    )
    rows = back.selectExpr("bigint(string(value)) as id").collect()
    assert sorted(row.id for row in rows) == list(range(5000))


def test_a_batch_of_which_a_task_fails_is_not_seen(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=2)
    table = spark.range(0, 1000, 1, 2).selectExpr(
        "if(id = 900, raise_error('task fails'), string(id)) as value",
    )
    with pytest.raises(PySparkException, match="task fails"):
        write(table, broker, topic=topic, transactionalIdPrefix="failing")
    write(spark.range(10).selectExpr("string(id) as value"), broker, topic=topic, transactionalIdPrefix="failing")
    assert values(read_topic(broker, topic)) == [b"%d" % number for number in range(10)]


def test_a_batch_with_a_number_is_written_once(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic()

    def write_numbered(count: int, number: int) -> None:
        table = spark.range(count).selectExpr("string(id) as value")
        options = {"transactionalIdPrefix": "numbered", "txnAppId": topic, "txnVersion": str(number)}
        write(table, broker, topic=topic, **options)

    write_numbered(10, 3)
    write_numbered(10, 3)
    assert len(read_topic(broker, topic)) == 10
    with pytest.raises(PySparkException, match=r"has committed batch 3 with rows=5 .* now it comes with rows=6"):
        write_numbered(11, 3)
    with pytest.raises(PySparkException, match="has committed batch 3, and now batch 2 comes"):
        write_numbered(10, 2)
    write_numbered(10, 4)
    assert len(read_topic(broker, topic)) == 20


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        (["string(id) as value"], {}, "nothing says which topic to write to"),
        (["string(id) as value", "id as offset"], {"topic": "t"}, "column 'offset' cannot be written to a topic"),
        (["id as value"], {"topic": "t"}, "column value is bigint, and must be binary or string; cast it"),
        (["string(id) as value"], {"topic": "t", "kafka.acks": "1"}, "must be all: this sink is always idempotent"),
        (["string(id) as value", "string(null) as topic"], {}, "column topic is null in a row"),
        (["string(id) as value", "'a/b' as topic"], {}, "column topic has 'a/b', which is no name of a topic"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, broker: RunningBroker, select: list[str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        write(spark.range(3).selectExpr(*select), broker, **options)


def test_a_topic_is_not_overwritten_and_spark_wants_to_be_told_so(spark: SparkSession, broker: RunningBroker) -> None:
    with pytest.raises(PySparkException, match='cannot be written in the "ErrorIfExists" mode'):
        write(spark.range(3).selectExpr("string(id) as value"), broker, mode="error", topic="t")
    with pytest.raises(PySparkException, match="a topic cannot be overwritten; use append"):
        write(spark.range(3).selectExpr("string(id) as value"), broker, mode="overwrite", topic="t")


def test_a_partition_that_a_topic_does_not_have_is_refused(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(partitions=2)
    table = spark.range(3).selectExpr("string(id) as value", "int(id) as partition").coalesce(1)
    with pytest.raises(PySparkException, match=f"column partition has 2, and topic {topic} has partitions 0 to 1"):
        write(table, broker, topic=topic)
    assert read_topic(broker, topic) == []


def test_a_row_that_a_topic_refuses_fails_the_write(spark: SparkSession, broker: RunningBroker) -> None:
    topic = broker.new_topic(settings={"max.message.bytes": "10000"})
    table = spark.range(3).selectExpr("repeat('x', int(pow(10, 3 + id))) as value").coalesce(1)
    with pytest.raises(PySparkException, match="MESSAGE_TOO_LARGE"):
        write(table, broker, topic=topic)
