"""The ledger of a table: what each batch took from which offsets, in a table of its own beside it.

A row for each range of offsets: where it began and ended, how many of its records became rows and dead letters, what
gaps are left (control records, aborted and compacted ones), a sum of checksums, the bounds of event time. It answers
what a table holds without reading the table, and is what an audit compares brokers with.

The commit of a batch into the table carries its ledger rows and the files of its dead letters, as its record. That
commit alone decides; dead letters and ledger follow it, and are made up from the record where a crash came between
(`publishing`). So the ledger is behind its table by one batch at most.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from barnabas.pipeline.lake.names import written_by
from barnabas.pipeline.lake.table import BrokenTable, LakeTable, NoTable, Snapshot, TableSchema
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.load.event_time import TIME
from barnabas.pipeline.load.range_load import RangeReport
from barnabas.protocol.ids import TopicPartition

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64
_READ_ATTEMPTS: Final = 20

_HOUR: Final = pa.struct(
    [
        pa.field("hour", TIME),
        pa.field("rows", pa.int64()),
        pa.field("dead_letters", pa.int64()),
        pa.field("checksum", pa.int64()),
    ]
)

COLUMNS: Final = pa.schema(
    [
        pa.field("query", pa.string()),
        pa.field("batch", pa.int64()),
        pa.field("checkpoint", pa.string()),
        pa.field("run", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("start_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("dead_letters", pa.int64()),
        pa.field("gaps", pa.int64()),
        pa.field("late", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("min_event_time", TIME),
        pa.field("max_event_time", TIME),
        pa.field("hours", pa.list_(pa.field("element", _HOUR))),
        pa.field("committed", TIME),
    ]
)
SCHEMA: Final = TableSchema(COLUMNS)


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row; times are microseconds, checksums signed 64-bit numbers, `hours` as in the table."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    rows: int
    dead_letters: int
    gaps: int
    late: int
    checksum: int
    min_event_time: int | None
    max_event_time: int | None
    hours: list[dict[str, int | None]]


def ledger_path(path: str) -> str:
    """Where the ledger of a table is."""
    return f"{path.rstrip('/')}_ledger"


def row_of(report: RangeReport) -> LedgerRow:
    """What a task reported, as a row."""
    tally = report.tally
    return LedgerRow(
        topic=report.topic,
        partition=report.partition,
        start_offset=report.start,
        end_offset=report.end,
        rows=tally.rows,
        dead_letters=tally.dead_letters,
        gaps=report.end - report.start - tally.rows - tally.dead_letters,
        late=tally.late,
        checksum=signed(tally.checksum),
        min_event_time=tally.least_event_us,
        max_event_time=tally.most_event_us,
        hours=[
            {"hour": hour, "rows": each.rows, "dead_letters": each.dead_letters, "checksum": signed(each.checksum)}
            for hour, each in sorted(tally.hours.items(), key=lambda item: (item[0] is None, item[0] or 0))
        ],
    )


def signed(checksum: int) -> int:
    """The same 64 bits as a signed number, which tables have."""
    return checksum - _WRAP if checksum >= _SIGN else checksum


def ledger_rows(rows: Iterable[LedgerRow], common: Mapping[str, Any]) -> pa.RecordBatch:
    """Rows of the ledger's table; `common` has query, batch, checkpoint, run and committed."""
    made = [{**msgspec.structs.asdict(each), **common} for each in rows]
    return pa.RecordBatch.from_pylist(made, schema=COLUMNS)


def read_ledger(table: LakeTable, columns: list[str] | None = None, snapshot: Snapshot | None = None) -> pa.Table:
    """All rows of a ledger, with these columns. Raises BrokenTable."""
    files = (snapshot or table.snapshot()).files
    wanted = COLUMNS if columns is None else pa.schema([COLUMNS.field(name) for name in columns])
    try:
        read = [
            pq.read_table(f"{table.location}/{each.path}", columns=wanted.names, partitioning=None).cast(wanted)
            for each in files
        ]
    except (OSError, pa.ArrowException) as error:
        raise BrokenTable(f"the ledger {table.location} cannot be read: {error}") from error
    return pa.concat_tables(read) if read else wanted.empty_table()


@dataclass(frozen=True)
class Coverage:
    """What a load's tables hold together, at versions that belong together.

    `ends` are the offsets (exclusive) up to which each partition was loaded, by any query.
    """

    data: Snapshot
    dead_letters: Snapshot | None
    rows: pa.Table
    ends: Mapping[TopicPartition, int]


def read_coverage(path: str, *, dead_letter_path: str | None = None) -> Coverage:
    """What is in the table at `path`, with its ledger's rows. Raises LakeError.

    A batch that is being committed is waited for in no way: what is told is of the moment after the last one whose
    ledger is there. Raises BrokenTable where the ledger stays behind, as after a crash until the load runs again.
    """
    data, ledger = open_table(path), open_table(ledger_path(path))
    for _ in range(_READ_ATTEMPTS):
        before = ledger.snapshot()
        snapshot = data.snapshot()
        rows = read_ledger(ledger, snapshot=before)
        # A query whose first batch has come no further than the table is known by its files.
        owners = (written_by(os.path.basename(each.path)) for each in snapshot.files)
        queries = {*pc.unique(rows["query"]).to_pylist(), *(owner.query for owner in owners if owner is not None)}
        is_level = all(data.committed(query) == ledger.committed(query) for query in queries)
        if is_level and ledger.snapshot().version == before.version and data.snapshot().version == snapshot.version:
            return Coverage(
                snapshot, _dead_letters(dead_letter_path or dead_letter_location(path)), rows, ends_of(rows)
            )
    raise BrokenTable(
        f"the ledger of {path} does not come level with its table: a load writes all the time, or was killed between "
        "the two; let it run once more"
    )


def dead_letter_location(path: str) -> str:
    """Where the dead letters of a table are unless the configuration says otherwise."""
    return f"{path.rstrip('/')}_dead_letters"


def _dead_letters(path: str) -> Snapshot | None:
    try:
        return open_table(path).snapshot()
    except NoTable:
        return None


def ends_of(rows: pa.Table) -> dict[TopicPartition, int]:
    """How far each partition was loaded."""
    ends = rows.group_by(["topic", "partition"]).aggregate([("end_offset", "max")]).to_pylist()
    return {TopicPartition(each["topic"], each["partition"]): each["end_offset_max"] for each in ends}
