"""Writes the encoder of one message class and version: straight-line code, one `pack` for each run of fixed fields.

A response's encoder can also make its whole frame: size and correlation id stand in front.

Parts are collected in a list and joined once. Record sets are not copied: what came before one is joined, then the
record set itself follows as an element of its own. A value that the version lacks is refused unless it is the default
or its field is ignorable.
"""

import struct
from typing import Any

from barnabas.protocol.primitives import (
    MAX_TEXT_BYTES,
    Blob,
    Fixed,
    InvalidText,
    RecordSet,
    Text,
    UnrepresentableField,
    uvarint,
)
from barnabas.protocol.schema import NEVER, ArrayOf, Field, Kind, StructOf, describe, versions_of
from barnabas.protocol.source import Source


def write_encoder(cls: type[Any], version: int, name: str = "encode") -> Source:
    """Return what is the function (message, bytes to put first) -> parts for a version that the class declares."""
    return _Encoder(cls, version, "encoder").write(name)


def write_framer(cls: type[Any], version: int, name: str = "frame", *, tagged_header: bool) -> Source:
    """Return what is the function (response, correlation id) -> parts of its whole frame."""
    return _Encoder(cls, version, "framer").write_framer(name, tagged_header=tagged_header)


def absent(what: str, version: int) -> UnrepresentableField:
    """Return the error for a value that the version has no place for."""
    return UnrepresentableField(f"{what} is set, but version {version} has no such field")


def not_nullable(what: str, version: int) -> UnrepresentableField:
    """Return the error for a null that the version cannot say."""
    return UnrepresentableField(f"{what} is null, which version {version} does not allow")


def unrepresentable_text(what: str, length: int) -> UnrepresentableField:
    """Return the error for a string longer than any version can carry."""
    return UnrepresentableField(f"{what}: a string of {length} bytes")


def join_tagged_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """Return a tag section: the count, then tag, size and content of each."""
    parts = [uvarint(len(fields))]
    for tag, content in fields:
        parts += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(parts)


