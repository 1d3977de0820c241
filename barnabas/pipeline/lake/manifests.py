"""What the manifests of a table say: one JSON document for each commit, and states that sum them up. Pure.

    _manifests/00000000000000000007.json         the commit that made version 7
    _manifests/00000000000000000050.state.json   everything up to version 50

A manifest adds files, takes files out, or changes the columns; that of a batch has query, batch and record. A state is
made of manifests alone: it may be missing, and saves reading them from the first one on.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from barnabas.pipeline.lake.table import BatchCommit, BrokenTable, DataFile, Json, TableSchema

T = TypeVar("T")
M = TypeVar("M", "Manifest", "StateFile")

FORMAT: Final = 1
STATE_EVERY: Final = 50


class Columns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table's columns: Arrow schemas as IPC messages in base64, and in words for who reads the file."""

    columns: str
    partitions: str
    words: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A commit; `query` is empty where no query made it."""

    format: int
    number: int
    written_ms: int
    query: str = ""
    batch: int = -1
    record: dict[str, Json] = msgspec.field(default_factory=dict)
    add: list[DataFile] = msgspec.field(default_factory=list)
    remove: list[str] = msgspec.field(default_factory=list)
    columns: Columns | None = None


class LastBatch(msgspec.Struct, frozen=True):
    """The last batch of a query, and the number of its manifest."""

    batch: int
    number: int


class StateFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table as a state file has it."""

    format: int
    number: int
    columns: Columns
    files: list[DataFile]
    removed: dict[str, int]
    queries: dict[str, LastBatch]


@dataclass
class TableState:
    """A table at version `number`; -1 before its first manifest. `removed` says when files were taken out."""

    number: int = -1
    columns: Columns | None = None
    files: dict[str, DataFile] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    queries: dict[str, LastBatch] = field(default_factory=dict)


def manifest_name(number: int) -> str:
    """The name of the manifest that makes a version."""
    return f"{number:020d}.json"


def state_name(number: int) -> str:
    """The name of the state of a version."""
    return f"{number:020d}.state.json"


def state_number(name: str) -> int | None:
    """The version of a state file by its name, None for other files."""
    stem = name.removesuffix(".state.json")
    return int(stem) if stem != name and len(stem) == 20 and stem.isdecimal() else None


def pack_columns(schema: TableSchema) -> Columns:
    """The columns as a manifest has them."""
    columns, partitions = (
        base64.b64encode(each.serialize().to_pybytes()).decode() for each in (schema.columns, schema.partitions)
    )
    return Columns(
        columns=columns, partitions=partitions, words="; ".join(f"{at.name} {at.type}" for at in schema.whole)
    )


def unpack_columns(packed: Columns) -> TableSchema:
    """Raises BrokenTable."""
    try:
        columns, partitions = (
            pa.ipc.read_schema(pa.py_buffer(base64.b64decode(each))) for each in (packed.columns, packed.partitions)
        )
    except (ValueError, pa.ArrowInvalid, OSError) as error:
        raise BrokenTable(f"the columns in a manifest cannot be read: {error}") from None
    return TableSchema(columns, partitions)


def first_manifest(schema: TableSchema, *, now_ms: int) -> Manifest:
    """What makes a table."""
    return Manifest(format=FORMAT, number=0, written_ms=now_ms, columns=pack_columns(schema))


def batch_manifest(commit: BatchCommit, number: int, *, now_ms: int) -> Manifest:
    """What puts a batch in."""
    return Manifest(
        format=FORMAT,
        number=number,
        written_ms=now_ms,
        query=commit.query,
        batch=commit.batch,
        record=dict(commit.record),
        add=list(commit.files),
    )


def decode_manifest(content: bytes, path: str) -> Manifest:
    """Raises BrokenTable."""
    return _checked(_decode(content, Manifest, path), path)


def decode_state(content: bytes, path: str) -> TableState:
    """Raises BrokenTable."""
    found = _checked(_decode(content, StateFile, path), path)
    return TableState(
        found.number, found.columns, {each.path: each for each in found.files}, dict(found.removed), dict(found.queries)
    )


def encode_state(state: TableState) -> bytes:
    """A state file of a table that has been made."""
    assert state.columns is not None
    return msgspec.json.encode(
        StateFile(
            format=FORMAT,
            number=state.number,
            columns=state.columns,
            files=list(state.files.values()),
            removed=state.removed,
            queries=state.queries,
        )
    )


def _decode(content: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError as error:
        raise BrokenTable(f"{path} is no {kind.__name__}: {error}; restore it from a copy of the table") from None


def _checked(found: M, path: str) -> M:
    if found.format != FORMAT:
        raise BrokenTable(f"{path} has format {found.format}, and this release reads format {FORMAT} alone")
    return found


def apply_manifest(state: TableState, manifest: Manifest) -> None:
    """Let the table be at the version of the next manifest. Raises BrokenTable."""
    if manifest.number != state.number + 1:
        raise BrokenTable(f"manifest {manifest.number} follows version {state.number}; one between them is missing")
    missing = [path for path in manifest.remove if path not in state.files]
    if missing:
        raise BrokenTable(f"manifest {manifest.number} takes out {missing[0]}, which is not in the table")
    for path in manifest.remove:
        del state.files[path]
        state.removed[path] = manifest.written_ms
    for each in manifest.add:
        state.files[each.path] = each
    if manifest.columns is not None:
        state.columns = manifest.columns
    if manifest.query:
        state.queries[manifest.query] = LastBatch(manifest.batch, manifest.number)
    state.number = manifest.number


def last_batch(queries: Mapping[str, LastBatch], query: str) -> int | None:
    """The number of a query's last batch, None for none."""
    found = queries.get(query)
    return None if found is None else found.batch
