"""The data source `barnabas-segments` as Spark calls it: options and schemas in, splits and Arrow batches out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipeline.pushdown import filters_are_offered
from barnabas.pipeline.segments.batch_table import BATCH_COLUMN_TYPES, read_batches
from barnabas.pipeline.segments.log_copies import find_logs
from barnabas.pipeline.segments.options import BATCHES, SegmentOptions, parse_segment_options
from barnabas.pipeline.segments.reading import read_split
from barnabas.pipeline.segments.splits import SegmentSplit, plan_splits
from barnabas.pipeline.source import columns_asked
from barnabas.pipeline.source.columns_asked import ColumnError
from barnabas.pipeline.source.filters import Pushed, push
from barnabas.runtime.disk import SystemDisk

_SPARK_TYPES: Final[Mapping[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
}
_BATCH_SCHEMA: Final = StructType([StructField(name, _SPARK_TYPES[kind]) for name, kind in BATCH_COLUMN_TYPES.items()])


def default_schema(options: Mapping[str, str]) -> StructType:
    """All columns of the table that the options name. Raises OptionError."""
    if parse_segment_options(options).table == BATCHES:
        return _BATCH_SCHEMA
    return columns_asked.default_schema(options)


def new_reader(options: Mapping[str, str], schema: StructType) -> "SegmentReader":
    """The reader of a query. Raises OptionError and ColumnError."""
    parsed = parse_segment_options(options)
    columns = _batch_columns(schema) if parsed.table == BATCHES else _record_columns(schema, parsed)
    return (FilteringSegmentReader if filters_are_offered() else SegmentReader)(parsed, columns)


def _record_columns(schema: StructType, options: SegmentOptions) -> tuple[str, ...]:
    columns = columns_asked.names_of(schema)
    if "headers" in columns and not options.include_headers:
        raise ColumnError("column headers is there where includeHeaders is true")
    return columns


def _batch_columns(schema: StructType) -> tuple[str, ...]:
    ours = {field.name: field for field in _BATCH_SCHEMA.fields}
    for field in schema.fields:
        if field != ours.get(field.name):
            known = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in ours.values())
            raise ColumnError(f"the table batches has no {field.name} {field.dataType.simpleString()}, but {known}")
    return tuple(schema.fieldNames())


class SegmentReader(DataSourceReader):
    """Plans on the driver, reads in the workers; all of them must see the directories at the same paths."""

    def __init__(self, options: SegmentOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        disk = SystemDisk()
        logs = find_logs(disk, self._options.paths, self._options.topics)
        return [InputPartition(split) for split in plan_splits(disk, logs, self._options, self._pushed)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        split: Any = partition.value
        if split is None:
            return iter(())  # Spark makes up a task where there is none
        assert isinstance(split, SegmentSplit)
        read = read_batches if self._options.table == BATCHES else read_split
        return read(SystemDisk(), split, self._columns)


class FilteringSegmentReader(SegmentReader):
    """The same where Spark hands predicates over; the table of batches leaves all but topic and partition to Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        self._pushed, left = push(filters)
        return left
