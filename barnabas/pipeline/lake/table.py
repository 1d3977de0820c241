"""The port of a table, its values and its errors.

A table is a folder with Parquet files and a log of commits; a file counts from the commit that names it to the one that
takes it out. A commit carries the query that made it and the number of that query's batch, and is taken only where the
query's last batch is the one that the caller believes: this is what makes a load happen once. Whoever is told
`AlreadyCommitted` must not write the batch again.

Two implementations pass one contract suite: `delta_table` and `manifest_table`. `tables` makes and opens them. Both are
of folders on file systems that all who write and read see alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa

Json = Any
Bound = bool | int | float | str

NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose partition column is null, as Hive calls it."""


class LakeError(Exception):
    """A table cannot be used; the text names it and says what to do."""


class NoTable(LakeError):
    """There is no table at this place."""


class NotWritable(LakeError):
    """Files cannot be made at this place."""


class OtherSchema(LakeError):
    """The table has other columns than those that are to be written."""


class AlreadyCommitted(LakeError):
    """The query's batch, or a later one, is in the table."""


class TableConflict(LakeError):
    """Another writer changed the table so that the commit cannot be made."""


class BrokenTable(LakeError):
    """The table's own files cannot be read."""


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """A Parquet file of a table.

    `path` is relative to the table; `values` has a text or None for each partition column. `least` and `most` bound
    columns as JSON has them, times in ISO 8601 and UTC, and `nulls` counts; a column without bounds may hold anything.
    """

    path: str
    size_bytes: int
    rows: int
    written_ms: int
    values: dict[str, str | None] = msgspec.field(default_factory=dict)
    least: dict[str, Bound] = msgspec.field(default_factory=dict)
    most: dict[str, Bound] = msgspec.field(default_factory=dict)
    nulls: dict[str, int] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class TableSchema:
    """The columns in the files, and those whose values stand in the names of their folders."""

    columns: pa.Schema
    partitions: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def whole(self) -> pa.Schema:
        return pa.schema([*self.columns, *self.partitions])


@dataclass(frozen=True)
class BatchCommit:
    """What a batch puts into a table: `after` is the query's last batch, None for none; `record` is kept with it."""

    query: str
    batch: int
    after: int | None
    files: tuple[DataFile, ...]
    record: Mapping[str, Json]


@dataclass(frozen=True)
class Snapshot:
    """What counts at one version of a table."""

    version: int
    files: tuple[DataFile, ...]


@dataclass(frozen=True)
class CompactionPlan:
    """Files below `small_bytes` of one folder become files of about `target_bytes`, where there are `least_files`."""

    target_bytes: int = 256 * 1024 * 1024
    small_bytes: int = 128 * 1024 * 1024
    least_files: int = 4


@dataclass(frozen=True)
class CompactionResult:
    """How many files were merged into how many."""

    removed: int
    added: int


class LakeTable(Protocol):
    """A table. Every method raises LakeError; each looks at what there is now."""

    @property
    def location(self) -> str:
        """The table's folder, absolute."""
        ...

    @property
    def kind(self) -> str:
        """`delta` or `parquet`."""
        ...

    def schema(self) -> TableSchema:
        """The table's columns."""
        ...

    def committed(self, query: str) -> int | None:
        """The last batch of a query, None where it has none."""
        ...

    def record(self, query: str, batch: int) -> dict[str, Json] | None:
        """What was kept with a batch's commit, None where the log does not reach back to it."""
        ...

    def commit(self, commit: BatchCommit, schema: TableSchema) -> int:
        """Put a batch in, all or nothing; the version that has it.

        Raises AlreadyCommitted, TableConflict where the query's last batch is another one than `after`, OtherSchema.
        """
        ...

    def snapshot(self, version: int | None = None) -> Snapshot:
        """What counts now, or counted at a version."""
        ...

    def compact(self, plan: CompactionPlan) -> CompactionResult:
        """Merge small files; rows and versions before stay as they are. Raises TableConflict."""
        ...

    def vacuum(self, *, keep_ms: int, now_ms: int) -> list[str]:
        """Remove what no version of the last `keep_ms` refers to and no running batch may still commit; their paths."""
        ...
