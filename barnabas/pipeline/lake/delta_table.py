"""A Delta table, by the library deltalake: what Spark with Delta, DuckDB and others read.

The query's last batch stands in the table's log as Delta's own transaction identifier (`txn`), and is looked at in the
snapshot that a commit is made against. The library refuses a commit where somebody else has committed the same query
since that snapshot, or changed the columns, and makes it again at the next version where the others have only added
files. After a refusal the table is looked at anew: either it tells why, or the commit is tried again.
"""

import json
import os
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from barnabas.pipeline.lake.folder import (
    list_files,
    remove_files,
    require_writable,
    sync_file,
    sync_folder,
)
from barnabas.pipeline.lake.orphans import find_orphans, queries_of
from barnabas.pipeline.lake.schemas import require_next, require_schema
from barnabas.pipeline.lake.table import (
    BatchCommit,
    Bound,
    BrokenTable,
    CompactionPlan,
    CompactionResult,
    DataFile,
    Json,
    NoTable,
    NotWritable,
    Snapshot,
    TableConflict,
    TableSchema,
)
from barnabas.runtime.clock import Clock, SystemClock

T = TypeVar("T")

FOLDER: Final = "_delta_log"
_RECORD: Final = "barnabas"
"""The key in `commitInfo` under which a batch's record stands, as JSON in a text."""
_ATTEMPTS: Final = 20
_HISTORY: Final = 64
_HOUR_MS: Final = 3_600_000


