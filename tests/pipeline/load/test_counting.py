"""The count at the end of a kill story finds what it is there to find."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.load.kill_story import PARTITIONS, Plan, count

PLAN = Plan(records=100, batch=10, victims=(), value_bytes=30)


def row(number: int) -> tuple[int, int, bytes]:
    return number % PARTITIONS, number // PARTITIONS, f"{number:020d}".encode().ljust(30, b".")


def findings(folder: Path, *files: list[tuple[int, int, bytes]]) -> list[str]:
    paths = []
    for at, rows in enumerate(files):
        partitions, offsets, values = zip(*rows, strict=True)
        paths.append(str(folder / f"{at}.parquet"))
        table = pa.table({"partition": pa.array(partitions, pa.int32()), "offset": offsets, "value": values})
        pq.write_table(table, paths[-1])
    return count(paths, PLAN)[1]


def test_a_table_that_is_the_input_has_no_findings(tmp_path: Path) -> None:
    rows = [row(at) for at in range(100)]
    assert findings(tmp_path, rows[50:], rows[:50]) == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ([row(at) for at in range(100) if at != 57], "99 of 100 records are there"),
        ([*(row(at) for at in range(100)), row(57)], "101 rows, not 100"),
        ([row(at) for at in range(1, 101)], "numbers are 1 to 100"),
        ([(at % PARTITIONS, 0, row(at)[2]) for at in range(100)], "96 rows are of a place that another row has"),
        ([(0, at, row(at)[2]) for at in range(100)], "75 rows are of another partition"),
        ([*(row(at) for at in range(99)), (3, 24, row(99)[2][:-1] + b"!")], "1 values are not what was produced"),
    ],
)
def test_what_is_lost_doubled_or_changed_is_found(
    planted: list[tuple[int, int, bytes]], found: str, tmp_path: Path
) -> None:
    assert found in findings(tmp_path, planted)
