"""Our bytes against those of kafka-python and aiokafka, which declare the messages on their own.

Both are walked generically: a value of ours is taken apart in wire order and handed over by position, so that no name
of a field matters.
"""

import importlib
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import aiokafka.protocol.api
import kafka.protocol.api_message
import pytest
from aiokafka.protocol.types import Array, Schema, TaggedFields
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas import StructField

from barnabas.protocol.compiler import encode
from barnabas.protocol.messages import APIS
from barnabas.protocol.schema import Api, default_of, describe
from tests.unit.protocol.message_strategies import EVERY_MESSAGE, messages

FEW = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

KAFKA_PYTHON_MODULES = ("admin", "consumer", "metadata", "producer", "sasl")
AIOKAFKA_MODULES = (
    "admin", "commit", "coordination", "fetch", "group", "metadata", "offset", "produce", "transaction",
)  # fmt: skip

Position = tuple[int, bool, int]
"""API key, whether it is the request, version."""

WIDE_EPOCH = "the current leader epoch of ListOffsets is an int64 there"
NOT_FLEXIBLE = "version 2 of DescribeAcls is not flexible there"
NESTED = "the count and the assignments of CreatePartitions are a struct of their own there"
AIOKAFKA_ERRS: dict[Position, str] = {
    (2, True, 4): WIDE_EPOCH,
    (2, True, 5): WIDE_EPOCH,
    (29, True, 2): NOT_FLEXIBLE,
    (29, False, 2): NOT_FLEXIBLE,
    (37, True, 0): NESTED,
    (37, True, 1): NESTED,
}


def position(api: Api, cls: type[Any], version: int) -> Position:
    return int(api.key), cls is api.request, version


def descendants(cls: type[Any]) -> Iterator[type[Any]]:
    for below in type.__subclasses__(cls):
        yield below
        yield from descendants(below)


def of_kafka_python() -> dict[Position, Any]:
    """The versions that Kafka 4 still has: the library takes older ones too, but its schemas no longer tell them."""
    for module in KAFKA_PYTHON_MODULES:
        importlib.import_module(f"kafka.protocol.{module}")
    found = {}
    for cls in descendants(kafka.protocol.api_message.ApiMessage):
        if cls._class_version is None:
            oldest, newest = cls._valid_versions
            for version in range(oldest, newest + 1):
                found[cls.API_KEY, cls.is_request(), version] = cls
    return found


def of_aiokafka() -> dict[Position, Any]:
    for module in AIOKAFKA_MODULES:
        importlib.import_module(f"aiokafka.protocol.{module}")
    api = aiokafka.protocol.api
    return {
        (cls.API_KEY, base is api.RequestStruct, cls.API_VERSION): cls
        for base in (api.RequestStruct, api.Response)
        for cls in descendants(base)
    }


KAFKA_PYTHON = of_kafka_python()
AIOKAFKA = of_aiokafka()


def kafka_python_arguments(structure: StructField, message: Any, version: int) -> dict[str, Any]:
    """Our message as keyword arguments for the library's class; a tagged field at its default is left out, as we do."""
    ours = [(field, getattr(message, field.name)) for field in describe(type(message)) if field.present_in(version)]
    plain = [(field, value) for field, value in ours if field.tag is None]
    theirs = structure.untagged_fields(version)
    assert len(plain) == len(theirs)
    pairs = list(zip(theirs, (value for _, value in plain), strict=True))
    for field, value in ours:
        if field.tag is not None and value != default_of(field):
            (their,) = (f for f in structure.fields.values() if f.tag == field.tag and f.for_version_q(version))
            pairs.append((their, value))
    return {their.name: kafka_python_value(their, value, version) for their, value in pairs}


def kafka_python_value(field: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if field.is_struct():
        return field.data_class(version=version, **kafka_python_arguments(field, value, version))
    if field.is_struct_array():
        return [
            field.array_of.data_class(version=version, **kafka_python_arguments(field.array_of, item, version))
            for item in value
        ]
    if field.type_str == "bitfield":
        return {bit for bit in range(32) if value >> bit & 1}
    return value


def aiokafka_values(schema: Schema, message: Any, version: int) -> tuple[Any, ...]:
    fields = [f for f in describe(type(message)) if f.present_in(version) and f.tag is None]
    kinds = [kind for kind in schema.fields if kind is not TaggedFields]
    assert len(fields) == len(kinds)
    values: list[Any] = [
        aiokafka_value(kind, getattr(message, field.name), version) for kind, field in zip(kinds, fields, strict=True)
    ]
    return (*values, {}) if TaggedFields in schema.fields else tuple(values)


def aiokafka_value(kind: Any, value: Any, version: int) -> Any:
    """An array of structs with one field is an array of that field there."""
    if not isinstance(kind, Array) or value is None:
        return value
    if isinstance(kind.array_of, Schema):
        return [aiokafka_values(kind.array_of, item, version) for item in value]
    return [getattr(item, describe(type(item))[0].name) if is_dataclass(item) else item for item in value]


def without_tags(message: Any, version: int) -> Any:
    """aiokafka's tag sections are always empty."""
    for field in describe(type(message)):
        if field.tag is not None and field.present_in(version):
            setattr(message, field.name, default_of(field))
    return message


def shared(api: Api, library: dict[Position, Any]) -> list[tuple[type[Any], int, Any]]:
    return [
        (cls, version, library[position(api, cls, version)])
        for cls in (api.request, api.response)
        for version in api.versions
        if position(api, cls, version) in library
    ]


def apis_in(library: dict[Position, Any]) -> list[Api]:
    return [api for api in APIS.values() if shared(api, library)]


def name_of(api: Api) -> str:
    return api.key.name.lower()


@pytest.mark.parametrize("api", apis_in(KAFKA_PYTHON), ids=name_of)
@FEW
@given(data=st.data())
def test_bytes_are_those_of_kafka_python(api: Api, data: st.DataObject) -> None:
    for cls, version, theirs in shared(api, KAFKA_PYTHON):
        message = data.draw(messages(cls, version))
        arguments = kafka_python_arguments(theirs._struct, message, version)
        assert encode(message, version) == theirs(version=version, **arguments).encode(), (cls, version)


@pytest.mark.parametrize("api", apis_in(AIOKAFKA), ids=name_of)
@FEW
@given(data=st.data())
def test_bytes_are_those_of_aiokafka(api: Api, data: st.DataObject) -> None:
    for cls, version, theirs in shared(api, AIOKAFKA):
        if position(api, cls, version) not in AIOKAFKA_ERRS:
            message = without_tags(data.draw(messages(cls, version)), version)
            values = aiokafka_values(theirs.SCHEMA, message, version)
            assert encode(message, version) == theirs.SCHEMA.encode(values), (cls, version)


def test_most_messages_are_compared_with_another_implementation() -> None:
    with_kafka_python = sum(len(shared(api, KAFKA_PYTHON)) for api in APIS.values())
    with_aiokafka = sum(len(shared(api, AIOKAFKA)) for api in APIS.values()) - len(AIOKAFKA_ERRS)
    assert with_kafka_python >= 320
    assert with_aiokafka >= 199
    assert len(EVERY_MESSAGE) == 444
