"""How fast records become columns: records a second and core, for shapes of records and codecs, beside the row reader.

Time is CPU time of this process, so a busy machine shifts the figures little; the best of some rounds counts. Each row
is one log in memory of batches as a producer with batch.size 16384 sends them, or of 1000 records where it says so.
`--spark` reads the same log as a file through Spark with the source barnabas-segments, all columns, to nowhere: that is
wall time of the whole machine.

    python -m bench.decoding [--records 1000000] [--rounds 3] [--row TEXT] [--spark] [--keep FILE]
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from barnabas.client.fetched_records import decode_records
from barnabas.pipeline.columns.decoder import ColumnDecoder
from barnabas.pipeline.columns.schema import COLUMN_NAMES
from barnabas.pipeline.session import new_session
from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, build_batch

AIM_PER_SECOND = 1_500_000
PARTITION = TopicPartition("bench", 0)
COLUMNS = tuple(name for name in COLUMN_NAMES if name != "headers")
_AMPLE = 1 << 30
_START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Shape:
    """What a log holds and which columns of it are read."""

    name: str
    sizes: tuple[int, int] = (100, 100)
    keyed: bool = False
    headers: bool = False
    codec: Codec = Codec.NONE
    per_batch: int = 150
    columns: tuple[str, ...] = COLUMNS


SHAPES = (
    Shape("100 bytes"),
    Shape("100 bytes, 1000 a batch", per_batch=1000),
    Shape("50 to 150 bytes", sizes=(50, 150)),
    Shape("100 bytes with keys", keyed=True),
    Shape("100 bytes with keys and a header", keyed=True, headers=True, columns=COLUMN_NAMES),
    Shape("1000 bytes", sizes=(1000, 1000), per_batch=16),
    Shape("50 to 150 bytes, only value", sizes=(50, 150), columns=("value",)),
    Shape("50 to 150 bytes, only offset and timestamp", sizes=(50, 150), columns=("offset", "timestamp")),
    Shape("50 to 150 bytes, lz4", sizes=(50, 150), codec=Codec.LZ4),
    Shape("50 to 150 bytes, snappy", sizes=(50, 150), codec=Codec.SNAPPY),
    Shape("50 to 150 bytes, zstd", sizes=(50, 150), codec=Codec.ZSTD),
    Shape("50 to 150 bytes, gzip", sizes=(50, 150), codec=Codec.GZIP),
)


def make_log(shape: Shape, records: int) -> bytes:
    """Batches of that many records, text that compresses about as log lines do."""
    dice = random.Random(1)
    words = [dice.randbytes(3).hex() for _ in range(500)]
    text = " ".join(dice.choice(words) for _ in range(100_000)).encode()
    batches: list[bytes] = []
    for base in range(0, records, shape.per_batch):
        made = []
        for offset in range(base, min(base + shape.per_batch, records)):
            at = dice.randrange(len(text) - shape.sizes[1])
            value = text[at : at + dice.randint(*shape.sizes)]
            key = b"member-%d" % dice.randrange(100_000) if shape.keyed else None
            headers = (("trace", b"0123456789abcdef"),) if shape.headers else ()
            made.append(Record(offset, _START_MS + offset // 3, key, value, headers))
        batches.append(build_batch(made, base_offset=base, codec=shape.codec))
    return b"".join(batches)


def best_rate(records: int, rounds: int, read: Callable[[], int], clock: Callable[[], float]) -> float:
    """Records a second in the fastest round."""
    fastest = float("inf")
    for _ in range(rounds):
        started = clock()
        found = read()
        fastest = min(fastest, clock() - started)
        assert found == records, f"{found} records were read of {records}"
    return records / fastest


def measure(shape: Shape, log: bytes, records: int, rounds: int) -> dict[str, float]:
    """The rates of the column decoder and, over a tenth of the log, of the reader of single records."""

    def columns() -> int:
        decoder = ColumnDecoder(PARTITION, shape.columns)
        return sum(batch.num_rows for batch in decoder.decode(log, start=0))

    some = make_log(shape, records // 10)

    def rows() -> int:
        return len(decode_records(some, start=0, max_decompressed_bytes=_AMPLE))

    return {
        "columns_per_second": best_rate(records, rounds, columns, time.process_time),
        "rows_per_second": best_rate(records // 10, rounds, rows, time.process_time),
    }


def measure_spark(log: bytes, records: int, rounds: int, segments: int = 4) -> float:
    """Rows a second from segment files through Spark to nowhere, on two cores."""
    with tempfile.TemporaryDirectory() as root:
        for partition in range(segments):
            directory = Path(root, f"bench-{partition}")
            directory.mkdir()
            (directory / f"{0:020d}.log").write_bytes(log)
        settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
        spark = new_session("bench of barnabas-segments", master="local[2]", settings=settings)
        try:
            source = spark.read.format("barnabas-segments").option("beyondHighWatermark", "true")

            def read() -> int:
                source.load(root).write.format("noop").mode("overwrite").save()
                return segments * records

            read()  # the first query warms the JVM and the workers up
            return best_rate(segments * records, rounds, read, time.perf_counter)
        finally:
            spark.stop()


def results(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, float]]]:
    for shape in SHAPES:
        if arguments.row is None or arguments.row in shape.name:
            log = make_log(shape, arguments.records)
            yield shape.name, measure(shape, log, arguments.records, arguments.rounds)
    if arguments.spark:
        log = make_log(SHAPES[0], arguments.records)
        yield "segments through Spark", {"columns_per_second": measure_spark(log, arguments.records, arguments.rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", help="only rows whose name holds this")
    parser.add_argument("--spark", action="store_true", help="read segments through Spark, too")
    parser.add_argument("--keep", help="write the figures as JSON into this file")
    arguments = parser.parse_args()
    print(f"{arguments.records} records, best of {arguments.rounds}, load {os.getloadavg()[0]:.1f}; million a second")
    print(f"{'':45}{'columns':>9}{'records':>9}")
    kept: dict[str, dict[str, float]] = {}
    for name, figures in results(arguments):
        kept[name] = figures
        rates = [figures.get(which) for which in ("columns_per_second", "rows_per_second")]
        told = "".join("" if rate is None else f"{rate / 1e6:9.2f}" for rate in rates)
        aim = "" if figures["columns_per_second"] >= AIM_PER_SECOND else f"  below {AIM_PER_SECOND / 1e6} million"
        print(f"{name:45}{told}{aim if name == SHAPES[0].name else ''}", flush=True)
    if arguments.keep:
        Path(arguments.keep).write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
