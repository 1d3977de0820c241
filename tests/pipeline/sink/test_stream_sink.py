"""Streaming writes on a real Spark: from topic to topic, restarts, batches that are replayed."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.sink.topics import read_topic, values
from tests.pipeline.source.events import counted, new_topic, produce

SECONDS = 300


class Copy:
    """A query that copies a topic as far as there is something, again and again."""

    def __init__(self, spark: SparkSession, broker: RunningBroker, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self.checkpoint = folder / "checkpoint"
        self.source = new_topic(broker, partitions=2)
        self.target = new_topic(broker, partitions=3)

    def run(self, select: str = "value", *, mode: str = "append", **options: str) -> StreamingQuery:
        stream = (
            self._spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self._broker.bootstrap)
            .options(subscribe=self.source, startingOffsets="earliest", maxOffsetsPerTrigger="400")
            .load()
        )
        query = (
            stream.selectExpr("key", select)
            .writeStream.format("barnabas")
            .outputMode(mode)
            .queryName("copy")
            .option("kafka.bootstrap.servers", self._broker.bootstrap)
            .option("checkpointLocation", str(self.checkpoint))
            .options(topic=self.target, **options)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS)
        return query

    def forget_last_commit(self) -> None:
        """What a driver leaves that is killed between the end of a batch's transactions and its own commit log."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / f"{last}").unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def copied(self) -> list[bytes]:
        return values(read_topic(self._broker, self.target))


@pytest.fixture
def copy(spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> Copy:
    return Copy(spark, broker, tmp_path)


def test_a_topic_is_copied_once_over_restarts_and_replays(copy: Copy, broker: RunningBroker) -> None:
    produced = produce(broker.bootstrap, copy.source, counted(1000, partitions=2))
    copy.run(transactionalIdPrefix="copy")
    assert copy.copied() == values(produced)
    copy.forget_last_commit()
    produced += produce(broker.bootstrap, copy.source, counted(500, partitions=2, mark="later "))
    copy.run(transactionalIdPrefix="copy")
    assert copy.copied() == values(produced)


def test_without_transactions_a_replayed_batch_comes_again(copy: Copy, broker: RunningBroker) -> None:
    produced = produce(broker.bootstrap, copy.source, counted(300, partitions=2))
    copy.run()
    copy.forget_last_commit()
    copy.run()
    assert copy.copied() == sorted(values(produced) * 2)


def test_a_query_that_gives_other_rows_in_a_replay_ends(copy: Copy, broker: RunningBroker) -> None:
    produced = produce(broker.bootstrap, copy.source, counted(300, partitions=2))
    copy.run(transactionalIdPrefix="other")
    copy.forget_last_commit()
    with pytest.raises(StreamingQueryException, match="the query does not give the same rows again"):
        copy.run("binary(concat(string(value), uuid())) as value", transactionalIdPrefix="other")
    assert copy.copied() == values(produced)


def test_output_modes_and_options_that_cannot_act_are_refused(copy: Copy, broker: RunningBroker) -> None:
    produce(broker.bootstrap, copy.source, counted(3))
    with pytest.raises(PySparkException, match="does not support Update mode"):
        copy.run(mode="update")
    with pytest.raises(PySparkException, match="option txnAppId='a': a stream is known by its own query id"):
        copy.run(txnAppId="a")
    assert copy.copied() == []
