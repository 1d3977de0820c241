"""What the driver finds out about payloads once, and hands to the tasks: types and schemas instead of files."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.load.config import PayloadConfig
from barnabas.pipeline.load.payloads.columns import from_spark
from barnabas.pipeline.load.payloads.decoding import PayloadDecoder, RawPayload


@dataclass(frozen=True)
class PayloadSpec:
    """How to read values: `struct` is JSON's, the Avro schemas are JSON documents that were read."""

    kind: str = "raw"
    struct: pa.DataType | None = None
    schema: Any = None
    writers: Mapping[int, Any] | None = field(default=None)


def new_decoder(spec: PayloadSpec) -> PayloadDecoder:
    """Raises ConfigError for a schema that cannot be used."""
    if spec.kind == "raw":
        return RawPayload()
    if spec.kind == "json":
        from barnabas.pipeline.load.payloads.json_payload import JsonPayload  # noqa: PLC0415 - only who needs it

        assert isinstance(spec.struct, pa.StructType)
        return JsonPayload(spec.struct)
    from barnabas.pipeline.load.payloads.avro_payload import AvroPayload  # noqa: PLC0415

    return AvroPayload(spec.schema, spec.writers)


def read_spec(config: PayloadConfig, parse_ddl: Callable[[str], str]) -> PayloadSpec:
    """Read the files that a configuration names; `parse_ddl` makes Spark's JSON of "user string, age int".

    Raises ConfigError.
    """
    if config.kind == "raw":
        return PayloadSpec()
    if config.kind == "json":
        text = config.schema if config.schema is not None else _text("payload.schema_file", config.schema_file)
        found = text.strip()
        struct = from_spark(_json("payload.schema", found if found.startswith("{") else parse_ddl(found)))
        if not pa.types.is_struct(struct):
            raise ConfigError(f"payload.schema is {struct}; values must be objects: say the fields")
        return PayloadSpec("json", struct)
    schema = _json("payload.schema_file", _text("payload.schema_file", config.schema_file))
    if config.kind == "avro":
        return PayloadSpec("avro", schema=schema)
    return PayloadSpec("confluent-avro", schema=schema, writers=_writers(config.schemas or ""))


def _writers(folder: str) -> dict[int, Any]:
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".avsc")]
    except OSError as error:
        raise ConfigError(f"payload.schemas = {folder!r} cannot be read: {error.strerror}") from None
    found = {}
    for name in names:
        number = name.removesuffix(".avsc")
        if not (number.isascii() and number.isdecimal()):
            raise ConfigError(f"payload.schemas has {name}; files are named by the schema's id, as 17.avsc")
        found[int(number)] = _json(f"payload.schemas, {name}", _text("payload.schemas", os.path.join(folder, name)))
    if not found:
        raise ConfigError(f"payload.schemas = {folder!r} has no schemas; put them there as 17.avsc, by id")
    return found


def _text(key: str, path: str | None) -> str:
    try:
        with open(path or "", encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key} = {path!r} cannot be read: {error}") from None


def _json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{key} is no JSON: {error}") from None
