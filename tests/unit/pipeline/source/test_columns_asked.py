"""Which columns a query gets."""

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from barnabas.pipeline.columns.schema import COLUMN_NAMES
from barnabas.pipeline.source.columns_asked import ColumnError, default_schema, names_of


def test_headers_come_when_they_are_asked_for() -> None:
    assert default_schema({}).fieldNames() == list(COLUMN_NAMES[:-1])
    assert default_schema({"includeHeaders": "TRUE"}).fieldNames() == list(COLUMN_NAMES)


def test_a_schema_chooses_columns_and_their_order() -> None:
    asked = StructType([StructField("offset", LongType()), StructField("key", BinaryType())])
    assert names_of(asked) == ("offset", "key")
    assert names_of(default_schema({"includeHeaders": "true"})) == COLUMN_NAMES


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (StructField("Offset", LongType()), "there is no column 'Offset'; these are: key, value"),
        (StructField("value", StringType()), "column value is binary, not string; ask for it so, and cast it"),
        (StructField("offset", LongType(), nullable=False), "column offset is bigint, not bigint NOT NULL"),
    ],
)
def test_a_schema_that_cannot_be_given_is_refused_by_name(field: StructField, said: str) -> None:
    with pytest.raises(ColumnError) as refusal:
        names_of(StructType([field]))
    assert said in str(refusal.value)
