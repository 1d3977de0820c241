"""How long a start takes after a kill, and with many partitions; how long a stop takes.

`python -m bench.recovery [--gigabytes 10] [--tails-mb 0 100 1000] [--partitions 2000] [--rows tail partitions]
[--directory DIR] [--keep TABLE.md]`. Rows:

- tail: a data directory of that size in ten logs, written by our own storage code in a process that kills itself; all
  is flushed and checkpointed but a tail. Then, in a new process, from the opening of the directory until all logs are
  loaded. Once with the pages of the files in memory, as after a kill, and once from the disk (`--cold`), as after a
  power cut. The bytes that recovery read are in the log line of each log.
- partitions: a broker with that many partitions of one record each: from exec to its line `Kafka Server started` and
  until each partition has a leader, after a clean stop; from SIGTERM to its end. ZooKeeper runs beside it.

The directory is removed at the end. Room for it is looked for before. On a machine that does other things too the CPU
seconds say more than the others.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import Cluster
from barnabas.client.connection import Address
from barnabas.launcher.cluster import LocalCluster
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.records import Record, build_batch
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.offload import SystemOffload
from barnabas.storage.append import AppendOrigin
from barnabas.storage.directories import LogDirectories
from barnabas.storage.log_config import LogConfig

LOGS: Final = 10
_BATCH_BYTES: Final = 256 * 1024
_SPARE_BYTES: Final = 4 << 30
_READY: Final = "Kafka Server started"

Row = dict[str, Any]


def _open(path: Path, offload: SystemOffload) -> LogDirectories:
    def fail(directory: str, error: OSError) -> None:
        raise RuntimeError(f"{directory} failed") from error

    return LogDirectories(
        [str(path)],
        disk=SystemDisk(),
        clock=SystemClock(),
        offload=offload,
        random=random.Random(1),
        default_config=LogConfig(),
        on_failure=fail,
    )


# In processes of their own.


async def _fill(path: Path, *, flushed_bytes: int, tail_bytes: int) -> None:
    directories = _open(path, SystemOffload())
    await directories.open(broker_id=BrokerId(1), cluster_id="bench")
    record = Record(0, 1_700_000_000_000, b"key", b"v" * 1000)
    batch = build_batch([record] * (_BATCH_BYTES // 1000))
    logs = [directories.create_log(TopicPartition("bench", number)) for number in range(LOGS)]

    def write(size_bytes: int) -> None:
        for _ in range(size_bytes // len(batch) // LOGS):
            for member in logs:
                data = memoryview(bytearray(batch))
                member.append(data, leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=1_700_000_000_000)

    write(flushed_bytes)
    (directory,) = directories.directories
    for member in logs:
        await directory.flush(member, member.log_end_offset)
    await directory.checkpoint_all()
    write(tail_bytes)
    os.kill(os.getpid(), signal.SIGKILL)


async def _load(path: Path) -> Row:
    offload = SystemOffload()
    directories = _open(path, offload)
    began = time.monotonic()
    await directories.open(broker_id=BrokerId(1), cluster_id="bench")
    seconds = time.monotonic() - began
    records = sum(member.log_end_offset for member in directories.logs())
    offload.close()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(each.ru_utime + each.ru_stime for each in used)
    return {"seconds": round(seconds, 2), "cpu_s": round(cpu_s, 2), "records": records}


# Rows.


def tail_rows(directory: Path, *, gigabytes: float, tails_mb: list[int], is_cold: bool) -> Iterator[Row]:
    """Recovery by the size of the tail."""
    for tail_mb in tails_mb:
        path = directory / "logs"
        shutil.rmtree(path, ignore_errors=True)
        sizes = [str(int(gigabytes * (1 << 30)) - (tail_mb << 20)), str(tail_mb << 20)]
        filled = subprocess.run([sys.executable, "-m", "bench.recovery", "fill", str(path), *sizes], check=False)
        assert filled.returncode == -signal.SIGKILL, filled
        if is_cold:
            _forget_pages(path)
        loaded = subprocess.run(
            [sys.executable, "-m", "bench.recovery", "load", str(path)], check=True, capture_output=True, text=True
        )
        size = sum(file.stat().st_size for file in path.rglob("*.log"))
        yield {
            "row": "tail",
            "tail_mb": tail_mb,
            "directory_gb": round(size / (1 << 30), 2),
            "pages": "on disk" if is_cold else "in memory",
            **json.loads(loaded.stdout.splitlines()[-1]),
        }
        shutil.rmtree(path)


def _forget_pages(path: Path) -> None:
    for file in path.rglob("*.log"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def partition_rows(directory: Path, *, partitions: int) -> Iterator[Row]:
    """A broker with many partitions, stopped and started."""
    cluster = LocalCluster(directory / "cluster", brokers=1, port=0, zookeeper_port=0)
    cluster.start(timeout_s=120)
    try:
        asyncio.run(_make_topics(cluster, partitions))
        logs = directory / "cluster" / "broker-1" / "logs"
        while sum(path.is_dir() for path in logs.iterdir()) < partitions // 20 * 20:
            time.sleep(0.1)
        for life in (1, 2):
            began = time.monotonic()
            cluster.stop_broker(1)
            stopped_s = time.monotonic() - began
            log_file = directory / "cluster" / "broker-1" / "broker.log"
            seen = log_file.read_text().count(_READY)
            began = time.monotonic()
            cluster.start_broker(1, wait=False)
            while log_file.read_text().count(_READY) == seen:
                time.sleep(0.01)
            ready_s, pid = time.monotonic() - began, cluster.pid(1)
            assert pid is not None
            cpu = psutil.Process(pid).cpu_times()
            asyncio.run(_wait_for_leaders(cluster, partitions))
            yield {
                "row": "partitions",
                "partitions": partitions,
                "life": life,
                "stop_s": round(stopped_s, 2),
                "start_s": round(ready_s, 2),
                "start_cpu_s": round(cpu.user + cpu.system, 2),
                "all_led_s": round(time.monotonic() - began, 2),
            }
    finally:
        cluster.stop()


async def _make_topics(cluster: LocalCluster, partitions: int) -> None:
    async with _client(cluster) as client:
        await Admin(client).create_topics([NewTopic(f"t{number}", partitions // 20, 1) for number in range(20)])
    await _wait_for_leaders(cluster, partitions)


async def _wait_for_leaders(cluster: LocalCluster, partitions: int) -> None:
    async with _client(cluster) as client:
        while True:
            topics = (await client.metadata(None)).topics.values()
            led = sum(part.leader >= 0 for topic in topics for part in topic.partitions.values())
            if led >= partitions // 20 * 20:
                return
            await asyncio.sleep(0.02)


def _client(cluster: LocalCluster) -> Cluster:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return Cluster([Address(host, int(port))], random=random.Random())


def main() -> None:
    """Measure and print a table."""
    if len(sys.argv) > 1 and sys.argv[1] == "fill":
        asyncio.run(_fill(Path(sys.argv[2]), flushed_bytes=int(sys.argv[3]), tail_bytes=int(sys.argv[4])))
    if len(sys.argv) > 1 and sys.argv[1] == "load":
        print(json.dumps(asyncio.run(_load(Path(sys.argv[2])))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--tails-mb", type=int, nargs="+", default=[0, 100, 1000])
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--rows", nargs="+", choices=("tail", "partitions"), default=["tail", "partitions"])
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    free = shutil.disk_usage(options.directory).free
    needed = int(options.gigabytes * (1 << 30)) + _SPARE_BYTES if "tail" in options.rows else _SPARE_BYTES
    if free < needed:
        raise SystemExit(f"{options.directory} has {free >> 30} GB free, {needed >> 30} are needed")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=options.directory, prefix=".recovery-") as directory:
        if "tail" in options.rows:
            rows += _told(
                tail_rows(Path(directory), gigabytes=options.gigabytes, tails_mb=options.tails_mb, is_cold=options.cold)
            )
        if "partitions" in options.rows:
            rows += _told(partition_rows(Path(directory), partitions=options.partitions))
    if options.keep is not None:
        options.keep.write_text(f"`{' '.join(['python -m bench.recovery', *sys.argv[1:]])}`\n\n{_table(rows)}\n")


def _told(rows: Iterator[Row]) -> list[Row]:
    found = []
    for row in rows:
        print(json.dumps(row), flush=True)
        found.append(row)
    return found


def _table(rows: list[Row]) -> str:
    lines = ["| row | figures |", "|---|---|"]
    for row in rows:
        figures = ", ".join(f"{name} {value}" for name, value in row.items() if name != "row")
        lines.append(f"| {row['row']} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
