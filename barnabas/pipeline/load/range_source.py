"""The stream of a load as Spark sees it: a row for each range that is to be read, and none of its records.

It is planned as the source `barnabas` plans: offsets stand in Spark's checkpoint before a batch begins, and a batch
that is planned again has the same ranges. A backfill ends where the option `targets` says, offsets as JSON.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.pipeline.load.range_load import RangeRow
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.options import SourceOptions, parse_stream_options
from barnabas.pipeline.source.partition_json import parse_numbers
from barnabas.pipeline.source.range_task import PlannedRange
from barnabas.pipeline.source.spark_stream import StreamReader
from barnabas.pipeline.source.stream_plan import StreamPlanner
from barnabas.protocol.ids import TopicPartition

SOURCE: Final = "barnabas-load"
TARGETS: Final = "targets"


class RangeSource(DataSource):
    """Registered by the job in its own session."""

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> str:
        return "range binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - the names are Spark's
        options = {name: value for name, value in self.options.items() if name.lower() != TARGETS}
        targets = next((value for name, value in self.options.items() if name.lower() == TARGETS), None)
        return RangeReader(parse_stream_options(options), None if targets is None else parse_numbers(targets))


class RangeReader(StreamReader):
    """Gives the ranges that are planned themselves, each in a task."""

    def __init__(self, options: SourceOptions, targets: Mapping[TopicPartition, int] | None) -> None:
        super().__init__(options, ())
        self._bounds = targets

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        planned = partition.value
        if planned is None:  # Spark makes up a task where there is none
            return iter(())
        packed = msgspec.msgpack.encode(row_of(planned))
        return iter([pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], names=["range"])])

    def _new_planner(self, view: ClusterView) -> StreamPlanner:
        if self._bounds is None:
            return super()._new_planner(view)
        return BoundedPlanner(view, self._options, self._bounds)


class BoundedPlanner(StreamPlanner):
    """Reads no further than to given offsets."""

    def __init__(self, view: ClusterView, options: SourceOptions, bounds: Mapping[TopicPartition, int]) -> None:
        super().__init__(view, options)
        self._bounds = bounds

    async def fix_targets(self) -> None:
        self._targets = dict(self._bounds)


def row_of(planned: PlannedRange) -> RangeRow:
    """A planned range as a row."""
    place = planned.range
    stamp = None if planned.stamp is None else (*planned.stamp,)
    return RangeRow(*place.topic_partition, place.start, place.end, stamp)
