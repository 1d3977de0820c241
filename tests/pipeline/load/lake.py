"""What stands in a table, counted with DuckDB and the table's own library, and loads as a test runs them."""

import glob
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from barnabas.pipeline.jobs.job import Run
from barnabas.pipeline.lake.manifest_table import ManifestTable
from barnabas.pipeline.load.job import LoadConfig
from barnabas.pipeline.load.job import run as run_load


@dataclass
class Loading:
    """Loads of one configuration, one after the other."""

    bootstrap: str
    topic: str
    folder: Path
    kind: str = "delta"
    sections: dict[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> str:
        return str(self.folder / "table")

    def config(self, **changes: Any) -> LoadConfig:
        merged: dict[str, Any] = {
            "name": "events",
            "checkpoint": str(self.folder / "checkpoint"),
            "cluster": {"bootstrap_servers": self.bootstrap},
            "source": {"topics": [self.topic]},
            "table": {"path": self.table, "format": self.kind},
        }
        for section, values in {**self.sections, **changes}.items():
            merged[section] = {**merged.get(section, {}), **values} if isinstance(values, dict) else values
        return msgspec.convert(merged, LoadConfig)

    def run(self, **changes: Any) -> dict[str, Any]:
        """Load what there is; the report's counts. Raises JobFailed."""
        run = Run("load", self.config(**changes))
        run_load(run)
        return run.report.counts

    def rows(self, columns: str = "*", path: str | None = None) -> list[tuple[Any, ...]]:
        """Rows of the table in the order of their places, read without a line of ours where it is Delta."""
        relation = files_of(path or self.table)
        if not relation:
            return []
        query = f'select {columns} from read_parquet(?, hive_partitioning=true) order by topic, "partition", "offset"'
        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            return connection.execute(query, [relation]).fetchall()

    def loaded(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        return self.rows('"partition", "offset", key, value')


def files_of(path: str) -> list[str]:
    """The Parquet files that count, by deltalake itself or by the manifests."""
    if os.path.isdir(os.path.join(path, "_delta_log")):
        from deltalake import DeltaTable

        return [uri.removeprefix("file://") for uri in DeltaTable(path).file_uris()]
    return [os.path.join(path, each.path) for each in ManifestTable(path).snapshot().files]


def parquet_files(path: str) -> list[str]:
    """All Parquet files that lie there, whether they count or not."""
    return glob.glob(f"{path}/**/*.parquet", recursive=True)
