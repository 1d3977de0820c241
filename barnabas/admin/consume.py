"""`barnabas consume`: records of topics to standard output, from offset to offset."""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from barnabas.admin.offsets import Bound, OffsetSpec, OffsetSyntax, parse_offset_spec
from barnabas.admin.options import Reach, cluster_options, complete_topics, find_topic
from barnabas.admin.output import dump_json
from barnabas.admin.partition_arguments import require_partitions
from barnabas.admin.record_text import record_fields, unescape
from barnabas.client.admin import EARLIEST, LATEST, Admin, FoundOffset
from barnabas.client.fetched_records import FetchedRecords
from barnabas.client.range_reader import OffsetRange, RangeReader
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

Write = Callable[[FetchedRecords, Iterable[Record]], None]

_OUTPUT_BUFFER_BYTES: Final = 256 * 1024
_TABLE_LINE: Final = "{:<16}  {:>12}  {:<24}  {:<20}  {}\n"


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option(
    "--offset",
    "-O",
    "offset",
    default="start",
    show_default=True,
    metavar="SPEC",
    help="Where to begin and end: start, end, N, +N (after the start), -N (before the end), @TIME, or FROM:TO. "
    "A time is Unix seconds or milliseconds, 2026-11-21, 2026-11-21T08:00:00Z, or -2h30m.",
)
@click.option(
    "--partition", "-p", "partitions", multiple=True, type=click.IntRange(min=0), help="Repeatable.  [default: all]"
)
@click.option("--exit", "-e", "stop_at_end", is_flag=True, help="Stop at what is the end now.")
@click.option("--count", "-n", type=click.IntRange(min=1), help="Stop after so many records.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["lines", "table", "json", "jsonl"]),
    default="lines",
    show_default=True,
    help="The values as they are, or everything about the records.",
)
@click.option("--key-separator", "-K", metavar="TEXT", help="Print key, this, and value in lines.")
@click.option("--null", metavar="TEXT", default="", help="What stands for null in lines.")
@click.option("--delimiter", "-D", default="\\n", show_default=True, metavar="TEXT", help="What ends a line.")
@cluster_options
def consume(
    *,
    topics: tuple[str, ...],
    offset: str,
    partitions: tuple[int, ...],
    stop_at_end: bool,
    count: int | None,
    output: str,
    key_separator: str | None,
    null: str,
    delimiter: str,
    reach: Reach,
) -> None:
    """Print records of TOPICs; without an end it goes on with what is written."""
    try:
        spec = parse_offset_spec(offset, now_ms=SystemClock().wall_ms())
    except OffsetSyntax as error:
        raise click.BadParameter(str(error), param_hint="--offset") from None
    separator = None if key_separator is None else unescape(key_separator)
    # Of our own: with PYTHONUNBUFFERED the one of sys.stdout writes as much as fits and drops the rest.
    out = os.fdopen(sys.stdout.fileno(), "wb", _OUTPUT_BUFFER_BYTES, closefd=False)
    if output == "lines":
        write = write_lines(out, key_separator=separator, null=null.encode(), delimiter=unescape(delimiter))
    elif output == "table":
        write = write_table(out)
    else:
        write = write_json(out, as_array=output == "json")

    async def work(cluster: "Cluster") -> None:
        ranges = await resolve_ranges(cluster, topics, partitions, spec, stop_at_end=stop_at_end)
        left = count
        async with aclosing(RangeReader(cluster, ranges).fetched()) as answers:
            async for fetched in answers:
                records = fetched.records if left is None else fetched.records[:left]
                write(fetched, records)
                out.flush()
                if left is not None:
                    left -= len(records)
                    if left == 0:
                        return

    if output == "json":
        out.write(b"[")
    try:
        reach.run(work)
    finally:
        if output == "json":
            out.write(b"\n]\n")
        out.flush()


async def resolve_ranges(
    cluster: "Cluster",
    topics: Iterable[str],
    partitions: Iterable[int],
    spec: OffsetSpec,
    *,
    stop_at_end: bool,
) -> dict[TopicPartition, OffsetRange]:
    """What `--offset` means in each partition. Raises ClientError; CommandFailed for a partition that is not there."""
    wanted: list[TopicPartition] = []
    for name in dict.fromkeys(topics):
        found = (await find_topic(cluster, name)).partitions
        wanted += [TopicPartition(name, partition) for partition in dict.fromkeys(partitions) or found]
    await require_partitions(cluster, wanted)
    admin = Admin(cluster)
    starts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST))

    async def offsets_of(bound: Bound) -> dict[TopicPartition, int]:
        times: dict[TopicPartition, FoundOffset] = {}
        if bound.time_ms is not None:
            times = await admin.list_offsets(dict.fromkeys(wanted, bound.time_ms))
        return {
            each: bound.resolve(
                start=starts[each].offset,
                end=ends[each].offset,
                at_time=times[each].offset if each in times else None,
            )
            for each in wanted
        }

    since = await offsets_of(spec.since)
    if spec.until is not None:
        until = await offsets_of(spec.until)
    else:
        until = {each: ends[each].offset for each in wanted} if stop_at_end else {}
    return {each: OffsetRange(since[each], until.get(each)) for each in wanted}


def write_lines(out: BinaryIO, *, key_separator: bytes | None, null: bytes, delimiter: bytes) -> Write:
    """Values, or keys and values, as they are."""

    def write(_: FetchedRecords, records: Iterable[Record]) -> None:
        if key_separator is None:
            parts = [null if record.value is None else record.value for record in records]
        else:
            parts = [
                (null if record.key is None else record.key)
                + key_separator
                + (null if record.value is None else record.value)
                for record in records
            ]
        out.write(delimiter.join(parts) + delimiter)

    return write


def write_json(out: BinaryIO, *, as_array: bool) -> Write:
    """Objects, one per line; in an array whose brackets are the caller's."""
    is_first = True

    def write(fetched: FetchedRecords, records: Iterable[Record]) -> None:
        nonlocal is_first
        lines = [dump_json(record_fields(fetched, record)) for record in records]
        if as_array:
            out.write(("\n" if is_first else ",\n").encode() + ",\n".join(lines).encode())
            is_first = False
        else:
            out.write("".join(line + "\n" for line in lines).encode())

    return write


def write_table(out: BinaryIO) -> Write:
    """Columns for people; what is not text is shown as it would stand in Python."""
    names: list[Any] = ["PARTITION", "OFFSET", "TIME", "KEY", "VALUE"]
    out.write(_TABLE_LINE.format(*names).encode())

    def write(fetched: FetchedRecords, records: Iterable[Record]) -> None:
        partition = str(fetched.topic_partition)
        for record in records:
            cells = (
                partition,
                record.offset,
                show_time(record.timestamp),
                show_bytes(record.key),
                show_bytes(record.value),
            )
            out.write(_TABLE_LINE.format(*cells).encode())

    return write


def show_time(timestamp: int) -> str:
    """Milliseconds since the epoch as UTC; - for none."""
    if timestamp < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_bytes(value: bytes | None) -> str:
    """Bytes on one line of a table: text as it is, control characters and other bytes escaped, - for null."""
    if value is None:
        return "-"
    text = value.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
