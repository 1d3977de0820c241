"""Compaction, measured on the cleaner of Barnabas and on that of Kafka 2.7.2, over the same log in one run.

`python -m bench.compaction [--mb 2000] [--keys 1000000] [--record-bytes 1000] [--codec none] [--rounds 3]`. The log is
made anew, once; each round gives each cleaner its own view of it, in turn, read into the page cache before. Ours runs
as in a broker, in a worker process of an offload; Kafka's in a JVM of its own, by `CleanerRun.java` against the
jars that the tests use. MB/s are bytes of the log by the seconds of the cleaning alone; the memory is the peak of
the resident set of the whole process, interpreter or JVM included. What both leave of the log must be the same records.
The results go to `bench/results`, which is not in the repository.
"""

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import iterate_records
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.offload import SystemOffload
from barnabas.storage.cleaning.clean_job import CleanedSegment, CleanJob, CleanLimits, CleanResult
from barnabas.storage.cleaning.clean_plan import SourceSegment
from bench.compaction_log import INDEX_INTERVAL_BYTES, LogShape, add_shape_options, make_log, shape_of
from bench.compaction_worker import measured_clean
from bench.guest_memory import kept_from_host
from tests.support.java import compile_java
from tests.support.kafka_jars import BROKER_JARS, class_path, java_command

RESULTS = Path(__file__).parent / "results"
JAVA_SOURCE = Path(__file__).parents[1] / "tests" / "compatibility" / "java" / "CleanerRun.java"
DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024
IO_BUFFER_BYTES = 512 * 1024
DELETE_RETENTION_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Run:
    """One cleaning."""

    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    records_read: int
    records_kept: int
    bytes_written: int
    digest: str


def closed_segments(directory: Path) -> list[tuple[int, int]]:
    """Base offsets of the closed segments, each with that of the next one."""
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    return list(pairwise(bases))


def view_of(log: Path, directory: Path) -> Path:
    """A directory with the same log: closed segments are linked, whatever a broker may change is copied."""
    view = directory / "t-0"
    view.mkdir(parents=True)
    active = max(log.glob("*.log")).name
    for path in log.iterdir():
        if path.suffix == ".log" and path.name != active:
            os.link(path, view / path.name)
            _warm(path)
        else:
            shutil.copy2(path, view / path.name)
    (directory / ".kafka_cleanshutdown").touch()
    return view


