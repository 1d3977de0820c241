"""`barnabas dump-log`: what stands in the files of a log directory, in the words of kafka-dump-log or as rows."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import click

from barnabas.admin import kafka_dump
from barnabas.admin.coordinator_records import offset_record, transaction_record
from barnabas.admin.failures import NOT_FOUND, CommandFailed, explain, report
from barnabas.admin.kafka_dump import DumpOptions, Findings, text_record
from barnabas.admin.log_files import (
    Decoder,
    Kind,
    Row,
    UnknownFile,
    decoded_row,
    kind_of,
    read_batches,
    record_row,
)
from barnabas.admin.output import dump_json, stream_table
from barnabas.admin.stored_entries import DamagedFile
from barnabas.runtime.disk import SystemDisk
from barnabas.storage import file_names

_SEGMENT: Final = "segment"
_STRINGS: Final = "kafka.serializer.StringDecoder"


class _Form(StrEnum):
    KAFKA = "kafka"
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def _split(_ctx: click.Context, _param: click.Parameter, given: str | None) -> tuple[str, ...]:
    return tuple(path for path in (given or "").split(",") if path)


@click.command("dump-log")
@click.argument("paths", nargs=-1, type=click.Path(), metavar="FILE...")
@click.option("--files", callback=_split, metavar="FILE,...", help="The files, as kafka-dump-log takes them.")
@click.option("--print-data-log", "--records", "-r", "with_records", is_flag=True, help="Also what the records hold.")
@click.option("--deep-iteration", "deep", is_flag=True, help="Also the records of each batch.")
@click.option("--index-sanity-check", is_flag=True, help="Only whether indexes pass the check that a start makes.")
@click.option("--verify-index-only", is_flag=True, help="Hold indexes against their logs and show no entries.")
@click.option("--offsets-decoder", is_flag=True, help="The records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="The records are those of __transaction_state.")
@click.option("--key-decoder-class", is_flag=False, flag_value=_STRINGS, help=f"Only {_STRINGS}.")
@click.option("--value-decoder-class", is_flag=False, flag_value=_STRINGS, help=f"Only {_STRINGS}.")
@click.option(
    "--max-message-size", type=click.IntRange(min=1), default=kafka_dump.MAX_MESSAGE_BYTES, show_default=True,
    help="The greatest batch that an index may point to.",
)  # fmt: skip
@click.option(
    "--output", "-o", "form", type=click.Choice([each.value for each in _Form]), default=_Form.KAFKA.value,
    callback=lambda _ctx, _param, name: _Form(name), show_default=True, help="How to print.",
)  # fmt: skip
def dump_log(
    *,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    with_records: bool,
    deep: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    max_message_size: int,
    form: _Form,
) -> None:
    """Show what stands in FILEs of a log directory.

    Segments (.log) of all message formats batch by batch; the entries of .index, .timeindex, .txnindex and .snapshot
    files and of checkpoints. Lines are those of kafka-dump-log; with -o they are a table or JSON.
    Every checksum is checked. The exit status is 1 where a file is damaged; what is before the damage is shown.
    """
    chosen = (*files, *paths)
    if not chosen:
        raise click.UsageError("no files were given")
    for given in (key_decoder_class, value_decoder_class):
        if given not in (None, _STRINGS):
            raise click.UsageError(f"{given}: a Java class cannot be used; keys and values are shown as UTF-8")
    decode = offset_record if offsets_decoder else transaction_record if transaction_log_decoder else text_record
    contents = with_records or decode is not text_record or bool(key_decoder_class or value_decoder_class)
    options = DumpOptions(
        deep=deep or contents,
        decoder=decode if contents else None,
        index_sanity_only=index_sanity_check,
        verify_only=verify_index_only,
        max_message_bytes=max_message_size,
    )
    if form is _Form.KAFKA:
        _finish(_dump_as_kafka(chosen, options))
        return
    if index_sanity_check or verify_index_only:
        raise click.UsageError("--index-sanity-check and --verify-index-only go with -o kafka")
    try:
        kinds = {path: kind_of(path) for path in chosen}
    except UnknownFile as error:
        missing = next(filter(None, map(_missing, chosen)), None)
        raise missing or click.UsageError(str(error)) from None
    if options.deep and form is _Form.TABLE:
        raise click.UsageError("a table has no place for records; -o kafka, json and jsonl have")
    rows_of = None if not options.deep else record_row if decode is text_record else decoded_row(decode)
    _finish(_dump_rows(kinds, form, rows_of))


def _missing(path: str) -> CommandFailed | None:
    """What to say of a path where there is no file."""
    disk = SystemDisk()
    if disk.is_directory(path):
        return CommandFailed(f"{path}: a directory, not a file", status=NOT_FOUND)
    return None if disk.exists(path) else CommandFailed(f"{path}: no such file", status=NOT_FOUND)


def _finish(damage: list[CommandFailed]) -> None:
    for failure in damage[:-1]:
        report(str(failure))
    if damage:
        raise damage[-1]


def _dump_as_kafka(paths: tuple[str, ...], options: DumpOptions) -> list[CommandFailed]:
    damage: list[CommandFailed] = []
    findings = Findings()
    for path in paths:
        click.echo(f"Dumping {path}")
        if (missing := _missing(path)) is not None:
            damage.append(missing)
            continue
        try:
            for line in _kafka_lines(path, options, findings):
                click.echo(line)
                if line.endswith("isvalid: false"):
                    damage.append(CommandFailed(f"{path}: a checksum does not match"))
                elif line.startswith("Found "):
                    damage.append(CommandFailed(f"{path}: the file ends within a batch"))
        except UnknownFile:
            click.echo(f"Ignoring unknown file {path}", err=True)
        except BrokenPipeError:
            # Nothing is wrong with the file: who reads our output has left.
            raise
        except DamagedFile as error:
            damage.append(CommandFailed(f"{path}: {error}"))
        except OSError as error:
            damage.append(explain(error) or CommandFailed(str(error)))
    for line in findings.lines():
        click.echo(line, err=True)
    return damage


def _kafka_lines(path: str, options: DumpOptions, findings: Findings) -> Iterator[str]:
    disk, kind = SystemDisk(), kind_of(path)
    if kind.name == _SEGMENT:
        return kafka_dump.segment_lines(disk, path, options, findings)
    if kind.suffix == file_names.INDEX_SUFFIX:
        return kafka_dump.index_lines(disk, path, options, findings)
    if kind.suffix == file_names.TIME_INDEX_SUFFIX:
        return kafka_dump.time_index_lines(disk, path, options, findings)
    if kind.suffix == file_names.SNAPSHOT_SUFFIX:
        return kafka_dump.snapshot_lines(disk, path)
    if kind.suffix == file_names.TXN_INDEX_SUFFIX:
        return kafka_dump.txn_index_lines(disk, path)
    # Kafka's tool knows no checkpoints.
    return (" ".join(f"{name}: {value}" for name, value in row.items()) for row in kind.read(disk, path))


def _dump_rows(kinds: dict[str, Kind], form: _Form, rows_of: Decoder | None) -> list[CommandFailed]:
    damage: list[CommandFailed] = []
    documents: list[dict[str, Any]] = []
    for place, (path, kind) in enumerate(kinds.items()):
        if form is _Form.TABLE and len(kinds) > 1:
            click.echo(f"{'' if not place else chr(10)}{path}: {kind.name}")
        disk = SystemDisk()
        found: Iterator[Row] = iter(())
        if (missing := _missing(path)) is not None:
            damage.append(missing)
        else:
            found = read_batches(disk, path, decoder=rows_of) if kind.name == _SEGMENT else kind.read(disk, path)
        rows = _checked(found, path, damage)
        if form is _Form.JSON:
            documents.append({"file": path, "kind": kind.name, "entries": list(rows)})
        elif form is _Form.JSONL:
            for row in rows:
                click.echo(dump_json({"file": path, **row}))
        else:
            for line in stream_table(rows, kind.columns):
                click.echo(line)
    if form is _Form.JSON:
        click.echo(dump_json(documents, indent=2))
    return damage


def _checked(rows: Iterator[Row], path: str, damage: list[CommandFailed]) -> Iterator[Row]:
    """Pass rows on and remember what is wrong with them, so that the other files are shown too."""
    try:
        for row in rows:
            yield row
            where = f"{path}: the batch at byte {row.get('position')}"
            if row.get("is_valid") is False:
                damage.append(CommandFailed(f"{where} does not match its checksum"))
            elif "problem" in row:
                damage.append(CommandFailed(f"{where}: {row['problem']}"))
    except DamagedFile as error:
        damage.append(CommandFailed(f"{path}: {error}"))
    except OSError as error:
        damage.append(explain(error) or CommandFailed(str(error)))
