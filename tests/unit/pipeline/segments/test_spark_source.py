"""What Spark hands to the source: options by name, schemas, readers that are pickled."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.segments.options import BATCHES, SegmentOptions, parse_segment_options
from barnabas.pipeline.segments.spark_source import default_schema, new_reader
from barnabas.pipeline.source.columns_asked import ColumnError
from tests.unit.pipeline.columns.logs import Record, batch_of
from tests.unit.pipeline.segments.log_files import write_log


def test_options_are_taken_by_name_without_case() -> None:
    given = {
        "paths": '["/logs/a", "file:/logs/b"]',
        "TOPICS": "pages, clicks",
        "isolationlevel": "read_committed",
        "beyondHighWatermark": "true",
        "includeHeaders": "TRUE",
        "failOnDataLoss": "false",
        "splitBytes": "1000",
    }
    assert parse_segment_options(given) == SegmentOptions(
        paths=("/logs/a", "/logs/b"),
        topics=("pages", "clicks"),
        read_committed=True,
        beyond_high_watermark=True,
        include_headers=True,
        fail_on_data_loss=False,
        split_bytes=1000,
    )
    assert parse_segment_options({"path": "file:///logs"}).paths == ("/logs",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "say where the logs are"),
        ({"path": "a", "paths": '["b"]'}, "say where the logs are"),
        ({"path": ""}, "option path='': it must name a directory"),
        ({"path": "s3://bucket/logs"}, "option path='s3://bucket/logs': logs are read from file systems"),
        ({"paths": "[1]"}, "must be a JSON list of directories"),
        ({"paths": "nonsense"}, "option paths='nonsense'"),
        ({"paths": '["a", "a"]'}, "a directory is named twice"),
        (
            {"path": "a", "topic": "pages"},
            "option topic='pages': no option of the source barnabas-segments; take it away (these act: path,",
        ),
        ({"path": "a", "topics": "x,,y"}, "names of topics with commas"),
        ({"path": "a", "table": "rows"}, "option table='rows': it must be records or batches"),
        ({"path": "a", "isolationLevel": "snapshot"}, "it must be read_committed or read_uncommitted"),
        ({"path": "a", "failOnDataLoss": "yes"}, "option failOnDataLoss='yes': it must be true or false"),
        ({"path": "a", "splitBytes": "0"}, "it must be greater than 0"),
        ({"path": "a", "table": "batches", "includeHeaders": "true"}, "option includeHeaders is about records"),
        (
            {"path": "a", "table": "batches", "isolationLevel": "read_committed"},
            "option isolationLevel is about records",
        ),
    ],
)
def test_options_that_cannot_act_are_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_segment_options(given)
    assert message in str(caught.value)


def test_the_schema_is_that_of_the_table() -> None:
    assert default_schema({"path": "a"}).names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    assert default_schema({"path": "a", "includeHeaders": "true"}).names[-1] == "headers"
    assert default_schema({"path": "a", "table": BATCHES})["crcGood"].dataType.simpleString() == "boolean"


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        (
            {},
            StructField("headers", default_schema({"path": "a", "includeHeaders": "true"})["headers"].dataType),
            "includeHeaders",
        ),
        ({}, StructField("offset", IntegerType()), "offset"),
        ({"table": BATCHES}, StructField("key", StringType()), "the table batches has no key string, but topic string"),
        ({"table": BATCHES}, StructField("sizeBytes", LongType()), "the table batches has no sizeBytes bigint"),
    ],
)
def test_columns_that_are_not_there_are_refused_by_name(
    options: dict[str, str], field: StructField, message: str
) -> None:
    with pytest.raises(ColumnError, match=message):
        new_reader({"path": "a", **options}, StructType([field]))


def test_a_reader_that_was_pickled_plans_and_reads(tmp_path: Path) -> None:
    write_log(tmp_path, [(0, batch_of([Record(at, 5, None, b"v") for at in range(3)]))])
    options = {"path": str(tmp_path), "beyondHighWatermark": "true"}
    reader = pickle.loads(pickle.dumps(new_reader(options, StructType([StructField("offset", LongType())]))))
    [partition] = reader.partitions()
    [batch] = reader.read(pickle.loads(pickle.dumps(partition)))
    assert batch.to_pydict() == {"offset": [0, 1, 2]}
