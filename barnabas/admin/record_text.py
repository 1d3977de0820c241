"""Records as lines of text and as JSON lines, both ways.

A JSON line holds `topic`, `partition`, `offset`, `timestamp`, `key`, `value` and `headers`. Bytes that are UTF-8 stand
as text; others in base64 under `key_base64`, `value_base64`. Headers are a list, as a name may come twice. What
`consume` prints `produce` reads; it does not look at topic and offset, and at the partition only where it is told to.
"""

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from barnabas.client.fetched_records import FetchedRecords
from barnabas.protocol.records import Headers, Record

_BASE64: Final = "_base64"
_FIELDS: Final = frozenset(
    {"topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers"}
)
_HEADER_FIELDS: Final = frozenset({"key", "value", "value_base64"})
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class RecordSyntax(ValueError):
    """The text is not a record."""


class Outgoing(NamedTuple):
    """A record to be sent; time and partition are the producer's choice where None."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    partition: int | None = None


@dataclass(slots=True)
class LineShape:
    """How a line of text becomes a record. What equals `null` is null."""

    key_separator: bytes | None = None
    null: bytes | None = None
    key: bytes | None = None
    headers: Headers = field(default=())
    timestamp: int | None = None
    partition: int | None = None

    def parse(self, line: bytes) -> Outgoing:
        """Make a record of a line. Raises RecordSyntax where the separator of key and value is missing."""
        key: bytes | None = self.key
        value: bytes | None = line
        if self.key_separator is not None:
            key, separator, value = line.partition(self.key_separator)
            if not separator:
                raise RecordSyntax(f"no key separator {self.key_separator.decode(errors='replace')!r}")
            key = None if key == self.null else key
        return Outgoing(key, None if value == self.null else value, self.headers, self.timestamp, self.partition)


def unescape(text: str) -> bytes:
    r"""A separator as typed: \n, \t, \r, \0 and \\ stand for what they do in C."""
    found, at = "", 0
    while at < len(text):
        pair = text[at : at + 2]
        found += _ESCAPES.get(pair, text[at])
        at += 2 if pair in _ESCAPES else 1
    return found.encode("utf-8", "surrogateescape")


def parse_json_line(line: bytes, defaults: LineShape, *, keep_partition: bool) -> Outgoing | None:
    """Make a record of a JSON line; what it lacks `defaults` gives. None for a blank line. Raises RecordSyntax."""
    if not line.strip():
        return None
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise RecordSyntax(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RecordSyntax("not a JSON object")
    if unknown := sorted(fields.keys() - _FIELDS):
        raise RecordSyntax(f"unknown field {unknown[0]!r}; {', '.join(sorted(_FIELDS))} are known")
    headers = fields.get("headers")
    return Outgoing(
        key=_bytes_of(fields, "key") if {"key", "key_base64"} & fields.keys() else defaults.key,
        value=_bytes_of(fields, "value"),
        headers=defaults.headers if headers is None else _parse_headers(headers),
        timestamp=_int_of(fields, "timestamp", defaults.timestamp),
        partition=_int_of(fields, "partition", defaults.partition) if keep_partition else defaults.partition,
    )


def _parse_headers(headers: Any) -> Headers:
    if not isinstance(headers, list):
        raise RecordSyntax("headers is not a list")
    parsed: list[tuple[str, bytes | None]] = []
    for header in headers:
        if not isinstance(header, dict) or not isinstance(header.get("key"), str) or header.keys() - _HEADER_FIELDS:
            raise RecordSyntax("a header is an object with key and value or value_base64")
        _utf8(header["key"])
        parsed.append((header["key"], _bytes_of(header, "value")))
    return tuple(parsed)


def _bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(name + _BASE64)
    if encoded is not None:
        if fields.get(name) is not None:
            raise RecordSyntax(f"{name} and {name}{_BASE64} exclude each other")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RecordSyntax(f"{name}{_BASE64} is not base64") from None
    value = fields.get(name)
    if value is None:
        return None
    return _utf8(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise RecordSyntax("a text holds half of a surrogate pair") from None


def _int_of(fields: dict[str, Any], name: str, default: int | None) -> int | None:
    value = fields.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 63):
        raise RecordSyntax(f"{name} is not a number: {value!r}")
    return value


def record_fields(fetched: FetchedRecords, record: Record) -> dict[str, Any]:
    """A record as the object of a JSON line."""
    topic, partition = fetched.topic_partition
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **bytes_fields("key", record.key),
        **bytes_fields("value", record.value),
        "headers": [{"key": name, **bytes_fields("value", value)} for name, value in record.headers],
    }


def bytes_fields(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes as a field with text where they are UTF-8, else as one with base64."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name + _BASE64: base64.b64encode(value).decode()}
