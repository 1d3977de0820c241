"""How fast rows become records: rows a second and core of packing alone, then through a broker, and through Spark.

Packing is CPU time of this process: rows of Arrow, 10 000 at a time as Spark hands them over, into batches for twelve
partitions. Beside it stands the public producer, called for each row, with a broker. `--broker` writes them as one task
does to one local broker, which has the machine's other core; `--spark` lets Spark make the rows and write them with
`local[2]`. These are wall time.

    python -m bench.sink_writing [--rows 1000000] [--rounds 3] [--row TEXT] [--broker] [--spark] [--keep FILE]
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from barnabas.client import Admin, NewTopic, Producer, open_cluster
from barnabas.launcher.cluster import LocalCluster
from barnabas.pipeline.session import new_session
from barnabas.pipeline.sink.gathering import gather
from barnabas.pipeline.sink.options import SinkOptions, parse_batch_options
from barnabas.pipeline.sink.packing import Packer
from barnabas.pipeline.sink.rows import read_rows
from barnabas.pipeline.sink.task_writer import write_task
from barnabas.runtime.clock import SystemClock
from bench.decoding import best_rate

PARTITIONS = 12
ROWS_AT_ONCE = 10_000
TOPIC = "bench"
_ONE_REPLICA = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@dataclass(frozen=True)
class Shape:
    """What rows hold."""

    name: str
    size: int = 100
    keyed: bool = False
    headers: bool = False
    codec: str = "none"


SHAPES = (
    Shape("100 bytes"),
    Shape("100 bytes with keys", keyed=True),
    Shape("100 bytes with keys and a header", keyed=True, headers=True),
    Shape("1000 bytes with keys", size=1000, keyed=True),
    Shape("100 bytes with keys, lz4", keyed=True, codec="lz4"),
    Shape("100 bytes with keys, zstd", keyed=True, codec="zstd"),
)


def make_rows(shape: Shape, rows: int) -> list[pa.RecordBatch]:
    """Record batches as Spark hands them over; text that compresses about as log lines do."""
    dice = random.Random(1)
    words = [dice.randbytes(3).hex() for _ in range(500)]
    text = " ".join(dice.choice(words) for _ in range(100_000)).encode()
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batches = []
    for start in range(0, rows, ROWS_AT_ONCE):
        count = min(ROWS_AT_ONCE, rows - start)
        places = [dice.randrange(len(text) - shape.size) for _ in range(count)]
        columns = {"value": pa.array([text[at : at + shape.size] for at in places])}
        if shape.keyed:
            columns["key"] = pa.array([b"member-%d" % dice.randrange(100_000) for _ in range(count)])
        if shape.headers:
            columns["headers"] = pa.array([[("trace", b"0123456789abcdef")]] * count, headers)
        batches.append(pa.record_batch(columns))
    return batches


def options_of(shape: Shape, bootstrap: str = "localhost:9092") -> SinkOptions:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": TOPIC, "kafka.compression.type": shape.codec}
    return parse_batch_options(given)


def measure_packing(shape: Shape, batches: list[pa.RecordBatch], rows: int, rounds: int) -> float:
    sending = options_of(shape).sending

    def pack() -> int:
        packer = Packer(batch_bytes=sending.batch_bytes, codec=sending.codec, random=random.Random(1))
        clock = SystemClock()
        return sum(
            batch.count
            for portion in gather(batches, most_bytes=sending.buffer_bytes // 4, linger_ms=1 << 30, clock=clock)
            for batch in packer.pack(read_rows(portion, topic=TOPIC), {TOPIC: PARTITIONS}, now_ms=0)
        )

    return best_rate(rows, rounds, pack, time.process_time)


def measure_broker(
    shape: Shape, batches: list[pa.RecordBatch], rows: int, rounds: int, bootstrap: str
) -> dict[str, float]:
    """The rates of a task, and of the public producer over a tenth of the rows."""
    options = options_of(shape, bootstrap)
    some = batches[: max(len(batches) // 10, 1)]
    count = sum(batch.num_rows for batch in some)

    async def send_each() -> int:
        async with open_cluster(bootstrap) as cluster, Producer(cluster) as producer:
            for batch in some:
                columns = batch.to_pydict()
                keys = columns.get("key", [None] * batch.num_rows)
                for key, value in zip(keys, columns["value"], strict=True):
                    await producer.send(TOPIC, key, value)
        return count

    return {
        "broker": best_rate(rows, rounds, lambda: write_task(batches, options, None).rows, time.perf_counter),
        "each": best_rate(count, rounds, lambda: asyncio.run(send_each()), time.perf_counter),
    }


def measure_spark(rows: int, rounds: int, bootstrap: str) -> dict[str, float]:
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    spark = new_session("bench of the sink", master="local[2]", settings=settings)
    try:
        table = spark.range(0, rows, 1, 2).selectExpr(
            "concat('member-', id % 100000) as key", "repeat('x', 100) as value"
        )

        def write(**options: str) -> int:
            writer = table.write.format("barnabas").option("kafka.bootstrap.servers", bootstrap).option("topic", TOPIC)
            writer.options(**options).mode("append").save()
            return rows

        write()  # the first query warms the JVM and the workers up
        return {
            "Spark, with keys": best_rate(rows, rounds, write, time.perf_counter),
            "Spark, with keys, transactional": best_rate(
                rows, rounds, lambda: write(transactionalIdPrefix="bench"), time.perf_counter
            ),
        }
    finally:
        spark.stop()


def results(arguments: argparse.Namespace, bootstrap: str | None) -> Iterator[tuple[str, dict[str, float]]]:
    for shape in SHAPES:
        if arguments.row is None or arguments.row in shape.name:
            batches = make_rows(shape, arguments.rows)
            figures = {"packing": measure_packing(shape, batches, arguments.rows, arguments.rounds)}
            if bootstrap is not None and arguments.broker:
                figures |= measure_broker(shape, batches, arguments.rows, arguments.rounds, bootstrap)
            yield shape.name, figures
    if bootstrap is not None and arguments.spark:
        for name, rate in measure_spark(arguments.rows, arguments.rounds, bootstrap).items():
            yield name, {"broker": rate}


def tell(arguments: argparse.Namespace, bootstrap: str | None) -> None:
    print(f"{arguments.rows} rows, best of {arguments.rounds}, load {os.getloadavg()[0]:.1f}; million a second")
    print(f"{'':40}{'packing':>10}{'to a broker':>13}{'row by row':>12}")
    kept: dict[str, dict[str, float]] = {}
    for name, figures in results(arguments, bootstrap):
        kept[name] = figures
        rates = [(figures.get(which), width) for which, width in (("packing", 10), ("broker", 13), ("each", 12))]
        told = "".join(" " * width if rate is None else f"{rate / 1e6:{width}.2f}" for rate, width in rates)
        print(f"{name:40}{told}", flush=True)
    if arguments.keep:
        Path(arguments.keep).write_text(json.dumps(kept, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", help="only shapes whose name holds this")
    parser.add_argument("--broker", action="store_true", help="write to a broker, too")
    parser.add_argument("--spark", action="store_true", help="write to a broker from Spark, too")
    parser.add_argument("--keep", help="write the figures as JSON into this file")
    arguments = parser.parse_args()
    if not (arguments.broker or arguments.spark):
        tell(arguments, None)
        return
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), brokers=1, port=0, zookeeper_port=0, properties=_ONE_REPLICA) as cluster,
    ):
        asyncio.run(create_topic(cluster.bootstrap_servers))
        tell(arguments, cluster.bootstrap_servers)


async def create_topic(bootstrap: str) -> None:
    async with open_cluster(bootstrap) as cluster:
        await Admin(cluster).create_topics([NewTopic(TOPIC, partitions=PARTITIONS, replication_factor=1)])


if __name__ == "__main__":
    main()
