"""The three tables of a load: what is done in which order, and what a crash between leaves to do."""

import itertools
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from barnabas.pipeline.lake.names import batch_file
from barnabas.pipeline.lake.partition_writer import PartitionWriter
from barnabas.pipeline.lake.table import AlreadyCommitted, BatchCommit, BrokenTable, DataFile, TableSchema
from barnabas.pipeline.lake.tables import open_table
from barnabas.pipeline.load.ledger import LedgerRow, dead_letter_location, ledger_path, read_coverage, signed
from barnabas.pipeline.load.publishing import BatchRecord, LoadTables, require_place, tables_of
from barnabas.protocol.ids import TopicPartition

DATA = TableSchema(pa.schema([("offset", pa.int64())]), pa.schema([("event_date", pa.date32())]))
LETTERS = TableSchema(pa.schema([("offset", pa.int64()), ("error", pa.string())]))
NUMBERS = itertools.count()


@pytest.fixture(params=["delta", "parquet"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> LoadTables:
    return new_tables(tmp_path, request.param)


def new_tables(folder: Path, kind: str, query: str = "q") -> LoadTables:
    return LoadTables(
        query,
        str(folder / "table"),
        "delta" if kind == "delta" else "parquet",
        schema=DATA,
        dead_letter_path=None,
        dead_letter_schema=LETTERS,
    )


def again(tables: LoadTables, query: str = "q") -> LoadTables:
    """The same as a new process has them."""
    return new_tables(Path(tables.data.location).parent, tables.data.kind, query)


def rows(tables: LoadTables, batch: int) -> list[DataFile]:
    name = batch_file("q", batch, run="0" * 16, attempt=next(NUMBERS), number=0)
    writer = PartitionWriter(tables.data.location, DATA.columns, lambda: name)
    writer.write(pa.RecordBatch.from_pydict({"offset": [batch]}, schema=DATA.columns), (("event_date", "2024-05-01"),))
    return writer.close()


def letters(tables: LoadTables, batch: int) -> list[DataFile]:
    name = batch_file("q", batch, run="0" * 16, attempt=next(NUMBERS), number=0)
    writer = PartitionWriter(tables.dead_letter_location, LETTERS.columns, lambda: name)
    writer.write(pa.RecordBatch.from_pydict({"offset": [batch], "error": ["bad"]}, schema=LETTERS.columns))
    return writer.close()


def record(tables: LoadTables, batch: int, dead: int = 0) -> BatchRecord:
    row = LedgerRow(
        topic="t",
        partition=0,
        start_offset=10 * batch,
        end_offset=10 * batch + 10,
        rows=1,
        dead_letters=dead,
        gaps=9 - dead,
        late=0,
        checksum=signed(2**64 - 1),
        min_event_time=5,
        max_event_time=1000 + batch,
        hours=[{"hour": 0, "rows": 1, "dead_letters": dead, "checksum": -1}],
    )
    return BatchRecord(run="r", checkpoint="c", ranges=[row], dead_letter_files=letters(tables, batch) if dead else [])


def crash_after_the_table(tables: LoadTables, batch: int, kept: BatchRecord) -> None:
    """Commit into the table alone."""
    commit = BatchCommit(
        "q", batch, batch - 1 if batch else None, tuple(rows(tables, batch)), msgspec.to_builtins(kept)
    )
    tables.data.commit(commit, DATA)


def test_a_batch_is_in_all_three_tables(tables: LoadTables) -> None:
    tables.commit(0, rows(tables, 0), record(tables, 0))
    tables.commit(1, rows(tables, 1), record(tables, 1, dead=1))
    found = read_coverage(tables.data.location)
    assert found.ends == {TopicPartition("t", 0): 20}
    assert [each.rows for each in found.data.files] == [1, 1]
    assert found.dead_letters is not None
    assert [each.rows for each in found.dead_letters.files] == [1]
    told = found.rows.sort_by("batch").to_pylist()
    assert [(each["batch"], each["start_offset"], each["dead_letters"], each["checksum"]) for each in told] == [
        (0, 0, 0, -1),
        (1, 10, 1, -1),
    ]
    assert told[1]["hours"][0]["rows"] == 1
    assert told[1]["committed"] is not None


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("dead", [0, 1])
def test_what_a_crash_left_undone_is_done_by_the_next_run(tables: LoadTables, batch: int, dead: int) -> None:
    for number in range(batch):
        tables.commit(number, rows(tables, number), record(tables, number))
    crash_after_the_table(tables, batch, record(tables, batch, dead))
    with pytest.raises(BrokenTable, match="does not come level with its table"):
        read_coverage(tables.data.location)
    for _ in range(2):
        again(tables).recover()
        found = read_coverage(tables.data.location)
        assert found.rows.num_rows == batch + 1
        assert found.ends == {TopicPartition("t", 0): 10 * batch + 10}
        assert (found.dead_letters is not None) == bool(dead)
    with pytest.raises(AlreadyCommitted):
        again(tables).commit(batch, rows(tables, batch), record(tables, batch, dead))


def test_a_crash_between_dead_letters_and_ledger_leaves_them_once(tables: LoadTables) -> None:
    kept = record(tables, 0, dead=1)
    tables.commit(0, rows(tables, 0), kept)
    kept = record(tables, 1, dead=1)
    crash_after_the_table(tables, 1, kept)
    open_table(tables.dead_letter_location).commit(BatchCommit("q", 1, 0, tuple(kept.dead_letter_files), {}), LETTERS)
    again(tables).recover()
    found = read_coverage(tables.data.location)
    assert found.dead_letters is not None
    assert sum(each.rows for each in found.dead_letters.files) == 2


def test_tables_that_do_not_belong_together_are_refused(tables: LoadTables, tmp_path: Path) -> None:
    tables.commit(0, rows(tables, 0), record(tables, 0))
    tables.commit(1, rows(tables, 1), record(tables, 1))
    Path(tables.ledger.location).rename(tmp_path / "away")
    with pytest.raises(BrokenTable, match=r"batch of query q is 1 in the table .* and None in its ledger"):
        again(tables).recover()
    Path(again(tables).ledger.location).rename(tmp_path / "empty")
    (tmp_path / "away").rename(tables.ledger.location)
    Path(tables.data.location).rename(tmp_path / "data")
    with pytest.raises(BrokenTable, match=r"has batches of query q and the table .* has none"):
        again(tables).recover()


def test_queries_share_the_tables(tables: LoadTables) -> None:
    tables.commit(0, rows(tables, 0), record(tables, 0))
    other = again(tables, "r")
    other.recover()
    assert other.last_batch() is None
    other.commit(0, [], record(other, 7, dead=1))
    assert (tables.last_batch(), other.last_batch()) == (0, 0)
    assert read_coverage(tables.data.location).ends == {TopicPartition("t", 0): 80}
    assert {each["query"] for each in tables.known_rows().to_pylist()} == {"q", "r"}


def test_upkeep_finds_the_tables_that_there_are(tables: LoadTables) -> None:
    location = tables.data.location
    assert [each.location for each in tables_of(location, None)] == [location, ledger_path(location)]
    tables.commit(0, [], record(tables, 0, dead=1))
    assert dead_letter_location(location) in [each.location for each in tables_of(location, None)]


def test_a_place_for_tables_must_be_writable(tmp_path: Path) -> None:
    require_place(str(tmp_path / "a" / "b"), None)
    assert {each.name for each in (tmp_path / "a").iterdir()} == {"b", "b_ledger"}
    assert list((tmp_path / "a" / "b").iterdir()) == []
