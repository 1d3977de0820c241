"""Rows that tasks make out of what they are given: a data frame of any list of tasks and a function.

Spark's own ways to let Python make Arrow batches (`mapInArrow`) take rows that went through the JVM, and need pandas. A
data source of one query's own hands its tasks to Spark, and their rows alone go through the JVM: records that are only
counted never do.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

T = TypeVar("T")


def frame_of(
    spark: SparkSession, tasks: Sequence[T], work: Callable[[T], Iterator[pa.RecordBatch]], schema: str, name: str
) -> DataFrame:
    """The rows of all tasks, each computed when Spark asks for it, and anew where it does so again.

    `work` and the tasks must be what cloudpickle takes; batches have the columns of the schema. `name` is what Spark
    shows.
    """

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(each) for each in tasks]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            given: Any = partition.value
            # Spark makes up a task without value where there is none.
            return iter(()) if given is None else work(given)

    unique = f"{name}-{Random().getrandbits(64):016x}"

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def schema(self) -> str:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - all columns are given
            return Reader()

    spark.dataSource.register(Source)
    return spark.read.format(unique).load()
