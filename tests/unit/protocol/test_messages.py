"""The declarations against Kafka's own: `kafka_messages.json` lists the fields of every message of Kafka 2.7.

WriteTxnMarkers stands there as of Kafka 3.9, because version 1 is declared too, and so does DescribeCluster, which 2.7
has not.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages import APIS
from barnabas.protocol.primitives import Blob, Fixed, RecordSet, Text
from barnabas.protocol.schema import ArrayOf, Field, Kind, StructOf, describe, versions_of

KAFKA: list[dict[str, Any]] = json.loads((Path(__file__).parent / "kafka_messages.json").read_text())
HEADERS = {"RequestHeader": RequestHeader, "ResponseHeader": ResponseHeader}

# Kafka 2.7 says bytes for the record sets of Produce and means records, as its later schemas do; no byte differs.
RECORDS_CALLED_BYTES = {("ProduceRequest", "topics.partitions.records")}

# Fields of our own; they are tagged, and others skip them.
OWN = {
    "results.topics.partitions.damaged_ranges",
    "results.topics.partitions.may_have_gaps",
    "transaction_states.coordinator_leader_epoch",
}
OWN_NAMES = {path.rpartition(".")[2] for path in OWN}

FIXED = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "?", "float64": "d"}


class Fact(NamedTuple):
    """What one version of a message says of one field."""

    version: int
    path: str
    type: str
    nullable: bool
    tag: int | None
    default: object
    compact: bool


def ours(cls: type[Any]) -> Iterator[Fact]:
    declared = versions_of(cls)
    for version in declared.versions:
        yield from _ours(describe(cls), version, "", flexible=declared.is_flexible(version))


def _ours(fields: tuple[Field, ...], version: int, prefix: str, *, flexible: bool) -> Iterator[Fact]:
    for field in fields:
        path = prefix + field.name
        if not field.present_in(version) or path in OWN:
            continue
        compact = flexible and field.compact
        yield Fact(version, path, kind_name(field.kind), field.nullable_in(version), field.tag, plain(field), compact)
        inner = field.kind.item if isinstance(field.kind, ArrayOf) else field.kind
        if isinstance(inner, StructOf):
            yield from _ours(describe(inner.cls), version, path + ".", flexible=flexible)


def kind_name(kind: Kind) -> str:
    if isinstance(kind, ArrayOf):
        return "[]" + kind_name(kind.item)
    if isinstance(kind, StructOf):
        return "struct"
    if isinstance(kind, Fixed):
        return next(name for name, code in FIXED.items() if code == kind.code)
    return {Text: "string", Blob: "bytes", RecordSet: "records"}[type(kind)]


def plain(field: Field) -> object:
    return "struct" if isinstance(field.kind, StructOf) else field.default


def kafkas(message: dict[str, Any]) -> Iterator[Fact]:
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    for version in versions(message["validVersions"]):
        flexible = version in versions(message.get("flexibleVersions", "none"))
        yield from _kafkas(message["fields"], version, "", message["name"], common, flexible=flexible)


def _kafkas(
    fields: list[dict[str, Any]], version: int, prefix: str, message: str, common: dict[str, Any], *, flexible: bool
) -> Iterator[Fact]:
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        path = prefix + snake(field["name"])
        array, item = "[]" if field["type"].startswith("[]") else "", field["type"].removeprefix("[]")
        inner = field.get("fields") or common.get(item)
        if (message, path) in RECORDS_CALLED_BYTES:
            item = "records"
        kind = array + ("struct" if inner else item)
        nullable = version in versions(field.get("nullableVersions", "none"))
        compact = flexible and field.get("flexibleVersions") != "none"
        assert field.get("taggedVersions", field["versions"]) == field["versions"]
        yield Fact(version, path, kind, nullable, field.get("tag"), default(kind, field.get("default")), compact)
        yield from _kafkas(inner or [], version, path + ".", message, common, flexible=flexible)


def versions(text: str) -> range:
    if text == "none":
        return range(0)
    first, _, last = text.rstrip("+").partition("-")
    return range(int(first), 1000 if text.endswith("+") else int(last or first) + 1)


def snake(name: str) -> str:
    """The headers' fields carry the word request, which the class says already."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().removeprefix("request_")


