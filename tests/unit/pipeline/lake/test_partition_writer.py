"""Files as tasks write them: partitions, sizes, bounds; and merging."""

import datetime as dt
import itertools
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.pipeline.lake.merging import choose_merges, merge_files
from barnabas.pipeline.lake.parquet import ParquetOptions
from barnabas.pipeline.lake.partition_writer import PartitionWriter, Values, WriterOptions
from barnabas.pipeline.lake.table import CompactionPlan, DataFile, NotWritable

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
KIB = 1024


def rows(offsets: range, size: int = 100, time_us: int = 0) -> pa.RecordBatch:
    columns = [
        pa.array(["t"] * len(offsets)),
        pa.array(offsets, pa.int64()),
        pa.array([time_us + at for at in offsets], pa.int64()).cast(SCHEMA.field("timestamp").type),
        pa.array([os.urandom(size) for _ in offsets], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def day(number: int) -> Values:
    return (("event_date", f"2024-05-{number:02d}"),)


def writer(folder: Path, **options: int) -> PartitionWriter:
    numbers = itertools.count()
    return PartitionWriter(
        str(folder), SCHEMA, lambda: f"f{next(numbers)}.parquet", options=WriterOptions(ParquetOptions(), **options)
    )


def offsets(folder: Path, file: DataFile) -> list[int]:
    found: list[int] = pq.read_table(folder / file.path, partitioning=None)["offset"].to_pylist()
    return found


def test_rows_go_to_the_file_of_their_partition_in_order(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for at in range(6):
        made.write(rows(range(at * 10, at * 10 + 10)), day(at % 2 + 1))
    files = made.close()
    assert [(each.path, each.rows, each.values) for each in files] == [
        ("event_date=2024-05-01/f0.parquet", 30, {"event_date": "2024-05-01"}),
        ("event_date=2024-05-02/f1.parquet", 30, {"event_date": "2024-05-02"}),
    ]
    assert offsets(tmp_path, files[0]) == [*range(10), *range(20, 30), *range(40, 50)]
    assert [each.size_bytes for each in files] == [(tmp_path / each.path).stat().st_size for each in files]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.write(rows(range(0)))
    assert made.close() == []


def test_a_file_ends_when_it_is_large(tmp_path: Path) -> None:
    made = writer(tmp_path, file_bytes=100 * KIB, group_bytes=40 * KIB)
    for at in range(20):
        made.write(rows(range(at * 100, at * 100 + 100)))
    files = made.close()
    assert len(files) > 1
    assert sorted(itertools.chain(*(offsets(tmp_path, each) for each in files))) == list(range(2000))
    assert max(each.size_bytes for each in files) < 200 * KIB


def test_what_waits_is_bounded_and_so_are_open_files(tmp_path: Path) -> None:
    made = writer(tmp_path, waiting_bytes=30 * KIB, open_files=3)
    for at in range(60):
        made.write(rows(range(at * 10, at * 10 + 10)), day(at % 10 + 1))
        assert made.waiting_bytes <= 30 * KIB
        assert made.open_files <= 3
    files = made.close()
    assert sorted(itertools.chain(*(offsets(tmp_path, each) for each in files))) == list(range(600))


def test_bounds_are_told_and_what_has_none_is_left_out(tmp_path: Path) -> None:
    made = writer(tmp_path, group_bytes=1)
    made.write(rows(range(5, 10), time_us=1_714_521_600_000_000))
    made.write(rows(range(20, 30), time_us=1_714_521_600_000_000))
    (file,) = made.close()
    assert (file.least["offset"], file.most["offset"], file.nulls) == (5, 29, {"topic": 0, "offset": 0, "timestamp": 0})
    assert (file.least["timestamp"], file.most["timestamp"]) == (
        "2024-05-01T00:00:00.000005Z",
        "2024-05-01T00:00:00.000029Z",
    )
    assert "value" not in file.least


def test_times_that_no_calendar_has_have_no_bound(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.write(rows(range(2), time_us=2**62))
    (file,) = made.close()
    assert "timestamp" not in file.most
    assert file.most["offset"] == 1


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "event_date=2024-05-01").write_text("in the way")
    with pytest.raises(NotWritable, match=r"event_date=2024-05-01/f0.parquet cannot be written"):
        writer(tmp_path).write(rows(range(3)), day(1))


def small(name: str, size: int, date: str = "a") -> DataFile:
    return DataFile(path=name, size_bytes=size, rows=1, written_ms=0, values={"event_date": date})


def groups(files: list[DataFile], **plan: int) -> list[list[str]]:
    return [[each.path for each in group] for group in choose_merges(files, CompactionPlan(**plan))]


def test_small_files_of_one_folder_are_merged_up_to_the_target() -> None:
    files = [small(f"a{at}", 40) for at in range(5)] + [small("b0", 40, "b"), small("a9", 100)]
    assert groups(files, target_bytes=100, small_bytes=100, least_files=2) == [["a0", "a1"], ["a2", "a3"]]
    assert groups(files, target_bytes=200, small_bytes=100, least_files=2) == [["a0", "a1", "a2", "a3", "a4"]]
    assert groups(files, target_bytes=200, small_bytes=100, least_files=6) == []


def test_merged_files_have_all_rows(tmp_path: Path) -> None:
    files = []
    for at in range(3):
        made = PartitionWriter(str(tmp_path), SCHEMA, f"m{at}.parquet".format)
        made.write(rows(range(at * 10, at * 10 + 10)), day(1))
        files += made.close()
    merged = merge_files(str(tmp_path), files, token="x", now_ms=7)
    assert (merged.rows, merged.values, merged.written_ms) == (30, {"event_date": "2024-05-01"}, 7)
    assert offsets(tmp_path, merged) == list(range(30))
    assert (merged.least["offset"], merged.most["offset"]) == (0, 29)
    read = pq.read_table(tmp_path / merged.path, partitioning=None)
    assert read.schema.equals(SCHEMA)
    assert read["timestamp"][0].as_py() == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