def _warm(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def run_ours(view: Path, shape: LogShape) -> Run:
    sources = tuple(_source(view, base, end) for base, end in closed_segments(view))
    limits = CleanLimits(
        segment_bytes=shape.segment_bytes,
        segment_index_bytes=10 * 1024 * 1024,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        offset_map_bytes=DEDUPE_BUFFER_BYTES,
        offset_map_load_factor=0.9,
        io_buffer_bytes=IO_BUFFER_BYTES,
        max_bytes_per_second=sys.float_info.max,
        max_decompressed_bytes=1 << 29,
    )
    job = CleanJob(TopicPartition("t", 0), str(view), sources, 0, None, (), (), limits, os.urandom(32))
    replaced: list[CleanedSegment] = []

    async def main() -> tuple[CleanResult, float, float, int]:
        offload = SystemOffload()
        try:
            return await offload.steps(
                lambda told: replaced.append(told) if isinstance(told, CleanedSegment) else None,
                measured_clean,
                SystemDisk(),
                SystemClock(),
                job,
            )
        finally:
            offload.close()

    result, seconds, cpu, peak = asyncio.run(main())
    for segment in replaced:
        for base in segment.sources:
            (view / f"{base:020d}.log").unlink()
        path = view / f"{segment.base_offset:020d}.log"
        path.with_name(path.name + ".cleaned").rename(path)
    return Run(
        seconds, cpu, peak / 1024, result.records_read, result.records_kept, result.bytes_written, digest_of(view)
    )


def _source(view: Path, base: int, end: int) -> SourceSegment:
    log, index, times = (view / f"{base:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))
    modified_ms = log.stat().st_mtime_ns // 1_000_000
    sizes = (log.stat().st_size, index.stat().st_size, times.stat().st_size)
    return SourceSegment(base, end, *sizes, modified_ms, has_txn_index=False)


def run_kafka(view: Path, shape: LogShape, classes: str, heap: str) -> Run:
    _, uncleanable = closed_segments(view)[-1]
    settings = [shape.segment_bytes, INDEX_INTERVAL_BYTES, DEDUPE_BUFFER_BYTES, IO_BUFFER_BYTES]
    command = [
        *(java_command(), "-server", f"-Xmx{heap}", "-XX:+UseG1GC", "-cp", classes, "kafka.log.CleanerRun"),
        *(str(argument) for argument in (*settings, view, 0, uncleanable, DELETE_RETENTION_MS)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if done.returncode or told is None:
        raise RuntimeError(f"Kafka's cleaner ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    result = json.loads(told.removeprefix("RESULT "))
    return Run(
        result["seconds"],
        result["cpu_seconds"],
        result["peak_rss_kb"] / 1024,
        result["records_read"],
        result["records_kept"],
        result["bytes_written"],
        digest_of(view),
    )


def digest_of(view: Path) -> str:
    """Of all records that are left, with their offsets and times."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(view.glob("*.log")):
        data = path.read_bytes()
        for at, header in iterate_entries(data):
            for record in iterate_records(data, at, header, 1 << 29):
                digest.update(b"%d %d %s" % (record.offset, record.timestamp, record.key or b""))
                digest.update(record.value or b"")
    return digest.hexdigest()


def row(name: str, runs: list[Run], log_bytes: int) -> str:
    seconds = statistics.median(run.seconds for run in runs)
    cpu = statistics.median(run.cpu_seconds for run in runs)
    memory = max(run.peak_rss_mb for run in runs)
    rate = log_bytes / seconds / 1e6
    return f"| {name} | {rate:.0f} | {seconds:.1f} | {cpu / (log_bytes / 1e9):.1f} | {memory:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape_options(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heap", default="1g", help="of the JVM; Kafka's own scripts give a broker 1g")
    parser.add_argument("--directory", type=Path, help="where the log is made; a temporary directory where not given")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape = shape_of(options)
    ours: list[Run] = []
    kafka: list[Run] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch_name, kept_from_host():
        scratch = Path(scratch_name)
        classes = compile_java(JAVA_SOURCE, jars=class_path(BROKER_JARS), output=scratch / "classes")
        log = scratch / "log"
        make_log(log, shape, options.seed)
        log_bytes = sum((log / f"{base:020d}.log").stat().st_size for base, _ in closed_segments(log))
        for number in range(options.rounds):
            for name, runs in (("barnabas", ours), ("kafka", kafka)):
                place = scratch / f"{name}-{number}"
                view = view_of(log, place)
                runs.append(
                    run_ours(view, shape) if name == "barnabas" else run_kafka(view, shape, classes, options.heap)
                )
                shutil.rmtree(place)
                print(name, runs[-1], flush=True)
    digests = {run.digest for run in (*ours, *kafka)}
    print(f"\n{log_bytes / 1e6:.0f} MB, {ours[0].records_read} records read, {ours[0].records_kept} kept")
    print("\n| cleaner | MB/s | s | CPU s/GB | peak MB |\n|---|---|---|---|---|")
    print(row("Barnabas", ours, log_bytes))
    print(row("Kafka 2.7.2", kafka, log_bytes))
    print("same records" if len(digests) == 1 else f"DIFFERENT RECORDS: {digests}")
    RESULTS.mkdir(exist_ok=True)
    result = {
        "shape": asdict(shape),
        "barnabas": [asdict(run) for run in ours],
        "kafka": [asdict(run) for run in kafka],
    }
    (RESULTS / f"compaction-{time.time_ns() // 1_000_000_000}.json").write_text(json.dumps(result, indent=1))
    sys.exit(len(digests) != 1)


if __name__ == "__main__":
    main()
