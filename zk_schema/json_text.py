"""JSON as it stands in znodes: written compactly in UTF-8 as Kafka does, read with types checked. Pure.

Unknown keys are ignored. What cannot be read raises `InvalidPayload` with the znode's kind and the reason.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class InvalidPayload(Exception):
    """A znode's data is not what its kind of znode holds."""


def encode_json(value: Mapping[str, object]) -> bytes:
    """`value` as Jackson writes it: no blanks, no escapes of what UTF-8 can say."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class JsonObject:
    """An object read from a znode of `kind`; every getter raises InvalidPayload for what is missing or mistyped."""

    __slots__ = ("_kind", "_value")

    def __init__(self, kind: str, value: Json) -> None:
        if not isinstance(value, dict):
            raise InvalidPayload(f"{kind}: an object is wanted, not {value!r:.100}")
        self._kind = kind
        self._value = value

    @classmethod
    def parse(cls, kind: str, data: bytes) -> "JsonObject":
        try:
            return cls(kind, json.loads(data))
        except (ValueError, RecursionError) as error:
            raise InvalidPayload(f"{kind}: not JSON ({error}): {data!r:.100}") from error

    def __contains__(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._value.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def integer(self, key: str) -> int:
        value = self._value.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "an integer", value)
        return value

    def integer_text(self, key: str) -> int:
        """An integer written as a string, as Kafka does with 64-bit numbers; a plain one is read too."""
        value = self._value.get(key)
        if not isinstance(value, str):
            return self.integer(key)
        if not _DECIMAL.fullmatch(value):
            raise self._wrong(key, "an integer as text", value)
        return int(value)

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "text", value)
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if key in self else None

    def optional_flag(self, key: str) -> bool | None:
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        values = self._list(key)
        if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
            raise self._wrong(key, "a list of integers", values)
        return tuple(value for value in values if isinstance(value, int))

    def texts(self, key: str) -> tuple[str, ...]:
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(key, "a list of texts", values)
        return tuple(value for value in values if isinstance(value, str))

    def objects(self, key: str) -> list["JsonObject"]:
        return [JsonObject(f"{self._kind}.{key}", value) for value in self._list(key)]

    def object(self, key: str) -> "JsonObject":
        return JsonObject(f"{self._kind}.{key}", self._value.get(key))

    def optional_object(self, key: str) -> "JsonObject":
        """The object, or an empty one where the key is missing or null."""
        return self.object(key) if key in self else JsonObject(f"{self._kind}.{key}", {})

    def scalar_text(self, key: str) -> str:
        """A scalar as text: `true` and `1` are read where the text `"true"` or `"1"` is meant."""
        value = self._value.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float | str):
            return str(value)
        raise self._wrong(key, "a scalar", value)

    def _list(self, key: str) -> list[Json]:
        value = self._value.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return value

    def _wrong(self, key: str, wanted: str, value: Json) -> InvalidPayload:
        if key not in self._value:
            return InvalidPayload(f"{self._kind}: {key} is missing")
        return InvalidPayload(f"{self._kind}: {key} is to be {wanted}, not {value!r:.100}")


def decode_integer_text(kind: str, data: bytes | str) -> int:
    """Data, or a key, that is a decimal number and nothing else.

    Raises:
        InvalidPayload: it is not.
    """
    text = data if isinstance(data, str) else data.decode("latin-1")
    if not _DECIMAL.fullmatch(text):
        raise InvalidPayload(f"{kind}: a decimal number is wanted, not {data!r:.100}")
    return int(text)
