"""Which columns can be written."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from barnabas.pipeline.sink.columns_given import ColumnRefused, check_columns

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind, nullable=name != "value") for name, kind in columns.items()])


def test_all_columns_of_a_record_are_taken() -> None:
    everything = schema(
        key=BinaryType(),
        value=StringType(),
        topic=StringType(),
        partition=IntegerType(),
        headers=HEADERS,
        timestamp=TimestampType(),
    )
    check_columns(everything, has_topic=False)
    check_columns(everything, has_topic=True)
    check_columns(schema(value=BinaryType(), key=StringType("UTF8_LCASE")), has_topic=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"offset": LongType()}, "column 'offset' cannot be written to a topic, which takes key, value, topic"),
        ({"value": LongType()}, "column value is bigint, and must be binary or string; cast it"),
        ({"partition": LongType()}, "column partition is bigint, and must be int"),
        ({"timestamp": TimestampNTZType()}, "column timestamp is timestamp_ntz, and must be timestamp"),
        ({"headers": ArrayType(BinaryType())}, "must be array<struct<key:string,value:binary>>"),
        ({}, "give the option topic, or a column topic"),
    ],
)
def test_others_are_refused(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(ColumnRefused, match=message):
        check_columns(schema(**({"value": StringType()} | columns)), has_topic=False)


def test_every_record_has_a_value() -> None:
    with pytest.raises(ColumnRefused, match="there is no column value"):
        check_columns(schema(key=StringType()), has_topic=True)
