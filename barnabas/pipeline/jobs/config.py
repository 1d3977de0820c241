"""The configuration of a job: a TOML file and what the command line sets over it, as a value of the job's own type.

A key that the type does not have is refused by name, as is a value of another kind: what is accepted acts.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")

_DEEPEST: Final = 8
_PLACE: Final = re.compile(r" - at `\$(.*)`$")
_DURATION: Final = re.compile(r"(\d{1,9})\s*(ms|s|m|h|d)", re.ASCII)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class ConfigError(ValueError):
    """A configuration that cannot be taken; the text names file, key and value, and what would do."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster: brokers as `host:port` with commas between, and settings of its client, with or without `kafka.`."""

    bootstrap_servers: str
    options: dict[str, str] = msgspec.field(default_factory=dict)

    def client_options(self) -> dict[str, str]:
        """Address and settings as the options `kafka.*` of our sources and sinks."""
        settings = {f"kafka.{name.removeprefix('kafka.')}": value for name, value in self.options.items()}
        return {**settings, "kafka.bootstrap.servers": self.bootstrap_servers}


class SparkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Spark runs, None for this machine or, under spark-submit, where that says; and settings `spark.*`."""

    master: str | None = None
    settings: dict[str, str] = msgspec.field(default_factory=dict)


def load_config(path: Path, overrides: Iterable[str], kind: type[T]) -> T:
    """Read a file, then `a.b=value` each, its value as in TOML or else text.

    Raises ConfigError, and OSError of the file.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no TOML file: {error}") from None
    for override in overrides:
        _set(table, override)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}{_what_would_do(str(error), kind)}") from None


def _what_would_do(error: str, kind: type) -> str:
    """What may stand where msgspec found something else, as far as that is a list of names."""
    if error.startswith("Expected `str`, got `"):
        return "; put it into quotes"
    found = _PLACE.search(error)
    place = inspect.type_info(kind)
    for name in re.findall(r"\.(\w+)|\[", found[1] if found else ""):
        place = _within(place, name)
    match place:
        case inspect.LiteralType(values) if error.startswith("Invalid enum value"):
            return f"; it must be one of {', '.join(map(str, values))}"
        case inspect.StructType() if error.startswith("Object contains unknown field"):
            return f"; these are known: {', '.join(field.encode_name for field in place.fields)}"
    return ""


def _within(place: inspect.Type, name: str) -> inspect.Type:
    """The type of a field, or of the items where there is no name."""
    match _without_none(place):
        case inspect.StructType(fields=fields) if name:
            return _without_none(next(each.type for each in fields if each.encode_name == name))
        case (
            inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) | inspect.DictType(value_type=item)
        ):
            return item
    return inspect.AnyType()


def _without_none(place: inspect.Type) -> inspect.Type:
    if isinstance(place, inspect.UnionType):
        return next(each for each in place.types if not isinstance(each, inspect.NoneType))
    return place


def to_json(config: Any) -> Any:
    """A configuration as JSON takes it, for the report."""
    return json.loads(msgspec.json.encode(config))


def refuse(key: str, value: object, why: str) -> NoReturn:
    """Raise ConfigError for a value that cannot be."""
    raise ConfigError(f"{key} = {value!r}: {why}")


def duration_ms(key: str, text: str) -> int:
    """A time such as 30s, 15m, 1h or 7d. Raises ConfigError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        refuse(key, text, "it must be a time such as 30s, 15m, 1h or 7d")
    return int(found[1]) * _UNITS_MS[found[2]]


def _set(table: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not equals or not all(names) or len(names) > _DEEPEST:
        raise ConfigError(f"{override!r} sets nothing: write section.key=value")
    for depth, name in enumerate(names[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{override!r}: {'.'.join(names[:depth])} is a value, not a section")
    table[names[-1]] = _value(text.strip())


def _value(text: str) -> Any:
    """What TOML makes of it, and text where it makes nothing of it: who types `--set path=/lake` types no quotes."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could have made keys of its own.
    return parsed["value"] if parsed.keys() == {"value"} else text
