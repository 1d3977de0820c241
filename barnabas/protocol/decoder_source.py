"""Writes the decoder of one message class and version: straight-line code, one `unpack` for each run of fixed fields.

The length in front of a string or an array belongs to the run before it, and so does the count of tagged fields behind
a struct. Reading past the end of a buffer raises in `struct` but not in a slice, so each length is checked before its
slice, and each count is held against the bytes that remain before its list exists.
"""

import struct
from typing import Any, Final

from barnabas.protocol.primitives import (
    MAX_TEXT_BYTES,
    Blob,
    Buffer,
    Fixed,
    InvalidLength,
    InvalidText,
    RecordSet,
    Text,
    TruncatedMessage,
    WireError,
    read_uvarint,
)
from barnabas.protocol.schema import ArrayOf, Field, Kind, StructOf, describe, versions_of
from barnabas.protocol.source import Source, least_bytes, size_of

_ITEM: Final = "items of "
_UNBOUNDED: Final = 2**60
"""What compiled code has in a register."""


def write_decoder(cls: type[Any], version: int, name: str = "decode") -> Source:
    """Return what is the function (buf, pos, budget) -> (message, position after it) for a version of the class.

    `budget` bounds the items of all its arrays together; left out, the bytes alone do.
    """
    return _Decoder(cls, version).write(name)


def skip_tagged_fields(buf: Buffer, pos: int, limit: int) -> int:
    """Return the position after the tag section that starts at `pos`; none of its tags is known."""
    count, pos = read_uvarint(buf, pos)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > limit:
            raise bad_length("a tagged field", size, limit - pos + size)
    return pos


def bad_length(what: str, length: int, remaining: int) -> WireError:
    """Return the error for a length or count of which only `remaining` bytes are there, or that cannot be at all."""
    if length < 0:
        return InvalidLength(f"{what}: length {length}")
    return TruncatedMessage(f"{what}: length {length} with {remaining} bytes left")


def text_too_long(what: str, length: int) -> WireError:
    """Return the error for a string longer than the classic length could say."""
    return InvalidLength(f"{what}: a string of {length} bytes")


def too_many(what: str) -> WireError:
    """Return the error for a message that has more items in its arrays, in all, than it was given room for."""
    return InvalidLength(f"{what}: the message has more items than are taken")


def wrong_tag_size(what: str, size: int) -> WireError:
    """Return the error for a tagged field that does not fill the bytes it announces."""
    return InvalidLength(f"{what}: its tag announces {size} bytes, its content takes another number")


