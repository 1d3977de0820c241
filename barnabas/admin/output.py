"""What commands print: a table for people, JSON for programs.

On a terminal a table is drawn by rich, which is imported only then; piped, it is plain columns without colour. `json`
is one document, `jsonl` one object per line.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final, NamedTuple

import click

Row = Mapping[str, Any]

_ROWS_FOR_WIDTHS: Final = 200
_LINES_AROUND_ROWS: Final = 6
"""Of a table on a terminal: title, heading, blank lines, and the line that the cursor goes to."""


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class Column(NamedTuple):
    """A column of a table: the key of its values in a row, and its heading."""

    key: str
    heading: str
    is_number: bool = False


def is_terminal() -> bool:
    """Whether standard output is a terminal that somebody looks at."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def show_rows(rows: Iterable[Row], columns: Sequence[Column], chosen: Format, *, title: str | None = None) -> None:
    """Print rows; the JSON forms hold every key of a row, the table its columns."""
    if chosen is Format.JSON:
        click.echo(dump_json(list(rows), indent=2))
    elif chosen is Format.JSONL:
        for row in rows:
            click.echo(dump_json(row))
    elif is_terminal():
        _draw_table(rows, columns, title)
    else:
        if title:
            click.echo(title)
        for line in plain_table(rows, columns):
            click.echo(line)


def redraw_rows(rows: Sequence[Row], columns: Sequence[Column], chosen: Format, *, title: str) -> None:
    """Print rows that are looked at again and again: on a terminal in the place of those before, as far as they fit."""
    if chosen is not Format.TABLE or not is_terminal():
        show_rows(rows, columns, chosen)
        return
    room = max(1, shutil.get_terminal_size().lines - _LINES_AROUND_ROWS)
    click.clear()
    show_rows(rows[:room], columns, chosen, title=title)
    if len(rows) > room:
        click.echo(f"and {len(rows) - room} more")


def show_document(document: Any, chosen: Format) -> None:
    """Print one value as JSON; as `jsonl` its items, where it is a list."""
    if chosen is Format.JSONL:
        for item in document if isinstance(document, list) else [document]:
            click.echo(dump_json(item))
    else:
        click.echo(dump_json(document, indent=2))


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """JSON as people read it; in ASCII where a text holds what UTF-8 cannot."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def plain_table(rows: Iterable[Row], columns: Sequence[Column]) -> Iterable[str]:
    """The lines of a table without lines and colour."""
    cells = [[cell(row.get(column.key)) for column in columns] for row in rows]
    widths = _widths(cells, columns)
    for line in [[column.heading for column in columns], *cells]:
        yield _line(line, widths, columns)


def stream_table(rows: Iterable[Row], columns: Sequence[Column]) -> Iterator[str]:
    """The lines of a plain table of any length: the first rows set the widths, longer cells stand out."""
    remaining = iter(rows)
    first = list(islice(remaining, _ROWS_FOR_WIDTHS))
    lines = list(plain_table(first, columns))
    yield from lines
    widths = _widths([[cell(row.get(column.key)) for column in columns] for row in first], columns)
    for row in remaining:
        yield _line([cell(row.get(column.key)) for column in columns], widths, columns)


def _widths(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> list[int]:
    return [max([len(column.heading), *(len(line[place]) for line in cells)]) for place, column in enumerate(columns)]


def _line(texts: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    padded = [
        text.rjust(width) if column.is_number else text.ljust(width)
        for text, width, column in zip(texts, widths, columns, strict=True)
    ]
    return "  ".join(padded).rstrip()


def cell(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _draw_table(rows: Iterable[Row], columns: Sequence[Column], title: str | None) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # rich looks at NO_COLOR itself.
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column.heading, justify="right" if column.is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row.get(column.key))) for column in columns))
    Console().print(table)
