"""`barnabas records`: give up the beginning of partitions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import CommandFailed, explain, report
from barnabas.admin.options import Reach, cluster_options, complete_topics, confirm, output_option
from barnabas.admin.output import Column, Format, show_rows
from barnabas.admin.partition_arguments import named_partitions, require_partitions
from barnabas.client.errors import KafkaError
from barnabas.client.record_admin import END_OF_COMMITTED, RecordAdmin, Starts
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_COLUMNS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("low_watermark", "START", is_number=True),
)


@click.group()
def records() -> None:
    """Give up the beginning of partitions."""


def _offset(_ctx: click.Context, _param: click.Parameter, text: str | None) -> int | None:
    if text is None or text == "end":
        return None if text is None else END_OF_COMMITTED
    if not (text.isascii() and text.isdecimal()):
        raise click.BadParameter(f"{text!r} is neither an offset nor end")
    return int(text)


@records.command()
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...", shell_complete=complete_topics)
@click.option(
    "--before", callback=_offset, metavar="OFFSET|end", help="The first offset that stays; end keeps nothing."
)
@click.option(
    "--offset-json-file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Partitions and offsets, as kafka-delete-records takes them.",
)  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output_option
@cluster_options
def delete(
    *, partitions: tuple[str, ...], before: int | None, file: Path | None, yes: bool, reach: Reach, output: Format
) -> None:
    """Delete the records before an offset, for good, on all replicas of these partitions.

    The start of each partition is shown when all live replicas begin there. Topics that are only compacted refuse.
    """
    if (file is None) != bool(partitions) or (file is None) != (before is not None):
        raise click.UsageError("say either partitions with --before, or --offset-json-file")
    listed = None if file is None else _read(file)

    async def look_up(cluster: "Cluster") -> dict[TopicPartition, int]:
        if listed is not None:
            await require_partitions(cluster, listed)
            return listed
        assert before is not None
        return dict.fromkeys(await named_partitions(cluster, partitions), before)

    wanted = reach.run(look_up)
    if not yes:
        confirm("\n".join(f"{at.topic}-{at.partition}: records {_span(offset)} go" for at, offset in wanted.items()))

    async def work(cluster: "Cluster") -> Starts:
        return await RecordAdmin(cluster).delete_records(wanted)

    _show(reach.run(work), output)


def _span(before: int) -> str:
    return "of all offsets" if before == END_OF_COMMITTED else f"below offset {before}"


def _read(file: Path) -> dict[TopicPartition, int]:
    try:
        document: Any = json.loads(file.read_bytes())
        rows = document["partitions"]
        return {TopicPartition(str(row["topic"]), int(row["partition"])): int(row["offset"]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise click.BadParameter(
            f'{file} is not {{"partitions": [{{"topic": …, "partition": …, "offset": …}}]}}: {error!r}'
        ) from None


def _show(starts: Starts, output: Format) -> None:
    rows = [
        {"topic": at.topic, "partition": at.partition, "low_watermark": start}
        for at, start in starts.items()
        if isinstance(start, int)
    ]
    if rows or output is not Format.TABLE:
        show_rows(rows, _COLUMNS, output)
    failed = [_failure(at, error) for at, error in starts.items() if isinstance(error, KafkaError)]
    for failure in failed[:-1]:
        report(str(failure), failure.hint)
    if failed:
        raise failed[-1]


def _failure(at: TopicPartition, error: KafkaError) -> CommandFailed:
    failure = explain(error) or CommandFailed(str(error))
    # To other requests this error says other things: that a policy of the cluster's own forbids a topic, for one.
    if error.error is ErrorCode.POLICY_VIOLATION:
        shows = f"`barnabas configs describe -t {at.topic} cleanup.policy` shows it"
        failure.hint = f"records are deleted only where cleanup.policy holds delete; {shows}"
    return failure
