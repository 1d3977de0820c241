"""`barnabas logdirs`: the log directories of brokers, the logs in them, and what the cleaner did to each.

Directories and sizes are what the brokers answer (DescribeLogDirs, as kafka-log-dirs shows it). What the cleaner is at
stands in a file of each directory, `barnabas-cleaner.json`, which is read where the directory is on this machine.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import CommandFailed
from barnabas.admin.options import Reach, cluster_options, complete_topics, output_option
from barnabas.admin.output import Column, Format, show_document, show_rows
from barnabas.admin.partition_arguments import named_partitions
from barnabas.client.errors import error_code
from barnabas.client.replica_admin import ReplicaAdmin
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk import Disk, SystemDisk
from barnabas.storage.cleaner_report import (
    CLEANED,
    REPORT_FILE,
    RUNNING,
    CleanerRun,
    CorruptReport,
    decode_report,
)
from barnabas.storage.file_names import META_PROPERTIES
from barnabas.storage.meta_properties import InvalidMetaProperties, MetaProperties

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

Runs = dict[TopicPartition, CleanerRun]

_COLUMNS: Final = (
    Column("broker", "BROKER", is_number=True),
    Column("log_dir", "LOG DIR"),
    Column("partition", "PARTITION"),
    Column("size", "BYTES", is_number=True),
    Column("lag", "LAG", is_number=True),
    Column("future", "MOVES IN"),
    Column("cleaner", "CLEANER"),
)


@click.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...", shell_complete=complete_topics)
@click.option("--brokers", "wanted", metavar="ID[,ID...]", help="Ask these brokers.  [default: all live brokers]")
@output_option
@cluster_options
def logdirs(*, partitions: tuple[str, ...], wanted: str | None, reach: Reach, output: Format) -> int:
    """Show log directories and their logs: bytes, how far a move or a follower lags, and the cleaner's last run.

    With `-o json` the document is that of kafka-log-dirs, with a `cleaner` for each log. A directory that failed is
    shown with its error, and the exit status is 1.
    """
    ids = None if wanted is None else _ids(wanted)

    async def work(cluster: "Cluster") -> tuple[str | None, dict[int, list[DescribeLogDirsResult]]]:
        metadata = await cluster.metadata(())
        nodes = sorted(metadata.nodes) if ids is None else ids
        missing = [node for node in nodes if node not in metadata.nodes]
        if missing:
            raise CommandFailed(f"broker {missing[0]} does not live")
        named = await named_partitions(cluster, partitions) if partitions else None
        admin = ReplicaAdmin(cluster)
        answers = await asyncio.gather(*(admin.log_dirs(node, named) for node in nodes))
        return metadata.cluster_id, dict(zip(nodes, answers, strict=True))

    cluster_id, found = reach.run(work)
    brokers = [_broker(node, cluster_id, results, SystemDisk()) for node, results in found.items()]
    if output is Format.TABLE:
        show_rows(_rows(brokers), _COLUMNS, output)
    else:
        show_document({"version": 1, "brokers": brokers}, output)
    return int(any(directory["error"] for broker in brokers for directory in broker["logDirs"]))


def _ids(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise click.UsageError(f"{text!r} is no list of broker ids") from None


def _broker(node: int, cluster_id: str | None, results: Sequence[DescribeLogDirsResult], disk: Disk) -> dict[str, Any]:
    directories = []
    for result in sorted(results, key=lambda result: result.log_dir):
        runs = read_runs(disk, result.log_dir, broker_id=node, cluster_id=cluster_id)
        directories.append(
            {
                "logDir": result.log_dir,
                "error": error_code(result.error_code).name if result.error_code else None,
                "partitions": [
                    _partition(TopicPartition(topic.name, each.partition_index), each, runs)
                    for topic in sorted(result.topics, key=lambda topic: topic.name)
                    for each in sorted(topic.partitions, key=lambda each: each.partition_index)
                ],
            }
        )
    return {"broker": node, "logDirs": directories}


def read_runs(disk: Disk, log_dir: str, *, broker_id: int, cluster_id: str | None) -> Runs | None:
    """What the cleaner says of the logs of a directory; None where it is not here, or is another broker's."""
    try:
        meta = MetaProperties.decode(disk.read_bytes(f"{log_dir}/{META_PROPERTIES}"))
        if meta.broker_id != broker_id or meta.cluster_id not in (None, cluster_id):
            return None
        return {run.topic_partition: run for run in decode_report(disk.read_bytes(f"{log_dir}/{REPORT_FILE}"))}
    except (OSError, InvalidMetaProperties, CorruptReport):
        return None


def _partition(at: TopicPartition, each: DescribeLogDirsPartition, runs: Runs | None) -> dict[str, Any]:
    run = None if runs is None or each.is_future_key else runs.get(at)
    return {
        "partition": f"{at.topic}-{at.partition}",
        "size": each.partition_size,
        "offsetLag": each.offset_lag,
        "isFuture": each.is_future_key,
        "cleaner": None if run is None else _document(run),
    }


def _document(run: CleanerRun) -> dict[str, Any]:
    return {
        "state": run.state,
        "progress": round(run.progress, 3),
        "phase": run.phase,
        "startedMs": run.started_ms,
        "endedMs": None if run.ended_ms < 0 else run.ended_ms,
        "dirtyRatio": round(run.dirty_ratio, 3),
        "firstDirtyOffset": run.first_dirty_offset,
        "bytesRead": run.bytes_read,
        "bytesWritten": run.bytes_written,
        "recordsRead": run.records_read,
        "recordsKept": run.records_kept,
        "mapEntries": run.map_entries,
        "mapCapacity": run.map_capacity,
        "memoryBytes": run.memory_bytes,
        "reason": run.reason,
    }


def _rows(brokers: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    now_ms = SystemClock().wall_ms()
    for broker in brokers:
        for directory in broker["logDirs"]:
            place = {"broker": broker["broker"], "log_dir": directory["logDir"]}
            if directory["error"] or not directory["partitions"]:
                yield {**place, "partition": directory["error"] or "(empty)"}
            for each in directory["partitions"]:
                yield {
                    **place,
                    "partition": each["partition"],
                    "size": each["size"],
                    "lag": each["offsetLag"],
                    "future": each["isFuture"],
                    "cleaner": cleaner_text(each["cleaner"], now_ms=now_ms),
                }


def cleaner_text(run: dict[str, Any] | None, *, now_ms: int) -> str | None:
    """The cleaner's run in a few words."""
    if run is None:
        return None
    if run["state"] == RUNNING:
        return f"{run['phase'] or 'begins'}, {run['progress']:.0%}"
    ago = f"{max(0, now_ms - run['endedMs']) // 1000} s ago"
    if run["state"] != CLEANED:
        return f"{run['state']} {ago}: {run['reason']}"
    took_s = (run["endedMs"] - run["startedMs"]) / 1000
    return f"cleaned {ago} in {took_s:.1f} s: {run['bytesRead']} bytes read, {run['bytesWritten']} kept"
