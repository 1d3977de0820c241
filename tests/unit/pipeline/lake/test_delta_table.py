"""What of a Delta table only its own implementation has: what reaches the disk before a commit is believed in."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from barnabas.pipeline.lake import delta_table
from barnabas.pipeline.lake.delta_table import DeltaLakeTable
from barnabas.pipeline.lake.partition_writer import PartitionWriter
from barnabas.pipeline.lake.table import BatchCommit, CompactionPlan, DataFile, TableSchema

SCHEMA = TableSchema(pa.schema([("offset", pa.int64())]))


@pytest.fixture
def table(tmp_path: Path) -> DeltaLakeTable:
    return DeltaLakeTable.create(str(tmp_path / "table"), SCHEMA)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were synced."""
    names: list[str] = []

    def sync(path: str) -> None:
        assert os.path.exists(path)
        names.append(os.path.basename(path))

    monkeypatch.setattr(delta_table, "sync_file", sync)
    return names


def commit(table: DeltaLakeTable, query: str, batch: int, files: tuple[DataFile, ...] = ()) -> None:
    table.commit(BatchCommit(query, batch, batch - 1 if batch else None, files, {}), SCHEMA)


def test_a_commit_reaches_the_disk_though_somebody_else_committed_behind_it(
    table: DeltaLakeTable, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeltaTable.create_write_transaction

    def commit_before_another(self: DeltaTable, *arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(DeltaTable, "create_write_transaction", real)
        self.create_write_transaction(*arguments, **named)
        commit(DeltaLakeTable(table.location), "other", 0)
        synced.clear()

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit_before_another)
    commit(table, "q", 0)
    assert f"{1:020d}.json" in synced


def test_files_that_were_merged_reach_the_disk(table: DeltaLakeTable, synced: list[str]) -> None:
    for batch in range(3):
        writer = PartitionWriter(table.location, SCHEMA.columns, lambda name=f"{batch}.parquet": name)  # type: ignore[misc]
        writer.write(pa.RecordBatch.from_pydict({"offset": [batch]}, schema=SCHEMA.columns))
        commit(table, "q", batch, tuple(writer.close()))
    synced.clear()
    assert table.compact(CompactionPlan(least_files=2)).added == 1
    (merged,) = table.snapshot().files
    assert synced == [os.path.basename(merged.path), f"{4:020d}.json"]
