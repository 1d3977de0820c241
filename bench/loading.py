"""How fast a topic becomes a table: rows a second from brokers to committed files, beside what each stage costs a core.

One broker on this machine holds a topic of four partitions with 100-byte values, written as producers write them. Each
row loads all of it with the job `load`, by Spark with two cores, into a new table, in one batch. Time runs from Spark's
plan of the batch to its commit, ledger included; Spark's start does not count, and one load that warms it up comes
first. The broker has the same cores. `--stages` tells what fetching, decoding, counting and writing cost one core.

    python -m bench.loading [--records 4000000] [--rounds 3] [--row TEXT] [--stages] [--keep FILE]
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec

from barnabas.pipeline.columns.checksums import content_checksums
from barnabas.pipeline.jobs.job import Run
from barnabas.pipeline.jobs.report import Status
from barnabas.pipeline.lake.parquet import ParquetOptions
from barnabas.pipeline.lake.partition_writer import PartitionWriter, WriterOptions
from barnabas.pipeline.load.job import LoadConfig
from barnabas.pipeline.load.job import run as run_load
from barnabas.pipeline.load.payloads.decoding import RawPayload
from barnabas.pipeline.load.rows import RowMaker, columns_read
from barnabas.pipeline.session import new_session
from barnabas.pipeline.source.options import parse_batch_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange, read_range
from barnabas.protocol.ids import TopicPartition
from tests.compatibility.brokers import RunningBroker
from tests.support.broker_process import BrokerProcess
from tests.support.kafka import ONE_BROKER_SETTINGS
from tests.support.zookeeper import new_zookeeper

AIM_PER_SECOND = 800_000
PARTITIONS = 4
VALUE_BYTES = 100
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}


@dataclass(frozen=True)
class Row:
    """A way to load."""

    name: str
    table: dict[str, Any]
    payload: dict[str, Any] = field(default_factory=dict)
    partitions: dict[str, Any] = field(default_factory=dict)


ROWS = (
    Row("Delta, zstd", {"format": "delta"}),
    Row("Delta, lz4", {"format": "delta", "compression": "lz4"}),
    Row("Delta, not compressed", {"format": "delta", "compression": "none"}),
    Row("Delta, zstd, no headers", {"format": "delta", "headers": False}),
    Row("Parquet, zstd", {"format": "parquet"}),
    Row("Parquet, not compressed", {"format": "parquet", "compression": "none"}),
    Row("Delta, zstd, JSON", {"format": "delta"}, {"kind": "json", "schema": "n bigint, member string, page string"}),
)


def value(number: int) -> bytes:
    """A JSON object of `VALUE_BYTES` that compresses about as events do."""
    page = f"{number * 2654435761 % 1_000_003:07d}" * 8
    text = f'{{"n":{number},"member":"m{number * 40503 % 99_991}","page":"{page}'
    return (text[: VALUE_BYTES - 2].ljust(VALUE_BYTES - 2, "x") + '"}').encode()


def produce(bootstrap: str, topic: str, records: int) -> None:
    """Write the topic as librdkafka does it by default, but for a linger that fills batches."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(600):
        raise SystemExit("the topic could not be written")


def load(bootstrap: str, topic: str, row: Row, folder: Path, records: int) -> float:
    """Load once; rows a second."""
    config: dict[str, Any] = {
        "name": "bench",
        "checkpoint": str(folder / "checkpoint"),
        "cluster": {"bootstrap_servers": bootstrap},
        "source": {"topics": [topic], "max_offsets_per_batch": 1 << 40},
        "table": {"path": str(folder / "table"), **row.table},
        "payload": row.payload,
        "partitions": row.partitions,
        "spark": {"master": "local[2]", "settings": _SETTINGS},
    }
    run = Run("load", msgspec.convert(config, LoadConfig))
    run_load(run)
    document = run.report.document(Status.SUCCEEDED)
    assert run.report.counts["rows"] == records, run.report.counts
    return records / (sum(each["duration_ms"] for each in document["batches"]) / 1000)