def default(kind: str, text: str | None) -> object:
    """The default of Kafka's message generator, where the JSON names none."""
    if text == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind in ("string", "struct"):
        return text or ("struct" if kind == "struct" else "")
    if kind == "bytes":
        return b""
    if kind == "bool":
        return text == "true"
    return float(text or 0) if kind == "float64" else int(text or "0", 0)


def class_of(message: dict[str, Any]) -> type[Any]:
    if message["type"] == "header":
        return HEADERS[message["name"]]
    api = APIS[ApiKey(message["apiKey"])]
    return api.request if message["type"] == "request" else api.response


@pytest.mark.parametrize("message", KAFKA, ids=lambda message: message["name"])
def test_a_message_has_the_fields_of_kafkas(message: dict[str, Any]) -> None:
    cls = class_of(message)
    assert cls.__name__ == message["name"]
    assert sorted(ours(cls)) == sorted(kafkas(message))
    assert [fact.path for fact in ours(cls)] == [fact.path for fact in kafkas(message)]


IGNORABLE_LATER = {("JoinGroupResponse", "group_instance_id")}
"""As in 3.9: with 2.7 an old client that leads a group with a static member gets no answer that it understands."""


@pytest.mark.parametrize("message", KAFKA, ids=lambda message: message["name"])
def test_a_field_is_ignorable_where_kafkas_is(message: dict[str, Any]) -> None:
    """Told only for fields that some version lacks: elsewhere the word means nothing."""
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    every = versions_of(class_of(message)).versions

    def compare(cls: type[Any], theirs: list[dict[str, Any]], around: set[int]) -> None:
        kafkas = [field for field in describe(cls) if field.name not in OWN_NAMES]
        for field, their in zip(kafkas, theirs, strict=True):
            there = around & set(versions(their["versions"]))
            assert field.name == snake(their["name"])
            ignorable = their.get("ignorable", False) or (message["name"], field.name) in IGNORABLE_LATER
            assert field.ignorable == ignorable or there == around, field.name
            item = field.kind.item if isinstance(field.kind, ArrayOf) else field.kind
            if isinstance(item, StructOf):
                compare(item.cls, their.get("fields") or common[their["type"].removeprefix("[]")], there)

    compare(class_of(message), message["fields"], set(every))


def test_every_client_facing_api_of_kafka_is_declared_and_no_other() -> None:
    assert set(APIS) == {*range(52), 56, 57, 60, 61, 65, 66} == set(ApiKey)
    assert {key: api.key for key, api in APIS.items()} == {key: key for key in APIS}
    assert {message["apiKey"] for message in KAFKA if "apiKey" in message} == set(APIS)
    assert len(KAFKA) == 2 * len(APIS) + len(HEADERS)


def test_the_table_of_apis_has_kafkas_versions() -> None:
    for message in KAFKA:
        if message["type"] == "request":
            api = APIS[ApiKey(message["apiKey"])]
            assert api.versions == versions(message["validVersions"])
            flexible = [v for v in api.versions if v in versions(message.get("flexibleVersions", "none"))]
            assert [version for version in api.versions if api.is_flexible(version)] == flexible


def test_structs_of_one_module_have_names_of_their_own() -> None:
    for api in APIS.values():
        names = [cls.__name__ for cls in {*structs(api.request), *structs(api.response)}]
        assert len(names) == len(set(names)), api


def structs(cls: type[Any]) -> Iterator[type[Any]]:
    for field in describe(cls):
        item = field.kind.item if isinstance(field.kind, ArrayOf) else field.kind
        if isinstance(item, StructOf):
            yield item.cls
            yield from structs(item.cls)
