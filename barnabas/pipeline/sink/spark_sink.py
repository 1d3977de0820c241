"""The sink as Spark calls it: writers for batches and for micro-batches.

Spark makes a writer on the driver and pickles it for the tasks. A batch write is committed by the same writer, a
micro-batch by another one made anew, so all that the driver has to know comes with the tasks' messages. The query and
the batch of a stream reach the tasks as local properties of Spark.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.sink.columns_given import check_columns
from barnabas.pipeline.sink.ending import abort_tasks, commit_tasks
from barnabas.pipeline.sink.marks import RunName
from barnabas.pipeline.sink.options import SinkOptions, parse_batch_options, parse_stream_options
from barnabas.pipeline.sink.task_writer import Task, TaskReport, write_task

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """What a task tells the driver."""

    report: TaskReport


def new_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "BatchWriter":
    """The writer of a batch. Raises OptionError and ColumnRefused."""
    if overwrite:
        raise OptionError("mode overwrite: a topic cannot be overwritten; use append")
    parsed = parse_batch_options(options)
    check_columns(schema, has_topic=parsed.topic is not None)
    return BatchWriter(parsed, _run_of_batch(parsed))


def new_stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "StreamWriter":
    """The writer of a stream. Raises OptionError and ColumnRefused."""
    if overwrite:
        raise OptionError("output mode complete: a topic cannot be overwritten; use append")
    parsed = parse_stream_options(options)
    check_columns(schema, has_topic=parsed.topic is not None)
    return StreamWriter(parsed)


def _run_of_batch(options: SinkOptions) -> RunName | None:
    prefix, numbered = options.transactional_id_prefix, options.batch_number
    if prefix is None:
        return None
    if numbered is not None:
        return RunName(prefix, numbered.application, numbered.number)
    # Two writes with one prefix have nothing to do with each other.
    return RunName(prefix, f"{random.Random().getrandbits(64):016x}", None)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query."""

    def __init__(self, options: SinkOptions, run: RunName | None) -> None:
        self._options = options
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = None if self._run is None else Task(self._run, _task_context().partitionId())
        return Message(write_task(iterator, self._options, task))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        asyncio.run(commit_tasks(self._options, _reports(messages)))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # A message for each task; of those that failed or were killed Spark has none.
        run = self._run
        lost = [] if run is None else [Task(run, at) for at, each in enumerate(messages) if each is None]
        asyncio.run(abort_tasks(self._options, _reports(messages), lost))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of micro-batches."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Message(write_task(iterator, self._options, self._task()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        reports = _reports(messages)
        assert all(each.task is None or each.task.run.number == batchId for each in reports)
        asyncio.run(commit_tasks(self._options, reports))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        asyncio.run(abort_tasks(self._options, _reports(messages)))

    def _task(self) -> Task | None:
        prefix = self._options.transactional_id_prefix
        if prefix is None:
            return None
        context = _task_context()
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None, "Spark sets it for every micro-batch"
        assert batch is not None, "Spark sets it for every micro-batch"
        return Task(RunName(prefix, query, int(batch)), context.partitionId())


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark runs this in a task"
    return context


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    """Those of the tasks that came to their end."""
    return [each.report for each in messages if isinstance(each, Message)]
