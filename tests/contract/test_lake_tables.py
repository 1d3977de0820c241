"""What a table of the lake is: one suite for Delta and for Parquet with manifests."""

import datetime as dt
import os
import random
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.lake.names import batch_file
from barnabas.pipeline.lake.partition_writer import PartitionWriter
from barnabas.pipeline.lake.table import (
    AlreadyCommitted,
    BatchCommit,
    CompactionPlan,
    DataFile,
    LakeError,
    LakeTable,
    NoTable,
    NotWritable,
    OtherSchema,
    TableConflict,
    TableSchema,
)
from barnabas.pipeline.lake.tables import Kind, create_table, open_table

SCHEMA = TableSchema(
    pa.schema(
        [
            ("topic", pa.string()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("value", pa.binary()),
        ]
    ),
    pa.schema([("event_date", pa.date32())]),
)
HOUR_MS = 3_600_000
LONG_AGO_MS = 1_000 * HOUR_MS


@pytest.fixture(params=["delta", "parquet"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return "delta" if request.param == "delta" else "parquet"


@pytest.fixture
def table(kind: Kind, tmp_path: Path) -> LakeTable:
    return create_table(str(tmp_path / "table"), kind, SCHEMA)


def write(
    table: LakeTable, offsets: range, *, date: str | None = "2024-05-01", query: str = "q", batch: int = 0
) -> list[DataFile]:
    """A file as a task writes it."""
    name = batch_file(query, batch, run=f"{random.getrandbits(64):016x}", attempt=0, number=0)
    writer = PartitionWriter(table.location, SCHEMA.columns, lambda: name)
    times = pa.array([1_714_521_600_000_000 + at for at in offsets], pa.timestamp("us", tz="UTC"))
    columns = [["t"] * len(offsets), list(offsets), times, [b"v"] * len(offsets)]
    arrays = [pa.array(each, type=field.type) for each, field in zip(columns, SCHEMA.columns, strict=True)]
    writer.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.columns), (("event_date", date),))
    return writer.close()


def batch(query: str, number: int, files: list[DataFile], after: int | None = None) -> BatchCommit:
    return BatchCommit(query, number, after, tuple(files), {"run": f"{query} {number}"})


def offsets_in(table: LakeTable, version: int | None = None) -> list[int]:
    """What readers of the table find, file by file."""
    found: list[int] = []
    for each in table.snapshot(version).files:
        found += pq.read_table(os.path.join(table.location, each.path), partitioning=None)["offset"].to_pylist()
    return sorted(found)


def test_a_batch_is_in_the_table_when_it_is_committed_and_not_before(table: LakeTable) -> None:
    assert table.committed("q") is None
    files = write(table, range(10)) + write(table, range(10, 15), date=None)
    assert offsets_in(table) == []
    before = table.snapshot().version
    version = table.commit(batch("q", 0, files), SCHEMA)
    assert table.committed("q") == 0
    assert table.record("q", 0) == {"run": "q 0"}
    assert table.record("q", 1) is None
    assert offsets_in(table) == list(range(15))
    assert (offsets_in(table, version), offsets_in(table, before)) == (list(range(15)), [])
    assert {(each.values["event_date"], each.rows) for each in table.snapshot().files} == {
        ("2024-05-01", 10),
        (None, 5),
    }


def test_who_opens_it_sees_what_was_committed(table: LakeTable) -> None:
    table.commit(batch("q", 0, write(table, range(3))), SCHEMA)
    opened = open_table(table.location)
    assert (opened.kind, opened.committed("q"), offsets_in(opened)) == (table.kind, 0, [0, 1, 2])
    opened.commit(batch("q", 1, write(opened, range(3, 5), batch=1), after=0), SCHEMA)
    assert (table.committed("q"), offsets_in(table)) == (1, [0, 1, 2, 3, 4])


def test_a_batch_without_files_counts(table: LakeTable) -> None:
    table.commit(batch("q", 0, []), SCHEMA)
    table.commit(batch("q", 1, [], after=0), SCHEMA)
    assert table.committed("q") == 1
    assert offsets_in(table) == []


def test_a_batch_is_never_committed_twice(table: LakeTable) -> None:
    other = open_table(table.location)
    table.commit(batch("q", 0, write(table, range(5))), SCHEMA)
    for late in (table, other, open_table(table.location)):
        with pytest.raises(AlreadyCommitted, match=r"batch 0 of query q is in the table .* already"):
            late.commit(batch("q", 0, write(late, range(5))), SCHEMA)
    assert offsets_in(table) == list(range(5))


def test_a_commit_follows_the_batch_that_its_writer_knows(table: LakeTable) -> None:
    with pytest.raises(TableConflict, match=r"the last batch of query q in the table .* is None, not 6"):
        table.commit(batch("q", 7, [], after=6), SCHEMA)
    table.commit(batch("q", 7, []), SCHEMA)
    with pytest.raises(TableConflict, match="is 7, not 8"):
        table.commit(batch("q", 9, [], after=8), SCHEMA)


def test_queries_do_not_stand_in_each_others_way(table: LakeTable) -> None:
    other = open_table(table.location)
    for number in range(3):
        after = None if number == 0 else number - 1
        for writer, query, start in ((table, "a", 0), (other, "b-x.y", 100)):
            files = write(writer, range(start + number, start + number + 1), query=query, batch=number)
            writer.commit(batch(query, number, files, after), SCHEMA)
    assert (table.committed("a"), table.committed("b-x.y")) == (2, 2)
    assert offsets_in(table) == [0, 1, 2, 100, 101, 102]
    assert other.record("a", 2) == {"run": "a 2"}


def test_of_writers_that_race_each_batch_of_each_query_gets_in_once(table: LakeTable) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(6)

    def load(query: str, base: int) -> None:
        mine = open_table(table.location)
        start.wait()
        for number in range(5):
            files = write(mine, range(base + number, base + number + 1), query=query, batch=number)
            try:
                mine.commit(batch(query, number, files, None if number == 0 else number - 1), SCHEMA)
                outcomes.append("committed")
            except AlreadyCommitted:
                outcomes.append("already")

    racing = [threading.Thread(target=load, args=(f"q{at // 2}", 100 * (at // 2))) for at in range(6)]
    for each in racing:
        each.start()
    for each in racing:
        each.join()
    assert sorted(outcomes) == ["already"] * 15 + ["committed"] * 15
    assert offsets_in(table) == [base + at for base in (0, 100, 200) for at in range(5)]


def test_another_schema_is_refused(table: LakeTable, kind: Kind) -> None:
    wider = TableSchema(SCHEMA.columns.append(pa.field("age", pa.int32())), SCHEMA.partitions)
    with pytest.raises(OtherSchema, match="column age int32 is not in the table"):
        create_table(table.location, kind, wider)
    with pytest.raises(OtherSchema, match="column age int32 is not in the table"):
        table.commit(batch("q", 0, []), wider)
    changed = TableSchema(SCHEMA.columns.set(1, pa.field("offset", pa.string())), pa.schema([]))
    with pytest.raises(
        OtherSchema, match="column offset is int64 in the table, not string; partition column event_date"
    ):
        create_table(table.location, kind, changed)
    assert create_table(table.location, kind, SCHEMA).committed("q") is None


def test_a_table_of_the_other_kind_is_refused(table: LakeTable, kind: Kind) -> None:
    other: Kind = "parquet" if kind == "delta" else "delta"
    with pytest.raises(LakeError, match=f"is of kind {kind}, not {other}"):
        create_table(table.location, other, SCHEMA)


def test_where_nothing_is_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NoTable, match=r"there is no table at .*nothing"):
        open_table(str(tmp_path / "nothing"))
    with pytest.raises(LakeError, match="not to s3://; give the path of a folder"):
        open_table("s3://bucket/table")


def test_a_place_that_is_not_writable_is_told(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotWritable, match="a part of the path is a file"):
        create_table(str(tmp_path / "file" / "table"), kind, SCHEMA)


def test_small_files_are_merged_and_the_rows_stay(table: LakeTable) -> None:
    for number in range(6):
        files = write(table, range(10 * number, 10 * number + 10), batch=number)
        files += write(table, range(1000 + number, 1001 + number), date=None, batch=number)
        table.commit(batch("q", number, files, None if number == 0 else number - 1), SCHEMA)
    before, version = offsets_in(table), table.snapshot().version
    result = table.compact(CompactionPlan(small_bytes=1 << 20, least_files=2))
    assert (result.removed, result.added) == (12, 2)
    assert offsets_in(table) == before
    assert sorted((each.values["event_date"] or "", each.rows) for each in table.snapshot().files) == [
        ("", 6),
        ("2024-05-01", 60),
    ]
    assert offsets_in(table, version) == before
    assert table.committed("q") == 5
    assert table.compact(CompactionPlan(small_bytes=1 << 20, least_files=2)).removed == 0
    table.commit(batch("q", 6, write(table, range(60, 70), batch=6), 5), SCHEMA)
    assert offsets_in(table) == sorted([*before, *range(60, 70)])


def age(table: LakeTable, hours: int) -> None:
    """Let all files look as if they had been written some hours ago."""
    for path in Path(table.location).rglob("*.parquet"):
        changed = path.stat().st_mtime - hours * 3600
        os.utime(path, (changed, changed))


def parquet_files(table: LakeTable) -> set[str]:
    return {str(path.relative_to(table.location)) for path in Path(table.location).rglob("*.parquet")}


def test_vacuum_leaves_what_counts_what_is_still_read_and_what_a_batch_may_still_commit(table: LakeTable) -> None:
    now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    lost = write(table, range(5))
    table.commit(batch("q", 0, write(table, range(5))), SCHEMA)
    running = write(table, range(5, 9), batch=1)
    strange = write(table, range(5, 9), query="stranger")
    assert set(table.vacuum(keep_ms=HOUR_MS, now_ms=now_ms)) == {lost[0].path}
    assert parquet_files(table) >= {running[0].path, strange[0].path}
    table.commit(batch("q", 1, running, after=0), SCHEMA)
    table.compact(CompactionPlan(small_bytes=1 << 20, least_files=2))
    age(table, 100)
    before = offsets_in(table)
    # The files that were merged are old, and were taken out a moment ago.
    assert set(table.vacuum(keep_ms=HOUR_MS, now_ms=now_ms)) == {strange[0].path}
    assert len(parquet_files(table)) == 3
    assert offsets_in(table) == before


def test_vacuum_removes_what_was_merged_when_its_readers_had_their_time(table: LakeTable) -> None:
    for number in range(2):
        files = write(table, range(number, number + 1), batch=number)
        table.commit(batch("q", number, files, None if number == 0 else number - 1), SCHEMA)
    table.compact(CompactionPlan(small_bytes=1 << 20, least_files=2))
    now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
    assert len(table.vacuum(keep_ms=0, now_ms=now_ms + 10)) == 2
    assert parquet_files(table) == {each.path for each in table.snapshot().files}
    assert offsets_in(table) == [0, 1]


def test_bounds_of_the_columns_stand_with_a_file(table: LakeTable) -> None:
    table.commit(batch("q", 0, write(table, range(7, 19))), SCHEMA)
    (file,) = table.snapshot().files
    assert (file.least["offset"], file.most["offset"], file.nulls["offset"]) == (7, 18, 0)
    assert (file.least["topic"], file.most["timestamp"]) == ("t", "2024-05-01T00:00:00.000018Z")


def test_many_commits_are_read_back(table: LakeTable) -> None:
    for number in range(60):
        files = write(table, range(number, number + 1), batch=number)
        table.commit(batch("q", number, files, None if number == 0 else number - 1), SCHEMA)
    opened = open_table(table.location)
    assert (opened.committed("q"), opened.record("q", 59)) == (59, {"run": "q 59"})
    assert offsets_in(opened) == list(range(60))
    assert offsets_in(opened, opened.snapshot().version - 40) == list(range(20))
