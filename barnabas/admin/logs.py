"""`barnabas logs`: whether what the cluster, or a directory of a broker that does not run, holds is whole."""

from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import NOT_FOUND, UNHEALTHY, CommandFailed
from barnabas.admin.options import Reach, cluster_options, complete_topics, output_option
from barnabas.admin.output import Column, Format, show_rows

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_REPLICA_COLUMNS: Final = (
    Column("partition", "PARTITION"),
    Column("broker", "BROKER", is_number=True),
    Column("leads", "LEADS"),
    Column("start_offset", "START", is_number=True),
    Column("end_offset", "HIGH WATERMARK", is_number=True),
    Column("batches", "BATCHES", is_number=True),
    Column("size_bytes", "BYTES", is_number=True),
    Column("problem", "PROBLEM"),
)
_FILE_COLUMNS: Final = (
    Column("log", "LOG"),
    Column("segments", "SEGMENTS", is_number=True),
    Column("size_bytes", "BYTES", is_number=True),
    Column("problem", "PROBLEM"),
)


@click.group()
def logs() -> None:
    """Check what the logs hold."""


@logs.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option(
    "--directory",
    "-d",
    "directories",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    help="A log directory of a broker that does not run, instead of a cluster; can be given again.",
)
@output_option
@cluster_options
def verify(*, topics: tuple[str, ...], directories: tuple[str, ...], reach: Reach, output: Format) -> int:
    """Read all that the logs hold and check it; exit with 4 where something is wrong.

    Every replica of the TOPICs, of all without one, is read up to its high watermark: checksums, the order of offsets,
    and whether the replicas hold the same. Replicas of compacted topics may differ in what compaction takes away.
    With --directory the files are checked instead, indexes, snapshots and checkpoints too.
    """
    if directories:
        if topics:
            raise click.UsageError("with --directory all logs of the directory are checked")
        rows = [row for path in directories for row in _verify_files(path)]
        is_bad = any(row["problems"] for row in rows)
        shown = rows if output is not Format.TABLE else [line for row in rows for line in _lines(row)]
        show_rows(shown, _FILE_COLUMNS, output)
        return UNHEALTHY if is_bad else 0
    found = reach.run(lambda cluster: _verify_cluster(cluster, topics))
    show_rows(found, _REPLICA_COLUMNS, output)
    return UNHEALTHY if any(row["problem"] for row in found) else 0


async def _verify_cluster(cluster: "Cluster", topics: tuple[str, ...]) -> list[dict[str, Any]]:
    from barnabas.admin.verified_replicas import verify_partitions  # noqa: PLC0415
    from barnabas.protocol.ids import TopicPartition  # noqa: PLC0415

    metadata = await cluster.metadata(None)
    if missing := [name for name in topics if name not in metadata.topics]:
        raise CommandFailed(f"there is no topic {missing[0]}", status=NOT_FOUND)
    partitions = [
        TopicPartition(name, number)
        for name in sorted(topics or metadata.topics)
        for number in metadata.topics[name].partitions
    ]
    return [row async for row in verify_partitions(cluster, partitions)]


def _verify_files(path: str) -> list[dict[str, Any]]:
    from barnabas.admin.verified_files import is_in_use, verify_directory  # noqa: PLC0415
    from barnabas.runtime.disk import SystemDisk  # noqa: PLC0415

    disk = SystemDisk()
    if is_in_use(disk, path):
        raise CommandFailed(
            f"a broker runs on {path}", hint="stop it, or verify through the cluster: leave --directory out"
        )
    return list(verify_directory(disk, path.rstrip("/")))


def _lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each problem of a log, one line without any."""
    return [{**row, "problem": problem} for problem in row["problems"] or [None]]