class DeltaLakeTable:
    """See the module and `table.LakeTable`."""

    kind = "delta"

    def __init__(self, location: str, *, clock: Clock | None = None) -> None:
        """Open the table that is there. Raises NoTable, BrokenTable."""
        self.location = location
        self._clock = clock or SystemClock()
        self._open()

    @classmethod
    def create(cls, location: str, schema: TableSchema, *, clock: Clock | None = None) -> "DeltaLakeTable":
        """Make a table unless one is there. Raises NotWritable, OtherSchema."""
        require_writable(location)
        try:
            DeltaTable.create(
                location,
                schema=Schema.from_arrow(schema.whole),
                partition_by=schema.partitions.names,
                mode="ignore",
            )
        except (DeltaError, OSError) as error:
            raise NotWritable(f"no Delta table can be made at {location}: {error}") from error
        table = cls(location, clock=clock)
        require_schema(location, table.schema(), schema)
        return table

    def schema(self) -> TableSchema:
        return self._schema(self._open())

    def committed(self, query: str) -> int | None:
        return _last_batch(self._open(), query)

    def record(self, query: str, batch: int) -> dict[str, Json] | None:
        table = self._open()
        limit = _HISTORY
        while True:
            history = _reading(self.location, lambda limit=limit: table.history(limit))  # type: ignore[misc]
            for entry in history:
                found = json.loads(entry.get(_RECORD, "{}"))
                if (found.get("query"), found.get("batch")) == (query, batch):
                    record: dict[str, Json] = found["record"]
                    return record
            if len(history) < limit:
                return None
            limit *= 8

    def commit(self, commit: BatchCommit, schema: TableSchema) -> int:
        told = json.dumps({"query": commit.query, "batch": commit.batch, "record": dict(commit.record)})
        properties = CommitProperties(
            custom_metadata={_RECORD: told}, app_transactions=[Transaction(commit.query, commit.batch)]
        )
        refused: Exception | None = None
        for _ in range(_ATTEMPTS):
            table = self._open()
            found = table.version()
            require_next(self.location, commit, _last_batch(table, commit.query))
            require_schema(self.location, self._schema(table), schema)
            try:
                table.create_write_transaction(
                    [_add_action(each) for each in commit.files],
                    mode="append",
                    schema=Schema.from_arrow(schema.whole),
                    partition_by=schema.partitions.names,
                    commit_properties=properties,
                    post_commithook_properties=PostCommitHookProperties(),
                )
            except CommitFailedError as error:
                refused = error
            except (DeltaError, OSError) as error:
                raise NotWritable(f"the Delta table {self.location} takes no commit: {error}") from error
            else:
                return self._made_durable(found)
        raise TableConflict(
            f"other writers changed the Delta table {self.location} each of the {_ATTEMPTS} times that batch "
            f"{commit.batch} of query {commit.query} was to be committed: {refused}; start again when they are done"
        )

    def snapshot(self, version: int | None = None) -> Snapshot:
        table = self._open()
        if version is not None and version != table.version():
            table = _reading(self.location, lambda: DeltaTable(self.location, version=version))
        rows = pa.table(_reading(self.location, lambda: table.get_add_actions(flatten=False))).to_pylist()
        return Snapshot(table.version(), tuple(_data_file(row) for row in rows))

    def compact(self, plan: CompactionPlan) -> CompactionResult:
        """Merge in this process, by the library: its commits do not stand in the way of batches."""
        table = self._open()
        before = self.snapshot()
        if sum(each.size_bytes < plan.small_bytes for each in before.files) < plan.least_files:
            return CompactionResult(0, 0)
        try:
            done = table.optimize.compact(target_size=plan.target_bytes)
        except CommitFailedError as error:
            raise TableConflict(
                f"files of the Delta table {self.location} were taken out while they were merged: {error}; let one "
                "compaction run at a time"
            ) from error
        except (DeltaError, OSError) as error:
            raise BrokenTable(f"files of the Delta table {self.location} cannot be merged: {error}") from error
        # The library syncs nothing, and takes the files out that it merged.
        known = {each.path for each in before.files}
        self._made_durable(before.version, [each.path for each in self.snapshot().files if each.path not in known])
        return CompactionResult(done["numFilesRemoved"], done["numFilesAdded"])

    def vacuum(self, *, keep_ms: int, now_ms: int) -> list[str]:
        listed = list_files(self.location, ".parquet")
        table = self._open()
        referred = {each.path for each in self.snapshot().files}
        # What a commit has taken out is the library's to remove, when readers of former versions had their time.
        hours = -(-keep_ms // _HOUR_MS)
        expired = _reading(self.location, lambda: table.vacuum(hours, dry_run=False, enforce_retention_duration=False))
        taken_out = _reading(self.location, lambda: table.vacuum(0, dry_run=True, enforce_retention_duration=False))
        orphans = find_orphans(
            listed,
            referred=referred | set(taken_out) | set(expired),
            committed={query: _last_batch(table, query) for query in queries_of(listed)},
            keep_ms=keep_ms,
            now_ms=now_ms,
        )
        remove_files(self.location, orphans)
        return [*expired, *orphans]

    def _open(self) -> DeltaTable:
        try:
            return DeltaTable(self.location)
        except TableNotFoundError:
            raise NoTable(f"there is no Delta table at {self.location}: it has no folder {FOLDER}") from None
        except (DeltaError, OSError) as error:
            raise BrokenTable(f"the Delta table {self.location} cannot be read: {error}") from error

    def _schema(self, table: DeltaTable) -> TableSchema:
        whole = pa.schema(_reading(self.location, lambda: table.schema().to_arrow()))
        partitions = table.metadata().partition_columns
        return TableSchema(
            pa.schema([each for each in whole if each.name not in partitions]),
            pa.schema([whole.field(name) for name in partitions]),
        )

    def _made_durable(self, since: int, files: Iterable[str] = ()) -> int:
        """Let these files and the commits after version `since` reach the disk; the version that is there.

        Others may have committed behind ours, so the last commit need not be the one to sync.
        """
        folder = os.path.join(self.location, FOLDER)
        version = self._open().version()
        try:
            for path in files:
                sync_file(os.path.join(self.location, path))
            for number in range(since + 1, version + 1):
                sync_file(os.path.join(folder, f"{number:020d}.json"))
            sync_folder(folder)
        except OSError as error:
            raise NotWritable(
                f"what was committed to the Delta table {self.location} cannot be synced: {error}"
            ) from error
        return version


def _reading(location: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except (DeltaError, OSError) as error:
        raise BrokenTable(f"the Delta table {location} cannot be read: {error}") from error


def _last_batch(table: DeltaTable, query: str) -> int | None:
    found = table.transaction_version(query)
    return None if found is None else int(found)


def _add_action(file: DataFile) -> AddAction:
    stats = {
        "numRecords": file.rows,
        "minValues": file.least,
        "maxValues": file.most,
        "nullCount": file.nulls,
    }
    return AddAction(file.path, file.size_bytes, dict(file.values), file.written_ms, True, json.dumps(stats))


def _data_file(row: dict[str, Json]) -> DataFile:
    return DataFile(
        path=row["path"],
        size_bytes=row["size_bytes"],
        rows=row["num_records"],
        written_ms=row["modification_time"],
        values={name: None if value is None else str(value) for name, value in (row.get("partition") or {}).items()},
        least=_bounds(row.get("min")),
        most=_bounds(row.get("max")),
        nulls={name: count for name, count in (row.get("null_count") or {}).items() if isinstance(count, int)},
    )


def _bounds(found: dict[str, Json] | None) -> dict[str, Bound]:
    """As JSON has them; columns without are left out, and so are those within others."""
    bounds: dict[str, Bound] = {}
    for name, value in (found or {}).items():
        if hasattr(value, "astimezone"):
            bounds[name] = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        elif isinstance(value, bool | int | float | str):
            bounds[name] = value
    return bounds
