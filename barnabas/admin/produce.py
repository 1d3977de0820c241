"""`barnabas produce`: records from files or standard input into a topic."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed
from barnabas.admin.offsets import OffsetSyntax, parse_time
from barnabas.admin.options import Reach, cluster_options, complete_topics, find_topic, parse_pairs
from barnabas.admin.output import dump_json
from barnabas.admin.partition_arguments import lacks_partition
from barnabas.admin.record_text import LineShape, Outgoing, RecordSyntax, parse_json_line, unescape
from barnabas.client.outgoing import Delivery
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ACKS_ALL, ACKS_LEADER, ACKS_NONE, ProducerOptions
from barnabas.protocol.batch import Codec
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_CHUNK_BYTES: Final = 1024 * 1024
_LONGEST_LINE_BYTES: Final = 128 * 1024 * 1024
_BUFFERED_BYTES: Final = 8 * 1024 * 1024  # what a slow cluster has the command's --timeout for
_ACKS: Final = {"all": ACKS_ALL, "1": ACKS_LEADER, "0": ACKS_NONE}
_LEVELS: Final = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 12), Codec.ZSTD: (1, 22)}

Parse = Callable[[bytes], Outgoing | None]


@dataclass(slots=True)
class Source:
    """What is read: the files, where one record ends, and how it is understood."""

    files: tuple[str, ...]
    delimiter: bytes | None
    """None where each file is one record."""
    parse: Parse


class Tally:
    """Counts what is in the log, by partition."""

    def __init__(self) -> None:
        self.records = 0
        self._partitions: dict[int, list[int]] = {}

    def add(self, delivery: Delivery) -> None:
        if delivery.error is not None:
            return
        count = delivery.count
        self.records += count
        first, last = delivery.base_offset, delivery.base_offset + count - 1
        known = self._partitions.setdefault(delivery.topic_partition.partition, [0, first, last])
        known[0] += count
        if first >= 0:
            known[1] = min(known[1], first) if known[1] >= 0 else first
            known[2] = max(known[2], last)

    @property
    def told(self) -> str:
        """The count, for an error."""
        if self.records == 0:
            return "nothing was written"
        return "1 record was written" if self.records == 1 else f"{self.records} records were written"

    def fields(self, topic: str) -> dict[str, Any]:
        return {
            "topic": topic,
            "records": self.records,
            "partitions": [
                {
                    "partition": partition,
                    "records": count,
                    "first_offset": first if first >= 0 else None,
                    "last_offset": last if first >= 0 else None,
                }
                for partition, (count, first, last) in sorted(self._partitions.items())
            ],
        }


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option(
    "--input",
    "-i",
    "input_form",
    type=click.Choice(["lines", "jsonl", "files"]),
    default="lines",
    show_default=True,
    help="One record per line, per JSON line (as `consume -o jsonl` prints), or per file.",
)
@click.option("--key-separator", "-K", metavar="TEXT", help="Lines hold a key, this, and a value.")
@click.option("--key", "-k", help="The key of every record.")
@click.option("--header", "-H", "headers", multiple=True, metavar="KEY=VALUE", help="A header; repeatable.")
@click.option("--null", metavar="TEXT", help="A key or value that is this text is null.")
@click.option("--delimiter", "-D", default="\\n", show_default=True, metavar="TEXT", help="What ends a line.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Where all records go.  [default: by key]")
@click.option("--keep-partitions", is_flag=True, help="JSON lines go to the partition that they name.")
@click.option("--timestamp", metavar="TIME", help="The time of every record.  [default: now]")
@click.option(
    "--codec",
    "-z",
    type=click.Choice([each.name.lower() for each in Codec]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option("--level", type=int, help="The codec's level.  [default: the codec's]")
@click.option(
    "--acks",
    type=click.Choice(list(_ACKS)),
    default="all",
    show_default=True,
    help="Whose acknowledgement to wait for.",
)
@click.option("--auto-create", is_flag=True, help="Let the brokers create the topic, where they are set up to.")
@click.option(
    "--output", "-o", type=click.Choice(["none", "json"]), default="none", show_default=True, help="Print a summary."
)
@cluster_options
def produce(
    *,
    topic: str,
    files: tuple[str, ...],
    input_form: str,
    key_separator: str | None,
    delimiter: str,
    keep_partitions: bool,
    codec: str,
    level: int | None,
    acks: str,
    auto_create: bool,
    output: str,
    reach: Reach,
    **shape: Any,
) -> None:
    """Write records to TOPIC, from FILEs or standard input (also: -)."""
    if key_separator is not None and (shape["key"] is not None or input_form != "lines"):
        raise click.UsageError("--key-separator goes with lines, and without --key")
    if keep_partitions and input_form != "jsonl":
        raise click.UsageError("--keep-partitions goes with --input jsonl")
    if input_form == "files" and not files:
        raise click.UsageError("--input files wants files")
    line_shape = _line_shape(key_separator, **shape)
    if input_form == "jsonl":
        source = Source(
            files or ("-",), b"\n", lambda line: parse_json_line(line, line_shape, keep_partition=keep_partitions)
        )
    else:
        source = Source(files or ("-",), unescape(delimiter) if input_form == "lines" else None, line_shape.parse)
    if source.delimiter == b"":
        raise click.UsageError("--delimiter is empty")
    options = ProducerOptions(
        acks=_ACKS[acks],
        codec=Codec[codec.upper()],
        level=_level(codec, level),
        max_buffered_bytes=_BUFFERED_BYTES,
        delivery_timeout_ms=reach.timeout_ms,
        auto_create_topics=auto_create,
        halt_on_error=True,
    )
    tally = Tally()
    try:
        reach.run(lambda cluster: _produce(cluster, topic, source, options, tally))
    finally:
        if output == "json":
            click.echo(dump_json(tally.fields(topic)))


def _line_shape(
    key_separator: str | None,
    *,
    key: str | None,
    headers: tuple[str, ...],
    null: str | None,
    partition: int | None,
    timestamp: str | None,
) -> LineShape:
    now_ms = SystemClock().wall_ms()
    try:
        timestamp_ms = None if timestamp is None else parse_time(timestamp, now_ms=now_ms)
    except OffsetSyntax as error:
        raise click.BadParameter(str(error), param_hint="--timestamp") from None
    if key_separator == "":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    return LineShape(
        key_separator=None if key_separator is None else unescape(key_separator),
        null=None if null is None else null.encode(),
        key=None if key is None else key.encode(),
        headers=tuple((name, value.encode()) for name, value in parse_pairs(headers, "--header")),
        timestamp=timestamp_ms,
        partition=partition,
    )


def _level(codec: str, level: int | None) -> int | None:
    if level is None:
        return None
    bounds = _LEVELS.get(Codec[codec.upper()])
    if bounds is None:
        raise click.BadParameter(f"{codec} has no levels", param_hint="--level")
    if not bounds[0] <= level <= bounds[1]:
        raise click.BadParameter(f"{codec} has levels {bounds[0]} to {bounds[1]}", param_hint="--level")
    return level


async def _produce(cluster: "Cluster", topic: str, source: Source, options: ProducerOptions, tally: Tally) -> None:
    found = await find_topic(cluster, topic, auto_create=options.auto_create_topics)
    async with Producer(cluster, options=options, on_delivery=tally.add) as producer:
        for file in source.files:
            place = 0
            async for raw in _records_of(file, source.delimiter):
                place += 1
                try:
                    record = source.parse(raw)
                except RecordSyntax as error:
                    await producer.flush()
                    name = "standard input" if file == "-" else file
                    raise CommandFailed(f"{name}, record {place}: {error}; {tally.told}") from None
                if record is None:
                    continue
                if record.partition is not None and record.partition not in found.partitions:
                    await producer.flush()
                    has = lacks_partition(TopicPartition(topic, record.partition), found.partitions)
                    raise CommandFailed(f"{has}; {tally.told}", status=NOT_FOUND)
                await producer.send(
                    topic,
                    record.key,
                    record.value,
                    headers=record.headers,
                    timestamp=record.timestamp,
                    partition=record.partition,
                )


async def _records_of(file: str, delimiter: bytes | None) -> AsyncIterator[bytes]:
    """The raw records of a file, without what ends them."""
    rest = b""
    async for chunk in _chunks(file):
        if len(rest) > _LONGEST_LINE_BYTES:
            raise CommandFailed(f"a record is longer than {_LONGEST_LINE_BYTES} bytes")
        rest += chunk
        if delimiter is None:
            continue
        *lines, rest = rest.split(delimiter)
        for line in lines:
            yield line
    if rest or delimiter is None:
        yield rest


async def _chunks(file: str) -> AsyncIterator[bytes]:
    """What a file holds, as it comes: a pipe or a terminal is waited for without holding up what is being sent."""
    descriptor = sys.stdin.fileno() if file == "-" else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            await _readable(descriptor)
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                return
            yield chunk
    finally:
        if file != "-":
            os.close(descriptor)


async def _readable(descriptor: int) -> None:
    """Return when a read would not wait."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        # Called again and again until the bytes are read; a second call would announce what is gone by then.
        loop.remove_reader(descriptor)
        ready.set_result(None)

    try:
        loop.add_reader(descriptor, on_readable)
    except PermissionError:
        # Files, and devices like /dev/null, are always readable and cannot be waited for.
        return
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