class _Decoder:
    def __init__(self, cls: type[Any], version: int) -> None:
        self._cls = cls
        self._version = version
        self._flexible = versions_of(cls).is_flexible(version)
        self._run: list[tuple[str, str]] = []
        self._typed: set[str] = set()
        self._source = Source(
            f"decoder of {cls.__name__} v{version}",
            InvalidText=InvalidText,
            TruncatedMessage=TruncatedMessage,
            bad_length=bad_length,
            new=object.__new__,
            read_uvarint=read_uvarint,
            skip_tagged_fields=skip_tagged_fields,
            struct_error=struct.error,
            text_too_long=text_too_long,
            too_many=too_many,
            unpack_from=struct.unpack_from,
            wrong_tag_size=wrong_tag_size,
        )

    def write(self, name: str) -> Source:
        title = f"{self._cls.__name__} v{self._version}"
        line = self._source.line
        line(0, f"def {name}(buf: Any, pos: int, budget: int = {_UNBOUNDED}) -> tuple[Any, int]:")
        line(1, "limit = len(buf)")
        line(1, "try:")
        self._struct(2, self._cls, "message")
        line(2, "return message, pos")
        line(1, "except struct_error:")
        line(2, f"raise TruncatedMessage('{title} ends early') from None")
        line(1, "except UnicodeDecodeError as error:")
        line(2, f"raise InvalidText(f'{title}: {{error}}') from None")
        return self._source

    def _struct(self, depth: int, cls: type[Any], target: str) -> None:
        """Write lines that leave an instance of `cls` in the variable `target`.

        Every field is set here, so the class is not called: that would take longer than all the rest.
        """
        values: list[tuple[str, str]] = []
        tagged: list[tuple[Field, str]] = []
        for field in describe(cls):
            if not field.present_in(self._version):
                values.append((field.name, self._default(field)))
                continue
            variable = self._source.fresh(field.name)
            values.append((field.name, variable))
            if field.tag is None:
                self._value(depth, field, variable, f"{cls.__name__}.{field.name}")
            else:
                assert self._flexible, f"{cls.__name__}.{field.name} has a tag in a version without tags"
                tagged.append((field, variable))
        if self._flexible:
            count = self._source.fresh("tags")
            self._run.append((count, "B"))
            self._flush(depth)
            self._tag_section(depth, cls, count, tagged)
        else:
            self._flush(depth)
        self._source.line(depth, f"{target} = new({self._source.class_name(cls)})")
        for name, value in values:
            self._source.line(depth, f"{target}.{name} = {value}")

    def _default(self, field: Field) -> str:
        if isinstance(field.kind, StructOf):
            return f"{self._source.class_name(field.kind.cls)}()"
        return repr(field.default)

    def _tag_section(self, depth: int, cls: type[Any], count: str, tagged: list[tuple[Field, str]]) -> None:
        line = self._source.line
        for field, variable in tagged:
            line(depth, f"{self._declared(variable, 'Any')} = {self._default(field)}")
        line(depth, f"if {count}:")
        if not tagged:
            line(depth + 1, "pos = skip_tagged_fields(buf, pos - 1, limit)")
            return
        tag, size, end = (self._source.fresh(stem) for stem in ("tag", "size", "end"))
        line(depth + 1, f"{count}, pos = read_uvarint(buf, pos - 1)")
        line(depth + 1, f"for _ in range({count}):")
        line(depth + 2, f"{tag}, pos = read_uvarint(buf, pos)")
        line(depth + 2, f"{size}, pos = read_uvarint(buf, pos)")
        line(depth + 2, f"{end} = pos + {size}")
        line(depth + 2, f"if {end} > limit:")
        line(depth + 3, f"raise bad_length('a tagged field of {cls.__name__}', {size}, limit - pos)")
        for field, variable in tagged:
            label = f"{cls.__name__}.{field.name}"
            line(depth + 2, f"if {tag} == {field.tag}:")
            self._value(depth + 3, field, variable, label)
            self._flush(depth + 3)
            line(depth + 3, f"if pos != {end}:")
            line(depth + 4, f"raise wrong_tag_size('{label}', {size})")
        line(depth + 2, f"pos = {end}")

    def _value(self, depth: int, field: Field, target: str, label: str) -> None:
        nullable = field.nullable_in(self._version)
        self._of_kind(depth, field.kind, target, label, compact=self._flexible and field.compact, nullable=nullable)

    def _of_kind(self, depth: int, kind: Kind, target: str, label: str, *, compact: bool, nullable: bool) -> None:
        """Write lines that leave a value in `target`; one of fixed width stays in the run until the next flush."""
        if isinstance(kind, Fixed):
            self._run.append((target, kind.code))
        elif isinstance(kind, StructOf):
            self._struct(depth, kind.cls, target)
        else:
            code = "B" if compact else ("h" if isinstance(kind, Text) else "i")
            length = self._source.fresh("length")
            self._source.line(depth, self._declared(length, "int"))
            self._run.append((length, code))
            self._flush(depth)
            if compact:
                self._long_length(depth, kind, length, label)
            if nullable:
                self._source.line(depth, self._declared(target, "Any"))
                self._source.line(depth, f"if {length} == {0 if compact else -1}:")
                self._source.line(depth + 1, f"{target} = None")
                self._source.line(depth, "else:")
                depth += 1
            if compact:
                self._source.line(depth, f"{length} -= 1")
            if isinstance(kind, ArrayOf):
                self._array(depth, kind.item, target, length, label)
            else:
                self._slice(depth, kind, target, length, label)

    def _long_length(self, depth: int, kind: Kind, length: str, label: str) -> None:
        """A compact length was unpacked as one byte; where it takes more, read it again."""
        self._source.line(depth, f"if {length} > 127:")
        self._source.line(depth + 1, f"{length}, pos = read_uvarint(buf, pos - 1)")
        if isinstance(kind, Text):
            self._source.line(depth + 1, f"if {length} > {MAX_TEXT_BYTES + 1}:")
            self._source.line(depth + 2, f"raise text_too_long('{label}', {length} - 1)")

    def _slice(self, depth: int, kind: Text | Blob | RecordSet, target: str, length: str, label: str) -> None:
        end = self._source.fresh("end")
        self._source.line(depth, f"{end} = pos + {length}")
        self._source.line(depth, f"if {length} < 0 or {end} > limit:")
        self._source.line(depth + 1, f"raise bad_length('{label}', {length}, limit - pos)")
        if isinstance(kind, Text):
            value = f"str(buf[pos:{end}], 'utf-8')"
        elif isinstance(kind, Blob):
            value = f"bytes(buf[pos:{end}])"
        else:
            value = f"memoryview(buf)[pos:{end}]"
        self._source.line(depth, f"{target} = {value}")
        self._source.line(depth, f"pos = {end}")

    def _array(self, depth: int, item: Kind, target: str, count: str, label: str) -> None:
        least = least_bytes(item, self._version, flexible=self._flexible)
        assert least > 0, f"{label}: nothing would bound the count of items that take no bytes"
        line = self._source.line
        line(depth, f"if {count} < 0 or {count} * {least} > limit - pos:")
        line(depth + 1, f"raise bad_length('{_ITEM}{label}', {count}, limit - pos)")
        line(depth, f"budget -= {count}")
        line(depth, "if budget < 0:")
        line(depth + 1, f"raise too_many('{_ITEM}{label}')")
        if isinstance(item, Fixed):
            line(depth, f"{target} = list(unpack_from(f'>{{{count}}}{item.code}', buf, pos))")
            line(depth, f"pos += {count} * {least}")
            return
        element = self._source.fresh("item")
        line(depth, f"{self._declared(target, 'list[Any]')} = []")
        line(depth, f"for _ in range({count}):")
        self._of_kind(depth + 1, item, element, _ITEM + label, compact=self._flexible, nullable=False)
        line(depth + 1, f"{target}.append({element})")

    def _declared(self, variable: str, of: str) -> str:
        """The variable, where it is named first with its type: compiled, a length is no object then."""
        if variable in self._typed:
            return variable
        self._typed.add(variable)
        return f"{variable}: {of}"

    def _flush(self, depth: int) -> None:
        """Unpack the run of fixed fields that is waiting."""
        if not self._run:
            return
        names = ", ".join(name for name, _ in self._run)
        codes = "".join(code for _, code in self._run)
        self._run.clear()
        comma = "," if "," not in names else ""
        self._source.line(depth, f"{names}{comma} = {self._source.unpack(codes)}(buf, pos)")
        self._source.line(depth, f"pos += {size_of(codes)}")
