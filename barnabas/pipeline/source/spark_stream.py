"""The micro-batch reader: PySpark 4.2 and later (admission control, Trigger.AvailableNow)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.offsets import read_stream_offset
from barnabas.pipeline.source.options import SourceOptions
from barnabas.pipeline.source.spark_source import read_partition
from barnabas.pipeline.source.stream_plan import StreamPlanner
from barnabas.runtime.clock import Clock, SystemClock

T = TypeVar("T")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans a stream on the driver, where one lives as long as the query, and reads its ranges in tasks.

    Calls come one after the other; the loop turns only within them.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str], *, clock: Clock | None = None) -> None:
        self._options = options
        self._columns = columns
        self._clock = clock or SystemClock()
        self._open: tuple[asyncio.Runner, ClusterView, StreamPlanner] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        return self._run(lambda planner: planner.initial_offset()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        began = read_stream_offset(start)
        ends = self._run(
            lambda planner: planner.next_offset(
                began,
                limit=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
                may_wait=not isinstance(limit, ReadAllAvailable),
                now_ms=self._clock.monotonic_ms(),
            )
        )
        # Spark takes equal text for no progress.
        return start if ends is began else ends.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        ends = None if self._open is None else self._open[2].latest_ends()
        return None if ends is None else ends.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._run(lambda planner: planner.fix_targets())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        began, ends = read_stream_offset(start), read_stream_offset(end)
        return [InputPartition(each) for each in self._run(lambda planner: planner.ranges(began, ends))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._columns, self._options)

    def stop(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            runner, view, _ = opened
            runner.run(view.__aexit__())
            runner.close()

    def _new_planner(self, view: ClusterView) -> StreamPlanner:
        return StreamPlanner(view, self._options)

    def _run(self, call: Callable[[StreamPlanner], Awaitable[T]]) -> T:
        if self._open is None:
            view = ClusterView(self._options)
            self._open = asyncio.Runner(), view, self._new_planner(view)
            self._open[0].run(view.__aenter__())
        runner, _, planner = self._open

        async def work() -> T:
            return await call(planner)

        return runner.run(work())
