"""Avro: a record in each value, alone or behind the five bytes with which Confluent's serialisers begin.

    0x00, id of the writer's schema (4 bytes, big-endian), the record

Alone, values were written with the one schema. Framed, each names its writer's schema, and is read as the one that the
table has by Avro's rules of resolution: fields are added with their defaults, left out, and widened.
"""

import io
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.load.payloads.columns import from_avro
from barnabas.pipeline.load.payloads.decoding import BadValue, Decoded, decode_each

_MAGIC: Final = 0
_FRAME_BYTES: Final = 5


class AvroPayload:
    """Reads values as `schema`; with `writers`, schemas by id, values are framed."""

    def __init__(self, schema: Any, writers: Mapping[int, Any] | None = None) -> None:
        """Raises ConfigError for a schema that cannot be used."""
        self._schema = parsed(schema, "payload.schema_file")
        self._writers = (
            None
            if writers is None
            else {key: parsed(each, f"payload.schemas, {key}.avsc") for key, each in writers.items()}
        )
        self.kind = from_avro(resolved(self._schema), "schema_file")
        if not pa.types.is_struct(self.kind):
            raise ConfigError(f"payload.schema_file: values must be records, not {self.kind}")

    def decode(self, values: pa.Array) -> Decoded:
        return decode_each(values, self.kind, self._read)

    def _read(self, value: bytes) -> Any:
        writer, begin = self._schema, 0
        if self._writers is not None:
            writer, begin = self._writer_of(value), _FRAME_BYTES
        content = io.BytesIO(value)
        content.seek(begin)
        try:
            found = schemaless_reader(content, writer, self._schema)
        except Exception as error:  # noqa: BLE001 - the library raises whatever it runs into
            raise BadValue(f"it is no record of the schema: {type(error).__name__}: {error}") from None
        left = len(value) - content.tell()
        if left:
            raise BadValue(f"{left} bytes follow the record")
        return found

    def _writer_of(self, value: bytes) -> Any:
        assert self._writers is not None
        if len(value) < _FRAME_BYTES or value[0] != _MAGIC:
            raise BadValue(f"it does not begin with 0 and an id of four bytes: {value[:_FRAME_BYTES].hex()}")
        number = int.from_bytes(value[1:_FRAME_BYTES], "big")
        writer = self._writers.get(number)
        if writer is None:
            raise BadValue(f"there is no schema {number}: put {number}.avsc into payload.schemas")
        return writer


def parsed(schema: Any, where: str) -> Any:
    """A schema as the library takes it. Raises ConfigError."""
    try:
        return parse_schema(schema, named_schemas={})
    except Exception as error:  # noqa: BLE001 - as above
        raise ConfigError(f"{where} is no Avro schema: {type(error).__name__}: {error}") from None


def resolved(schema: Any, known: dict[str, Any] | None = None) -> Any:
    """A parsed schema with each name that was used again replaced by what it stands for, but within itself."""
    known = {} if known is None else known
    if isinstance(schema, str):
        return known.get(schema, schema)
    if isinstance(schema, list):
        return [resolved(each, known) for each in schema]
    copied = dict(schema)
    kind = copied.get("type")
    if isinstance(kind, dict | list):
        copied["type"] = resolved(kind, known)
    elif isinstance(kind, str) and kind in known:
        return known[kind]
    if kind == "record":
        copied["fields"] = [{**each, "type": resolved(each["type"], known)} for each in copied["fields"]]
    for inner in ("items", "values"):
        if inner in copied:
            copied[inner] = resolved(copied[inner], known)
    if kind in {"record", "enum", "fixed"}:
        known[copied["name"]] = copied
    return copied
