"""What Spark asks of the sink: writers that are pickled, and messages from task to driver."""

import pickle

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from barnabas.client.prepared_transactions import PreparedTransaction
from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.sink.columns_given import ColumnRefused
from barnabas.pipeline.sink.marks import RunName
from barnabas.pipeline.sink.spark_sink import Message, new_stream_writer, new_writer
from barnabas.pipeline.sink.task_writer import Task, TaskReport

SCHEMA = StructType([StructField("value", StringType())])
OPTIONS = {"kafka.bootstrap.servers": "a:1", "topic": "t"}


def test_writers_and_messages_travel() -> None:
    for writer in (new_writer(OPTIONS, SCHEMA, overwrite=False), new_stream_writer(OPTIONS, SCHEMA, overwrite=False)):
        assert vars(pickle.loads(pickle.dumps(writer))) == vars(writer)
    message = Message(TaskReport(Task(RunName("p", "q", 3), 1), PreparedTransaction("p/q/1", 7, 2), rows=9))
    assert pickle.loads(pickle.dumps(message)) == message


def test_topics_are_not_overwritten() -> None:
    with pytest.raises(OptionError, match="mode overwrite: a topic cannot be overwritten; use append"):
        new_writer(OPTIONS, SCHEMA, overwrite=True)
    with pytest.raises(OptionError, match="output mode complete: a topic cannot be overwritten; use append"):
        new_stream_writer(OPTIONS, SCHEMA, overwrite=True)


def test_columns_are_looked_at_before_anything_is_written() -> None:
    without_topic = {"kafka.bootstrap.servers": "a:1"}
    for make in (new_writer, new_stream_writer):
        with pytest.raises(ColumnRefused, match="nothing says which topic to write to"):
            make(without_topic, SCHEMA, overwrite=False)


def test_a_batch_write_has_a_name_of_its_own_unless_it_is_given_a_number() -> None:
    def run_of(**options: str) -> RunName | None:
        return new_writer({**OPTIONS, **options}, SCHEMA, overwrite=False)._run

    assert run_of() is None
    runs = [run_of(transactionalIdPrefix="p") for _ in range(2)]
    assert runs[0] != runs[1]
    assert all(run is not None and (run.prefix, run.number) == ("p", None) for run in runs)
    assert run_of(transactionalIdPrefix="p", txnAppId="app", txnVersion="4") == RunName("p", "app", 4)
