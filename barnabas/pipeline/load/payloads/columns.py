"""Types of payload fields: from Spark's and Avro's to Arrow's, which both kinds of table have."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from barnabas.pipeline.jobs.config import ConfigError

_DEEPEST: Final = 32

_SPARK: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

_AVRO: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}

_AVRO_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("string", "uuid"): pa.string(),
}


def from_spark(schema: Any, path: str = "schema") -> pa.DataType:
    """The type of a schema in Spark's JSON. Raises ConfigError."""
    if isinstance(schema, str):
        if schema in _SPARK:
            return _SPARK[schema]
        if schema.startswith("decimal(") and schema.endswith(")"):
            precision, _, scale = schema[len("decimal(") : -1].partition(",")
            return pa.decimal128(int(precision), int(scale))
        raise ConfigError(f"payload.{path}: {schema} is no type of a payload; these are: {', '.join(_SPARK)}, decimal")
    if not isinstance(schema, Mapping) or path.count(".") > _DEEPEST:
        raise ConfigError(f"payload.{path}: {schema!r} is no type")
    match schema.get("type"):
        case "struct":
            fields = _fields(schema, path)
            return pa.struct([pa.field(name, from_spark(kind, f"{path}.{name}")) for name, kind in fields])
        case "array":
            element = from_spark(schema.get("elementType"), f"{path}.element")
            return pa.list_(pa.field("element", element))
        case "map":
            if schema.get("keyType") != "string":
                raise ConfigError(f"payload.{path}: the keys of a map in JSON are texts, not {schema.get('keyType')}")
            return pa.map_(pa.string(), from_spark(schema.get("valueType"), f"{path}.value"))
    raise ConfigError(f"payload.{path}: {schema.get('type')!r} is no type of a payload")


def from_avro(schema: Any, path: str = "schema", within: tuple[str, ...] = ()) -> pa.DataType:
    """The type of an Avro schema that was parsed: names are resolved but for those that contain themselves.

    Raises ConfigError for what a table has no columns for: unions but of a type and null, and types within themselves.
    """
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise ConfigError(f"payload.{path}: a union of {len(others)} types is no column; one type and null is")
        return from_avro(others[0], path, within)
    kind: Any = schema if isinstance(schema, str) else schema.get("type")
    if isinstance(schema, str):
        if schema in _AVRO:
            return _AVRO[schema]
        raise ConfigError(f"payload.{path}: {schema} is no type of a payload, or one that contains itself")
    if isinstance(kind, Mapping | list):
        return from_avro(kind, path, within)
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if (kind, logical) in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[kind, logical]
    if logical in {"time-millis", "time-micros", "duration"}:
        raise ConfigError(f"payload.{path}: a table has no type for {logical}")
    match kind:
        case "record":
            if schema["name"] in within:
                raise ConfigError(f"payload.{path}: {schema['name']} contains itself, which no column can")
            inner = (*within, schema["name"])
            fields = [
                (each["name"], from_avro(each["type"], f"{path}.{each['name']}", inner)) for each in schema["fields"]
            ]
            if not fields:
                raise ConfigError(f"payload.{path}: a record without fields is no column")
            return pa.struct([pa.field(name, type_) for name, type_ in fields])
        case "array":
            return pa.list_(pa.field("element", from_avro(schema["items"], f"{path}.element", within)))
        case "map":
            return pa.map_(pa.string(), from_avro(schema["values"], f"{path}.value", within))
    return from_avro(kind, path, within)


def _fields(schema: Mapping[str, Any], path: str) -> list[tuple[str, Any]]:
    fields = [(each.get("name"), each.get("type")) for each in schema.get("fields", ())]
    names = [name for name, _ in fields]
    if not fields or len({str(name).lower() for name in names}) < len(names):
        raise ConfigError(f"payload.{path}: a struct needs fields, of different names: {names}")
    return fields