class _Encoder:
    def __init__(self, cls: type[Any], version: int, what: str) -> None:
        self._cls = cls
        self._version = version
        self._flexible = versions_of(cls).is_flexible(version)
        self._run: list[tuple[str, str]] = []
        self._append = "parts.append"
        self._source = Source(
            f"{what} of {cls.__name__} v{version}",
            InvalidText=InvalidText,
            UnrepresentableField=UnrepresentableField,
            absent=absent,
            join=b"".join,
            join_tagged_fields=join_tagged_fields,
            not_nullable=not_nullable,
            pack=struct.pack,
            struct_error=struct.error,
            unrepresentable_text=unrepresentable_text,
            uvarint=uvarint,
        )

    def write(self, name: str) -> Source:
        line = self._source.line
        line(0, f"def {name}(message: Any, first: bytes) -> list[Any]:")
        if self._body("first"):
            line(1, "if parts:")
            line(2, "done.append(join(parts))")
            line(1, "return done")
        else:
            line(1, "return [join(parts)]")
        return self._source

    def write_framer(self, name: str, *, tagged_header: bool) -> Source:
        line = self._source.line
        pack_head = self._source.pack("iix" if tagged_header else "ii")
        header_bytes = 5 if tagged_header else 4
        line(0, f"def {name}(message: Any, correlation_id: int) -> list[Any]:")
        if self._body("b''"):
            line(1, "if parts:")
            line(2, "done.append(join(parts))")
            line(1, f"done[0] = {pack_head}({header_bytes} + sum(map(len, done)), correlation_id) + done[0]")
            line(1, "return done")
        else:
            line(1, f"parts[0] = {pack_head}({header_bytes} + sum(map(len, parts)), correlation_id)")
            line(1, "return [join(parts)]")
        return self._source

    @property
    def _title(self) -> str:
        return f"{self._cls.__name__} v{self._version}"

    def _body(self, first: str) -> bool:
        """Write lines that leave the message in `done` and `parts`, in that order; without records there is no `done`.

        Returns whether it may have any.
        """
        line = self._source.line
        has_records = _has_records(self._cls, self._version)
        if has_records:
            line(1, "done: list[Any] = []")
        line(1, "try:")
        line(2, f"parts = [{first}]")
        self._struct(2, self._cls, "message")
        self._flush(2)
        line(1, "except struct_error as error:")
        line(2, f"raise UnrepresentableField(f'{self._title}: {{error}}') from None")
        line(1, "except UnicodeEncodeError as no_text:")
        line(2, f"raise InvalidText(f'{self._title}: {{no_text}}') from None")
        return has_records

    def _struct(self, depth: int, cls: type[Any], holder: str) -> None:
        """Write lines that append the struct that the expression `holder` is; a run may stay open behind it."""
        tagged: list[tuple[Field, str, str]] = []
        for field in describe(cls):
            value, label = f"{holder}.{field.name}", f"{cls.__name__}.{field.name}"
            if not field.present_in(self._version):
                if not field.ignorable:
                    self._source.line(depth, f"if {_is_set(field, value)}:")
                    self._source.line(depth + 1, f"raise absent('{label}', {self._version})")
            elif field.tag is None:
                self._value(depth, field, value, label)
            else:
                tagged.append((field, value, label))
        if tagged:
            self._tag_section(depth, tagged)
        elif self._flexible:
            self._run.append(("", "x"))

    def _tag_section(self, depth: int, tagged: list[tuple[Field, str, str]]) -> None:
        self._flush(depth)
        outer, line = self._append, self._source.line
        fields = self._source.fresh("tagged")
        line(depth, f"{fields}: list[tuple[int, bytes]] = []")
        for field, value, label in sorted(tagged, key=lambda entry: entry[0].tag or 0):
            content = self._source.fresh("content")
            self._append = f"{content}.append"
            line(depth, f"if {_is_set(field, value)}:")
            line(depth + 1, f"{content}: list[bytes] = []")
            self._value(depth + 1, field, value, label)
            self._flush(depth + 1)
            line(depth + 1, f"{fields}.append(({field.tag}, join({content})))")
        self._append = outer
        line(depth, f"{outer}(join_tagged_fields({fields}) if {fields} else b'\\0')")

    def _value(self, depth: int, field: Field, value: str, label: str) -> None:
        if isinstance(field.kind, Fixed):
            self._run.append((value, field.kind.code))
        elif isinstance(field.kind, StructOf):
            self._struct(depth, field.kind.cls, value)
        else:
            nullable = field.nullable_in(self._version)
            held = self._source.fresh(field.name)
            self._source.line(depth, f"{held} = {value}")
            if not nullable and field.nullable_since < NEVER:
                self._source.line(depth, f"if {held} is None:")
                self._source.line(depth + 1, f"raise not_nullable('{label}', {self._version})")
            self._sized(depth, field.kind, held, label, compact=self._flexible and field.compact, nullable=nullable)

    def _sized(
        self,
        depth: int,
        kind: Text | Blob | RecordSet | ArrayOf,
        value: str,
        label: str,
        *,
        compact: bool,
        nullable: bool,
    ) -> None:
        """Append a value behind its length, which joins the run of fixed fields in front of it."""
        line = self._source.line
        if isinstance(kind, Text):
            raw = self._source.fresh("raw")
            line(depth, f"{raw} = {value}.encode()" + (f" if {value} is not None else b''" if nullable else ""))
        else:
            raw = value
        length = self._source.fresh("length")
        counted, null = (f"len({raw}) + 1", 0) if compact else (f"len({raw})", -1)
        line(depth, f"{length} = {counted}" + (f" if {value} is not None else {null}" if nullable else ""))
        if compact:
            self._flush_with_compact_length(depth, kind, length, label)
        else:
            self._run.append((length, "h" if isinstance(kind, Text) else "i"))
            self._flush(depth)
        if isinstance(kind, ArrayOf):
            self._items(depth, kind.item, value, label, nullable=nullable)
        elif isinstance(kind, RecordSet):
            line(depth, f"if {length} > {1 if compact else 0}:")
            line(depth + 1, "done.append(join(parts))")
            line(depth + 1, "parts.clear()")
            line(depth + 1, f"done.append({value})")
        elif isinstance(kind, Text) or not nullable:
            line(depth, f"{self._append}({raw})")
        else:
            line(depth, f"if {value} is not None:")
            line(depth + 1, f"{self._append}({value})")

    def _items(self, depth: int, item: Kind, items: str, label: str, *, nullable: bool) -> None:
        assert not self._run
        if isinstance(item, Fixed):
            self._source.line(depth, f"if {items}:")
            self._source.line(depth + 1, f"{self._append}(pack(f'>{{len({items})}}{item.code}', *{items}))")
            return
        if nullable:
            self._source.line(depth, f"if {items} is not None:")
            depth += 1
        element = self._source.fresh("item")
        self._source.line(depth, f"for {element} in {items}:")
        if isinstance(item, StructOf):
            self._struct(depth + 1, item.cls, element)
            self._flush(depth + 1)
        else:
            self._sized(depth + 1, item, element, f"items of {label}", compact=self._flexible, nullable=False)

    def _flush_with_compact_length(self, depth: int, kind: Kind, length: str, label: str) -> None:
        """Pack a compact length together with the run in front of it while it fits one byte."""
        waiting = list(self._run)
        self._source.line(depth, f"if {length} < 128:")
        self._run.append((length, "B"))
        self._flush(depth + 1)
        self._source.line(depth, "else:")
        if isinstance(kind, Text):
            self._source.line(depth + 1, f"if {length} > {MAX_TEXT_BYTES + 1}:")
            self._source.line(depth + 2, f"raise unrepresentable_text('{label}', {length} - 1)")
        self._run = waiting
        self._flush(depth + 1)
        self._source.line(depth + 1, f"{self._append}(uvarint({length}))")

    def _flush(self, depth: int) -> None:
        """Pack the run of fixed fields that is waiting."""
        if not self._run:
            return
        values = ", ".join(value for value, _ in self._run if value)
        codes = "".join(code for _, code in self._run)
        self._run.clear()
        packed = f"{self._source.pack(codes)}({values})" if values else repr(bytes(len(codes)))
        self._source.line(depth, f"{self._append}({packed})")


def _has_records(cls: type[Any], version: int) -> bool:
    kinds = [field.kind for field in describe(cls) if field.present_in(version)]
    kinds = [kind.item if isinstance(kind, ArrayOf) else kind for kind in kinds]
    return any(
        isinstance(kind, RecordSet) or (isinstance(kind, StructOf) and _has_records(kind.cls, version))
        for kind in kinds
    )


def _is_set(field: Field, value: str) -> str:
    """Return the condition under which a field does not hold its default."""
    if isinstance(field.kind, StructOf):
        return " or ".join(_is_set(inner, f"{value}.{inner.name}") for inner in describe(field.kind.cls))
    return f"{value} is not None" if field.default is None else f"{value} != {field.default!r}"
