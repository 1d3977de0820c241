"""Streaming queries on a real Spark: limits, restarts, topics that are made anew."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.compatibility.brokers import RunningBroker
from tests.pipeline.source.events import counted, events_of, make_anew, new_topic, produce

pytestmark = pytest.mark.timeout(600)
SECONDS = 300


class Load:
    """A query that loads a topic into Parquet files as far as there is something, again and again."""

    def __init__(self, spark: SparkSession, broker: RunningBroker, topic: str, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._topic = topic
        self._folder = folder

    def run(self, **options: str) -> StreamingQuery:
        stream = (
            self._spark.readStream.format("barnabas")
            .option("kafka.bootstrap.servers", self._broker.bootstrap)
            .options(subscribe=self._topic, startingOffsets="earliest", includeHeaders="true", **options)
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._folder / "table"))
        )
        assert query.awaitTermination(SECONDS)
        return query

    def loaded(self) -> list[object]:
        return list(events_of(self._spark.read.parquet(str(self._folder / "table")).collect()))


def test_a_stream_goes_on_where_it_was_and_reads_everything_once(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker, partitions=2)
    load = Load(spark, broker, topic, tmp_path)
    produced = produce(broker.bootstrap, topic, counted(1000, partitions=2))
    sizes = [each.numInputRows for each in load.run(maxOffsetsPerTrigger="400").recentProgress]
    assert sum(sizes) == 1000
    assert max(sizes) <= 402
    produced += produce(broker.bootstrap, topic, counted(500, partitions=2, mark="later "))
    assert sum(each.numInputRows for each in load.run().recentProgress) == 500
    assert load.loaded() == sorted(produced)


def test_a_topic_that_is_made_anew_ends_the_stream_or_is_read_from_its_start(
    spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    load = Load(spark, broker, topic, tmp_path)
    before = produce(broker.bootstrap, topic, counted(100))
    load.run()
    make_anew(broker, topic)
    after = produce(broker.bootstrap, topic, counted(150, mark="anew "))
    with pytest.raises(StreamingQueryException, match=f"{topic}-0 at offset 100: the log is another one"):
        load.run()
    load.run(failOnDataLoss="false")
    assert load.loaded() == sorted(before + after)
