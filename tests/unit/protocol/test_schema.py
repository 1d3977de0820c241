"""What a class says of itself as a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import I32, Blob, Fixed, NullableBytes, NullableStr, Str, Text
from barnabas.protocol.schema import (
    NEVER,
    Api,
    ArrayOf,
    StructOf,
    default_of,
    describe,
    field,
    message,
    struct,
    versions_of,
)


@struct
class Leaf:
    name: Str = ""


@message(versions=(0, 5), flexible=4)
class Sample:
    count: I32 = 7
    note: NullableStr = field(default=None, since=2, until=4, nullable_since=3, ignorable=True)
    leaves: list[Leaf] | None = field(default_factory=list, nullable_since=1)
    leaf: Leaf = field(default_factory=Leaf, since=4, tag=3)
    numbers: list[I32] = field(default_factory=list)
    blob: NullableBytes = b""


def test_a_class_describes_its_fields_in_order() -> None:
    count, note, leaves, leaf, numbers, blob = describe(Sample)
    assert (count.name, count.kind, count.default, count.since, count.until) == ("count", Fixed("i"), 7, 0, NEVER)
    assert (note.kind, note.since, note.until, note.nullable_since, note.ignorable) == (Text(), 2, 4, 3, True)
    assert (leaves.kind, leaves.nullable_since, leaves.default) == (ArrayOf(StructOf(Leaf)), 1, [])
    assert (leaf.kind, leaf.tag, leaf.nullable_since) == (StructOf(Leaf), 3, NEVER)
    assert (numbers.kind, numbers.nullable_since) == (ArrayOf(Fixed("i")), NEVER)
    assert (blob.kind, blob.nullable_since) == (Blob(), 0)


def test_a_field_is_present_between_its_versions() -> None:
    note = describe(Sample)[1]
    assert [version for version in range(7) if note.present_in(version)] == [2, 3, 4]
    assert [version for version in range(7) if note.nullable_in(version)] == [3, 4, 5, 6]


def test_mutable_defaults_are_fresh() -> None:
    first, second = Sample(), Sample()
    first.numbers.append(1)
    first.leaf.name = "changed"
    assert second == Sample()
    numbers = describe(Sample)[4]
    default_of(numbers).append(1)
    assert default_of(numbers) == []


def test_structs_are_equal_by_class_and_values_and_are_no_keys() -> None:
    assert Sample(count=1, leaf=Leaf("a")) == Sample(count=1, leaf=Leaf("a"))
    assert Sample(leaf=Leaf("a")) != Sample(leaf=Leaf("b"))
    assert Leaf() != ""
    with pytest.raises(TypeError, match="unhashable"):
        hash(Leaf())


def test_a_struct_shows_its_fields() -> None:
    assert repr(Sample(leaves=[Leaf("a")])) == (
        "Sample(count=7, note=None, leaves=[Leaf(name='a')], leaf=Leaf(name=''), numbers=[], blob=b'')"
    )


def test_messages_have_slots() -> None:
    with pytest.raises(AttributeError):
        Sample().typo = 1  # type: ignore[attr-defined]


def test_versions_are_declared_by_their_ends() -> None:
    declared = versions_of(Sample)
    assert declared.versions == range(6)
    assert [declared.is_flexible(version) for version in declared.versions] == [False] * 4 + [True] * 2
    with pytest.raises(AssertionError):
        versions_of(Leaf)


def test_an_api_takes_versions_from_its_messages() -> None:
    api = Api(ApiKey.FETCH, FetchRequest, FetchResponse)
    assert (api.versions, api.flexible, repr(api)) == (range(13), 12, "Api(FETCH, versions 0-12)")
    with pytest.raises(AssertionError):
        Api(ApiKey.FETCH, FetchRequest, ProduceResponse)
    assert not Api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse).is_flexible(8)


TYPED = """
from barnabas.protocol.compiler import decode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.schema import field
request, end = decode(FetchRequest, 12, b"")
reveal_type(request)
reveal_type(request.max_bytes)
reveal_type(request.topics[0].partitions[0].fetch_offset)
reveal_type(request.cluster_id)
reveal_type(MetadataRequest().topics)
reveal_type(FetchResponse().responses[0].partition_responses[0].current_leader.leader_id)
FetchTopic(topic=1)
FetchTopic(name="t")
"""


def test_type_checkers_see_the_types_of_fields(tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(TYPED)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--follow-imports=silent"]
    run = subprocess.run(
        [*command, "--cache-dir", str(tmp_path), str(snippet)],
        env={**os.environ, "MYPYPATH": str(root)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    output = run.stdout + run.stderr
    revealed = [
        line.rpartition("Revealed type is ")[2].strip('"') for line in output.splitlines() if "Revealed" in line
    ]
    module = "barnabas.protocol.messages"
    assert [name.replace("builtins.", "") for name in revealed] == [
        f"{module}.fetch.FetchRequest",
        "int",
        "int",
        "str | None",
        f"list[{module}.metadata.MetadataRequestTopic] | None",
        "int",
    ], output
    assert 'incompatible type "int"; expected "str"' in output
    assert 'Unexpected keyword argument "name"' in output
