"""The data source as Spark calls it: batch and micro-batch readers over the plans and the task of this package.

Spark makes readers in several short-lived processes, pickles them, and calls each method where it likes. So a reader
holds options and columns; only the stream's reader on the driver, which lives as long as the query, holds a cluster.

PySpark 4.1 and later: 4.1 plans streams without telling where the last batch ended, so that nothing could be limited or
checked, and the source reads batches alone there.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from barnabas.pipeline.pushdown import filters_are_offered
from barnabas.pipeline.source.batch_plan import plan_batch
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.columns_asked import default_schema, names_of
from barnabas.pipeline.source.filters import Pushed, push
from barnabas.pipeline.source.options import SourceOptions, parse_batch_options, parse_stream_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange, read_range

__all__ = ["default_schema", "new_reader", "new_stream_reader"]


def new_reader(options: Mapping[str, str], schema: StructType) -> "BatchReader":
    """The reader of a batch query. Raises OptionError and ColumnError."""
    kind = FilteringBatchReader if filters_are_offered() else BatchReader
    return kind(parse_batch_options(options), names_of(schema))


def new_stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """The reader of a streaming query. Raises OptionError, ColumnError, and ImportError before PySpark 4.2."""
    try:
        from barnabas.pipeline.source.spark_stream import StreamReader  # noqa: PLC0415 - PySpark 4.1 cannot import it
    except ImportError as error:
        raise ImportError(f"streaming queries on the source barnabas need PySpark 4.2 or later: {error}") from error
    return StreamReader(parse_stream_options(options), names_of(schema))


class BatchReader(DataSourceReader):
    """Reads a batch query's ranges, each in a task."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(PlannedRange(each)) for each in asyncio.run(self._plan())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._columns, self._options)

    async def _plan(self) -> list[TopicRange]:
        async with ClusterView(self._options) as view:
            return await plan_batch(view, self._options, self._pushed)


class FilteringBatchReader(BatchReader):
    """The same where Spark hands filters over."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        self._pushed, left = push(filters)
        return left


def read_partition(
    partition: InputPartition, columns: Sequence[str], options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The records of a task; Spark makes up a task without value where there is none."""
    planned: Any = partition.value
    return iter(()) if planned is None else read_range(planned, columns, options)
