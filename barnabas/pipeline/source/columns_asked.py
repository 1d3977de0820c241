"""Which columns a query gets: all of Spark's Kafka source, or those of the schema that is asked for.

Spark tells a Python source nothing of the columns that a query uses; a schema with fewer columns is how to read less.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}


class ColumnError(ValueError):
    """A schema that the source cannot give; the text names the column and what would do."""


def default_schema(options: Mapping[str, str]) -> StructType:
    """All columns; the headers only with includeHeaders, which is checked when the query is planned."""
    with_headers = options.get("includeHeaders", "false").strip().lower() == "true"
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if with_headers or name != "headers"])


def names_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema. Raises ColumnError for one that is not there, or not so."""
    for field in schema.fields:
        kind = _TYPES.get(field.name)
        if kind is None:
            raise ColumnError(f"there is no column {field.name!r}; these are: {', '.join(_TYPES)}")
        if field.dataType != kind or not field.nullable:
            null = "" if field.nullable else " NOT NULL"
            raise ColumnError(
                f"column {field.name} is {kind.simpleString()}, not {field.dataType.simpleString()}{null}; "
                "ask for it so, and cast it in the query"
            )
    return tuple(schema.fieldNames())
