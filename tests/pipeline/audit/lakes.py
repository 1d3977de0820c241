"""Tables as a load writes them, made row by row, so that a test may leave one out or put one in twice."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.pipeline.columns.checksums import as_signed, content_checksums_of
from barnabas.pipeline.lake.table import BatchCommit, DataFile, TableSchema
from barnabas.pipeline.lake.tables import Kind, create_table
from barnabas.pipeline.load.ledger import COLUMNS
from tests.pipeline.source.events import Event

_PLACE = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
RAW = pa.schema({**_PLACE, "key": pa.binary(), "value": pa.binary()})
PARSED = pa.schema({**_PLACE, "key": pa.binary(), "value": pa.struct({"size": pa.int64()}), "checksum": pa.int64()})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_lake(
    folder: Path, topic: str, events: Sequence[Event], *, kind: Kind = "parquet", parsed: bool = False
) -> None:
    """A table with these records, in two files."""
    rows = [_row(topic, each, parsed=parsed) for each in events]
    schema = PARSED if parsed else RAW
    _write(folder, kind, schema, [rows[: len(rows) // 3], rows[len(rows) // 3 :]])


def write_ledger(folder: Path, topic: str, ends: dict[int, int]) -> None:
    """What was loaded, in two rows for each partition."""
    rows = [
        {"query": "load", "topic": topic, "partition": partition, "end_offset": end}
        for partition, last in ends.items()
        for end in (last // 2, last)
    ]
    _write(folder, "parquet", COLUMNS, [rows])


def _row(topic: str, event: Event, *, parsed: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": topic,
        "partition": event.partition,
        "offset": event.offset,
        "timestamp": _EPOCH + timedelta(milliseconds=event.timestamp_ms),
        "key": event.key,
        "value": {"size": len(event.value or b"")} if parsed else event.value,
    }
    if parsed:
        row["checksum"] = int(as_signed(content_checksums_of([event.key], [event.value]))[0])
    return row


def _write(folder: Path, kind: Kind, columns: pa.Schema, parts: Sequence[list[dict[str, Any]]]) -> None:
    schema = TableSchema(columns)
    table = create_table(str(folder), kind, schema)
    files = []
    for number, rows in enumerate(parts):
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=columns), path)
        files.append(DataFile(path=path.name, size_bytes=path.stat().st_size, rows=len(rows), written_ms=0))
    table.commit(BatchCommit("load", 0, None, tuple(files), {}), schema)
