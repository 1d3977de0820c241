"""Which columns rows must have to be written, and which they may have."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import DataType, StringType, StructType

_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}
"""Names as Spark writes types."""


class ColumnRefused(ValueError):
    """Columns that cannot be written; the text names the column and what would do."""


def check_columns(schema: StructType, *, has_topic: bool) -> None:
    """Raises ColumnRefused. `has_topic`: the option topic is given, which goes before a column."""
    for field in schema.fields:
        wanted = _TYPES.get(field.name)
        if wanted is None:
            raise ColumnRefused(
                f"column {field.name!r} cannot be written to a topic, which takes {', '.join(_TYPES)}; select these"
            )
        if _name_of(field.dataType) not in wanted:
            raise ColumnRefused(
                f"column {field.name} is {field.dataType.simpleString()}, and must be {' or '.join(wanted)}; cast it"
            )
    names = schema.fieldNames()
    if "value" not in names:
        raise ColumnRefused("there is no column value; every record has one, which may be null")
    if not has_topic and "topic" not in names:
        raise ColumnRefused("nothing says which topic to write to: give the option topic, or a column topic")


def _name_of(kind: DataType) -> str:
    # Texts of another collation are texts.
    return "string" if isinstance(kind, StringType) else kind.simpleString()
