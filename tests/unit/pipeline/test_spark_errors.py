"""An error of ours is found in what Spark makes of it."""

from barnabas.pipeline.spark_errors import explain

WRAPPED = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed: Traceback:
  File "/somewhere/range_task.py", line 7, in read
    raise error
barnabas.client.errors.KafkaError: this led to it
During handling of the above exception, another exception occurred:
barnabas.pipeline.source.data_loss.DataLost: views-0 at offset 3: the log starts at 20
 SQLSTATE: 38000
"""


def test_the_last_error_of_ours_counts() -> None:
    assert explain(RuntimeError(WRAPPED)) == "views-0 at offset 3: the log starts at 20"


def test_the_plan_of_a_stream_is_left_out() -> None:
    text = "Task not serializable\n=== Streaming Query ===\nIdentifier: packages\n\nLogical Plan:\nProject"
    assert explain(RuntimeError(text)) == "Spark ended the query: Task not serializable"


def test_what_spark_says_by_itself_is_shortened() -> None:
    assert explain(RuntimeError("no more memory")) == "Spark ended the query: no more memory"
    assert len(explain(RuntimeError("x" * 10_000))) < 2100
