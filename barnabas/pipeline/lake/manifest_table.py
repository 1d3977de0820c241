"""A table of Parquet files with manifests: folder `_manifests`, one file for each commit, numbered from 0.

A commit is made by the manifest of the next number, which is put in its place in one step unless one is there. Who
comes second looks at what the first one did, and takes the number after it if that leaves his commit right. Readers
read manifests, never the folder: files that no manifest names do not count. The state of the table in memory follows
the manifests; it is this object's, and one thread uses it.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from barnabas.pipeline.lake.folder import (
    list_files,
    names_in,
    new_token,
    publish,
    read_file,
    remove_files,
    replace,
    require_writable,
)
from barnabas.pipeline.lake.manifests import (
    FORMAT,
    STATE_EVERY,
    Manifest,
    TableState,
    apply_manifest,
    batch_manifest,
    decode_manifest,
    decode_state,
    encode_state,
    first_manifest,
    last_batch,
    manifest_name,
    state_name,
    state_number,
    unpack_columns,
)
from barnabas.pipeline.lake.merging import choose_merges, merge_files
from barnabas.pipeline.lake.orphans import find_orphans, queries_of
from barnabas.pipeline.lake.schemas import require_next, require_schema
from barnabas.pipeline.lake.table import (
    BatchCommit,
    CompactionPlan,
    CompactionResult,
    DataFile,
    Json,
    LakeError,
    NoTable,
    Snapshot,
    TableConflict,
    TableSchema,
)
from barnabas.runtime.clock import Clock, SystemClock

FOLDER: Final = "_manifests"


class ManifestTable:
    """See the module and `table.LakeTable`."""

    kind = "parquet"

    def __init__(self, location: str, *, clock: Clock | None = None) -> None:
        """Open the table that is there. Raises NoTable, BrokenTable."""
        self.location = location
        self._folder = os.path.join(location, FOLDER)
        self._clock = clock or SystemClock()
        self._state = TableState()
        self._load()
        if self._state.number < 0:
            raise NoTable(f"there is no table at {location}: it has no folder {FOLDER} with manifests")

    @classmethod
    def create(cls, location: str, schema: TableSchema, *, clock: Clock | None = None) -> "ManifestTable":
        """Make a table unless one is there. Raises NotWritable, OtherSchema."""
        clock = clock or SystemClock()
        folder = os.path.join(location, FOLDER)
        require_writable(folder)
        first = first_manifest(schema, now_ms=clock.wall_ms())
        publish(os.path.join(folder, manifest_name(0)), msgspec.json.encode(first))
        table = cls(location, clock=clock)
        require_schema(location, table.schema(), schema)
        return table

    def schema(self) -> TableSchema:
        self._follow()
        return self._schema()

    def committed(self, query: str) -> int | None:
        self._follow()
        return last_batch(self._state.queries, query)

    def record(self, query: str, batch: int) -> dict[str, Json] | None:
        self._follow()
        found = self._state.queries.get(query)
        if found is not None and found.batch == batch:
            manifest = self._read(found.number)
            if manifest is not None and (manifest.query, manifest.batch) == (query, batch):
                return manifest.record
        return None

    def commit(self, commit: BatchCommit, schema: TableSchema) -> int:
        def decide() -> Manifest:
            require_next(self.location, commit, last_batch(self._state.queries, commit.query))
            require_schema(self.location, self._schema(), schema)
            return batch_manifest(commit, self._state.number + 1, now_ms=self._clock.wall_ms())

        return self._publish(decide)

    def snapshot(self, version: int | None = None) -> Snapshot:
        self._follow()
        if version is None or version == self._state.number:
            return Snapshot(self._state.number, tuple(self._state.files.values()))
        return self._past(version)

    def compact(self, plan: CompactionPlan) -> CompactionResult:
        """Merge in this process, a group of files after the other, each in a commit of its own."""
        self._follow()
        groups = choose_merges(self._state.files.values(), plan)
        for group in groups:
            merged = merge_files(self.location, group, token=new_token(), now_ms=self._clock.wall_ms())
            self._publish(lambda group=group, merged=merged: self._merge(group, merged))  # type: ignore[misc]
        return CompactionResult(sum(map(len, groups)), len(groups))

    def vacuum(self, *, keep_ms: int, now_ms: int) -> list[str]:
        listed = list_files(self.location, ".parquet")
        self._follow()
        recent = {path for path, removed_ms in self._state.removed.items() if now_ms - removed_ms <= keep_ms}
        orphans = find_orphans(
            listed,
            referred=recent | self._state.files.keys(),
            committed={query: last_batch(self._state.queries, query) for query in queries_of(listed)},
            keep_ms=keep_ms,
            now_ms=now_ms,
        )
        remove_files(self.location, orphans)
        self._forget_states()
        return orphans

    def _merge(self, group: Sequence[DataFile], merged: DataFile) -> Manifest:
        gone = [each.path for each in group if each.path not in self._state.files]
        if gone:
            raise TableConflict(
                f"the file {gone[0]} of the table {self.location} was taken out while it was merged with others: "
                "another compaction runs; let one of them run"
            )
        return Manifest(
            format=FORMAT,
            number=self._state.number + 1,
            written_ms=self._clock.wall_ms(),
            add=[merged],
            remove=[each.path for each in group],
        )

    def _publish(self, decide: Callable[[], Manifest]) -> int:
        """Make the next version of what `decide` makes of this one, again and again until nobody was faster."""
        while True:
            self._follow()
            manifest = decide()
            path = os.path.join(self._folder, manifest_name(manifest.number))
            if publish(path, msgspec.json.encode(manifest)):
                apply_manifest(self._state, manifest)
                if manifest.number % STATE_EVERY == 0:
                    replace(os.path.join(self._folder, state_name(manifest.number)), encode_state(self._state))
                return manifest.number

    def _schema(self) -> TableSchema:
        assert self._state.columns is not None
        return unpack_columns(self._state.columns)

    def _load(self, up_to: int | None = None) -> None:
        states = [number for name in names_in(self._folder) if (number := state_number(name)) is not None]
        self._state = TableState()
        for number in sorted(states, reverse=True):
            if up_to is None or number <= up_to:
                path = os.path.join(self._folder, state_name(number))
                content = read_file(path)
                if content is not None:
                    self._state = decode_state(content, path)
                    break
        self._follow(up_to)

    def _follow(self, up_to: int | None = None) -> None:
        while up_to is None or self._state.number < up_to:
            manifest = self._read(self._state.number + 1)
            if manifest is None:
                return
            apply_manifest(self._state, manifest)

    def _read(self, number: int) -> Manifest | None:
        path = os.path.join(self._folder, manifest_name(number))
        content = read_file(path)
        return None if content is None else decode_manifest(content, path)

    def _past(self, version: int) -> Snapshot:
        past = ManifestTable(self.location, clock=self._clock)
        past._load(up_to=version)
        if past._state.number != version:
            raise LakeError(f"the table {self.location} has no version {version}; its last is {self._state.number}")
        return Snapshot(version, tuple(past._state.files.values()))

    def _forget_states(self) -> None:
        """Of the states the last two are enough; manifests stay: a writer finds his number by them."""
        numbers = sorted(number for name in names_in(self._folder) if (number := state_number(name)) is not None)
        remove_files(self._folder, [state_name(number) for number in numbers[:-2]])
