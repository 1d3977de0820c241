"""Spark reads logs from their files: the source is found by its name, and rows, columns and errors arrive."""

import datetime as dt
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_end_txn_marker
from tests.unit.pipeline.columns.logs import batch_of
from tests.unit.pipeline.segments.log_files import PAGES, write_high_watermarks, write_log

CLICKS = TopicPartition("clicks", 1)
SECOND_MS = 1000


def batch(first: int, count: int, **options: object) -> bytes:
    records = [
        Record(at, at * SECOND_MS, b"key %d" % at, None if at % 10 == 3 else b"value %d" % at, (("at", b"%d" % at),))
        for at in range(first, first + count)
    ]
    return batch_of(records, **options)  # type: ignore[arg-type]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory: 40 records of pages in two segments, of which 35 were replicated; clicks with an abort."""
    write_log(
        tmp_path,
        [(0, batch(0, 10) + batch(10, 10, codec=Codec.LZ4)), (20, batch(20, 10, codec=Codec.ZSTD) + batch(30, 10))],
    )
    abort = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp=5, base_offset=4
    )
    clicks = batch(0, 2, producer_id=7, transactional=True) + batch(2, 2) + abort
    write_log(tmp_path, [(0, clicks)], CLICKS)
    write_high_watermarks(tmp_path, {PAGES: 35, CLICKS: 5})
    return tmp_path


def table(spark: SparkSession, *paths: Path, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("barnabas-segments").options(**options)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def test_spark_reads_what_was_replicated_with_all_columns(spark: SparkSession, logs: Path) -> None:
    rows = table(spark, logs, topics="pages", includeHeaders="true").orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(35))
    assert rows[12].asDict(recursive=True) == {
        "key": bytearray(b"key 12"),
        "value": bytearray(b"value 12"),
        "topic": "pages",
        "partition": 0,
        "offset": 12,
        "timestamp": rows[12].timestamp,
        "timestampType": 0,
        "headers": [{"key": "at", "value": bytearray(b"12")}],
    }
    assert rows[12].timestamp.astimezone(dt.UTC) == dt.datetime(1970, 1, 1, 0, 0, 12, tzinfo=dt.UTC)
    assert rows[13].value is None


def test_a_schema_with_fewer_columns_reads_no_others(spark: SparkSession, logs: Path) -> None:
    read = table(spark, logs, schema="offset bigint, topic string", topics="pages", beyondHighWatermark="true")
    assert read.columns == ["offset", "topic"]
    assert sorted(read.collect()) == [Row(offset=at, topic="pages") for at in range(40)]


def test_aborted_records_are_left_out_for_readers_of_committed_ones(spark: SparkSession, logs: Path) -> None:
    read = table(spark, logs, schema="offset bigint", topics="clicks", isolationLevel="read_committed")
    assert sorted(row.offset for row in read.collect()) == [2, 3]


def test_batches_are_a_table_of_their_own(spark: SparkSession, logs: Path) -> None:
    batches = table(spark, logs, table="batches")
    counted = batches.groupBy("topic", "codec").agg({"recordCount": "sum", "crcGood": "min"})
    assert {tuple(row) for row in counted.collect()} == {
        ("pages", "none", 20, True),
        ("pages", "lz4", 10, True),
        ("pages", "zstd", 10, True),
        ("clicks", "none", 5, True),
    }


@pytest.mark.parametrize("pushed", [False, True])
def test_predicates_give_the_same_rows_whether_pushed_or_not(spark: SparkSession, logs: Path, pushed: bool) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    try:
        read = table(spark, logs, schema="topic string, offset bigint, timestamp timestamp")
        read = read.filter("topic = 'pages' and offset between 18 and 22 and timestamp >= to_timestamp(19)")
        assert sorted(row.offset for row in read.collect()) == [19, 20, 21, 22]
        # Of pages and clicks three segments are planned, of pages alone two.
        assert read.rdd.getNumPartitions() == (2 if pushed else 3)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_damage_ends_a_query_with_the_place(spark: SparkSession, logs: Path) -> None:
    path = logs / "pages-0" / f"{20:020d}.log"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(PySparkException, match="pages-0: the batch at offset 20 cannot be read: the checksum"):
        table(spark, logs, topics="pages").collect()


def test_replicas_in_several_directories_are_read_once(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(logs / "pages-0", other / "pages-0")
    write_high_watermarks(other, {PAGES: 20})
    assert table(spark, logs, other, topics="pages").count() == 35


def test_what_cannot_be_done_is_refused_by_name(spark: SparkSession, logs: Path) -> None:
    with pytest.raises(PySparkException, match=r"option topic=.*: no option of the source barnabas-segments; .*: path"):
        table(spark, logs, topic="pages")
