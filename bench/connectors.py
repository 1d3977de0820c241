"""Spark's own Kafka connector and ours on the same cluster, in one run, in turn: rows a second, medians.

One broker on this machine holds a topic of four partitions with 100-byte values; Spark has two cores, which the broker
shares. `to nowhere` reads all columns, `to Parquet` writes them with Spark's own writer (zstd), `the job load` is how
we put a topic into Parquet: its workers write the files. `into a topic` writes the rows of a Parquet file. A round that
warms up comes first.

    python -m bench.connectors [--records 2000000] [--rounds 3] [--row TEXT] [--keep FILE]
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipeline.session import new_session
from bench.loading import PARTITIONS, ROWS, load, produce
from tests.compatibility.brokers import RunningBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.kafka_jars import SPARK_CONNECTOR_JARS, class_path
from tests.support.zookeeper import new_zookeeper

FORMATS = {"official": "kafka", "barnabas": "barnabas"}
LOAD = next(row for row in ROWS if row.name == "Parquet, zstd")


@dataclass
class Place:
    """What the rows work on."""

    spark: SparkSession
    broker: RunningBroker
    topic: str
    records: int
    folder: Path
    made: int = 0

    def new_folder(self) -> Path:
        self.made += 1
        return self.folder / f"table-{self.made}"

    def read(self, connector: str) -> DataFrame:
        reader = self.spark.read.format(FORMATS[connector]).option("subscribe", self.topic)
        return reader.option("kafka.bootstrap.servers", self.broker.bootstrap).load()


Measure = Callable[[Place, str], float]


def timed(place: Place, work: Callable[[], object]) -> float:
    """Rows a second of something that handles all records."""
    started = time.perf_counter()
    work()
    return place.records / (time.perf_counter() - started)


def to_nowhere(place: Place, connector: str) -> float:
    return timed(place, place.read(connector).write.format("noop").mode("overwrite").save)


def to_parquet(place: Place, connector: str) -> float:
    writer = place.read(connector).write.option("compression", "zstd")
    return timed(place, lambda: writer.parquet(str(place.new_folder())))


def to_table(place: Place, connector: str) -> float:
    """Each connector's way to a table: for the official one Spark's writer is all there is."""
    if connector == "official":
        return to_parquet(place, connector)
    return load(place.broker.bootstrap, place.topic, LOAD, place.new_folder(), place.records)


def into_a_topic(place: Place, connector: str) -> float:
    source = place.folder / "rows"
    if not source.exists():
        place.read("barnabas").select("key", "value").write.parquet(str(source))
    target = place.broker.new_topic(partitions=PARTITIONS)
    writer = place.spark.read.parquet(str(source)).write.format(FORMATS[connector]).mode("append")
    rate = timed(place, writer.option("kafka.bootstrap.servers", place.broker.bootstrap).option("topic", target).save)
    written = place.broker.end_offsets([target], PARTITIONS)
    assert sum(written.values()) == place.records, written
    place.broker.delete_topic(target)
    return rate


MEASURES: dict[str, Measure] = {
    "a topic to nowhere": to_nowhere,
    "a topic to Parquet, Spark's writer": to_parquet,
    "a topic to Parquet, the job load": to_table,
    "into a topic": into_a_topic,
}


def results(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Names and, by connector, the rates of the rounds."""
    settings = {
        "spark.jars": class_path(SPARK_CONNECTOR_JARS).replace(os.pathsep, ","),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
    }
    with (
        new_zookeeper(folder / "zookeeper") as zookeeper,
        BrokerProcess(folder, zookeeper.connect_string, ONE_BROKER_SETTINGS) as process,
    ):
        broker = RunningBroker(process.bootstrap)
        topic = broker.new_topic(partitions=PARTITIONS, settings={"retention.ms": "-1"})
        produce(broker.bootstrap, topic, arguments.records)
        spark = new_session("bench of connectors", master="local[2]", settings=settings)
        try:
            place = Place(spark, broker, topic, arguments.records, folder)
            for name, measure in MEASURES.items():
                if arguments.row is None or arguments.row in name:
                    rates: dict[str, list[float]] = {connector: [] for connector in FORMATS}
                    for number in range(arguments.rounds + 1):
                        for connector, kept in rates.items():
                            rate = measure(place, connector)
                            if number > 0:
                                kept.append(rate)
                    yield name, rates
        finally:
            spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", help="only rows whose name holds this")
    parser.add_argument("--keep", help="write the figures as JSON into this file")
    arguments = parser.parse_args()
    if arguments.row is not None and not any(arguments.row in name for name in MEASURES):
        parser.error(f"no row has {arguments.row} in its name")
    print(
        f"{arguments.records} records, {arguments.rounds} rounds, load {os.getloadavg()[0]:.1f}; million rows a second"
    )
    print(f"{'':38}{'official':>10}{'barnabas':>10}{'ratio':>8}   spread")
    kept = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rates in results(arguments, Path(folder)):
            kept[name] = rates
            official, ours = (statistics.median(rates[each]) / 1e6 for each in FORMATS)
            spread = ", ".join(f"{min(each) / 1e6:.2f}-{max(each) / 1e6:.2f}" for each in rates.values())
            print(f"{name:38}{official:10.2f}{ours:10.2f}{ours / official:8.2f}   {spread}", flush=True)
    if arguments.keep:
        Path(arguments.keep).write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
