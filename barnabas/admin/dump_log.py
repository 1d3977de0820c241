"""`barnabas dump-log`: what stands in the files of a log directory."""

from collections.abc import Iterator
from typing import Any, Final

import click

from barnabas.admin.consume import show_time
from barnabas.admin.failures import CommandFailed, explain, report
from barnabas.admin.log_files import DamagedFile, Kind, Row, UnknownFile, kind_of, read_batches
from barnabas.admin.options import output_option
from barnabas.admin.output import Format, cell, dump_json, stream_table
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.file_names import LOG_SUFFIX

_SEGMENT: Final = "segment"


@click.command("dump-log")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--records", "-r", "with_records", is_flag=True, help="Also the records of each batch.")
@output_option
def dump_log(*, files: tuple[str, ...], with_records: bool, output: Format) -> None:
    """Show what stands in FILEs of a log directory.

    Segments (.log) batch by batch; the entries of .index, .timeindex, .txnindex and .snapshot files and of checkpoints.
    Every checksum is checked. The exit status is 1 where a file is damaged; what is before the damage is shown.
    """
    try:
        kinds = {path: kind_of(path) for path in files}
    except UnknownFile as error:
        raise click.UsageError(str(error)) from None
    if with_records and not any(kind.name == _SEGMENT for kind in kinds.values()):
        raise click.UsageError(f"--records goes with {LOG_SUFFIX} files")
    damage: list[CommandFailed] = []
    documents: list[dict[str, Any]] = []
    for place, (path, kind) in enumerate(kinds.items()):
        if output is Format.TABLE and len(kinds) > 1:
            click.echo(f"{'' if not place else chr(10)}{path}: {kind.name}")
        rows = _checked(_rows(path, kind, with_records), path, damage)
        if output is Format.JSON:
            documents.append({"file": path, "kind": kind.name, "entries": list(rows)})
        elif output is Format.JSONL:
            for row in rows:
                click.echo(dump_json({"file": path, **row}))
        else:
            _show(rows, kind, with_records)
    if output is Format.JSON:
        click.echo(dump_json(documents, indent=2))
    for failure in damage[:-1]:
        report(str(failure))
    if damage:
        raise damage[-1]


def _rows(path: str, kind: Kind, with_records: bool) -> Iterator[Row]:
    disk = SystemDisk()
    if kind.name == _SEGMENT:
        return read_batches(disk, path, with_records=with_records)
    return kind.read(disk, path)


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


def _show(rows: Iterator[Row], kind: Kind, with_records: bool) -> None:
    if not with_records or kind.name != _SEGMENT:
        for line in stream_table(rows, kind.columns):
            click.echo(line)
        return
    for batch in rows:
        facts = (f"{column.heading.lower()} {cell(batch[column.key])}" for column in kind.columns)
        click.echo(f"batch: {', '.join(facts)}")
        for record in batch["records"]:
            click.echo(f"  {record['offset']}  {show_time(record['timestamp'])}  {_content(record)}")


def _content(record: Row) -> str:
    if "control" in record:
        return f"{record['control']} (coordinator epoch {record['coordinator_epoch']})"
    shown = [_bytes(record, "key"), _bytes(record, "value")]
    shown += [f"{header['key']}={_bytes(header, 'value')}" for header in record["headers"]]
    return "  ".join(shown)


def _bytes(fields: Row, name: str) -> str:
    if f"{name}_base64" in fields:
        return f"base64:{fields[f'{name}_base64']}"
    text = fields[name]
    return "-" if text is None else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