def measure_stages(bootstrap: str, topic: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Microseconds of CPU a record, of the client alone, stage by stage over one partition."""
    options = parse_batch_options({"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"})
    end = RunningBroker(bootstrap).end_offsets([topic], PARTITIONS)[TopicPartition(topic, 0)]
    planned = PlannedRange(TopicRange(TopicPartition(topic, 0), 0, end))
    started = time.process_time()
    batches = list(read_range(planned, columns_read(headers=True), options))
    count = sum(each.num_rows for each in batches)
    yield "fetch and decode", (time.process_time() - started) / count * 1e6
    started = time.process_time()
    for each in batches:
        content_checksums(each.column("key"), each.column("value"))
    yield "checksums", (time.process_time() - started) / count * 1e6
    maker = RowMaker(RawPayload(), headers=True)
    started = time.process_time()
    made = [maker.rows(each).rows for each in batches]
    yield "rows, checksums included", (time.process_time() - started) / count * 1e6
    for compression in ("none", "lz4", "snappy", "zstd"):
        names = iter([f"{compression}.parquet"])
        writer = PartitionWriter(
            str(folder),
            maker.schema,
            lambda names=names: next(names),
            options=WriterOptions(ParquetOptions(compression)),  # type: ignore[misc]
        )
        started = time.process_time()
        for rows in made:
            writer.write(rows)
        (file,) = writer.close()
        took = (time.process_time() - started) / count * 1e6
        yield f"write, {compression} ({file.size_bytes / count:.0f} bytes a row)", took


def chosen_rows(text: str | None) -> list[Row]:
    """Those with the text in their name."""
    return [row for row in ROWS if text is None or text in row.name]


def results(arguments: argparse.Namespace, rows: Sequence[Row], folder: Path) -> Iterator[tuple[str, float, bool]]:
    """Names and figures; whether it is a rate."""
    with (
        new_zookeeper(folder / "zookeeper") as zookeeper,
        BrokerProcess(folder, zookeeper.connect_string, ONE_BROKER_SETTINGS) as broker,
    ):
        settings = {"retention.ms": "-1", "segment.bytes": str(1 << 30)}
        topic = RunningBroker(broker.bootstrap).new_topic(partitions=PARTITIONS, settings=settings)
        produce(broker.bootstrap, topic, arguments.records)
        if arguments.stages:
            for name, figure in measure_stages(broker.bootstrap, topic, folder):
                yield name, figure, False
        session = new_session("bench of load", master="local[2]", settings=_SETTINGS)
        try:
            load(broker.bootstrap, topic, rows[0], folder / "warm", arguments.records)
            for row in rows:
                rates = [
                    load(broker.bootstrap, topic, row, folder / f"{row.name} {number}", arguments.records)
                    for number in range(arguments.rounds)
                ]
                yield row.name, max(rates), True
        finally:
            session.stop()


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", help="only rows whose name holds this")
    parser.add_argument("--stages", action="store_true", help="what the stages cost, too")
    parser.add_argument("--keep", help="write the figures as JSON into this file")
    arguments = parser.parse_args(given)
    rows = chosen_rows(arguments.row)
    if not rows:
        sys.stderr.write(f"no row has {arguments.row} in its name\n")
        return 2
    print(f"{arguments.records} records, best of {arguments.rounds}, load {os.getloadavg()[0]:.1f}")
    kept: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, figure, is_rate in results(arguments, rows, Path(folder)):
            kept[name] = figure
            told = f"{figure / 1e6:7.2f} M rows/s" if is_rate else f"{figure:7.2f} us a row"
            aim = f"  below {AIM_PER_SECOND / 1e6} M" if is_rate and figure < AIM_PER_SECOND else ""
            print(f"{name:45}{told}{aim}", flush=True)
    if arguments.keep:
        Path(arguments.keep).write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
