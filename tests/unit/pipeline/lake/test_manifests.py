"""Manifests as values: what a table is after them, and what is refused."""

import msgspec
import pyarrow as pa
import pytest

from barnabas.pipeline.lake.manifests import (
    Manifest,
    TableState,
    apply_manifest,
    batch_manifest,
    decode_manifest,
    decode_state,
    encode_state,
    first_manifest,
    last_batch,
    state_name,
    state_number,
    unpack_columns,
)
from barnabas.pipeline.lake.table import BatchCommit, BrokenTable, DataFile, TableSchema

SCHEMA = TableSchema(
    pa.schema([pa.field("value", pa.struct([("a", pa.decimal128(9, 2))]))]), pa.schema([("event_date", pa.date32())])
)


def file(name: str) -> DataFile:
    return DataFile(path=name, size_bytes=10, rows=1, written_ms=5, values={"event_date": None}, least={"a": 1})


def made() -> TableState:
    state = TableState()
    apply_manifest(state, first_manifest(SCHEMA, now_ms=1))
    apply_manifest(state, batch_manifest(BatchCommit("q", 0, None, (file("a"), file("b")), {"x": 1}), 1, now_ms=2))
    merged = Manifest(format=1, number=2, written_ms=3, add=[file("ab")], remove=["a", "b"])
    apply_manifest(state, merged)
    return state


def test_a_state_is_what_its_manifests_made() -> None:
    state = made()
    assert set(state.files) == {"ab"}
    assert state.removed == {"a": 3, "b": 3}
    assert (last_batch(state.queries, "q"), last_batch(state.queries, "r"), state.number) == (0, None, 2)
    assert state.columns is not None
    assert unpack_columns(state.columns) == SCHEMA


def test_states_and_manifests_are_read_as_they_were_written() -> None:
    state = made()
    assert decode_state(encode_state(state), "x") == state
    manifest = batch_manifest(BatchCommit("q", 1, 0, (file("c"),), {"deep": [{"a": None}]}), 3, now_ms=9)
    assert decode_manifest(msgspec.json.encode(manifest), "x") == manifest
    assert state_number(state_name(50)) == 50
    assert [state_number(each) for each in ("00000000000000000050.json", "50.state.json", ".x")] == [None] * 3


def test_what_does_not_follow_is_refused() -> None:
    state = made()
    with pytest.raises(BrokenTable, match="manifest 4 follows version 2; one between them is missing"):
        apply_manifest(state, Manifest(format=1, number=4, written_ms=0))
    with pytest.raises(BrokenTable, match="takes out a, which is not in the table"):
        apply_manifest(state, Manifest(format=1, number=3, written_ms=0, remove=["a"]))
    assert state == made()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format":1}', b'{"format":1,"number":0,"written_ms":0,"x":1}']
)
def test_what_is_no_manifest_is_told_with_its_path(content: bytes) -> None:
    with pytest.raises(BrokenTable, match=r"7.json is no Manifest: .*; restore it from a copy"):
        decode_manifest(content, "7.json")


def test_a_later_format_is_refused() -> None:
    content = msgspec.json.encode(Manifest(format=2, number=0, written_ms=0))
    with pytest.raises(BrokenTable, match="has format 2, and this release reads format 1 alone"):
        decode_manifest(content, "x")
