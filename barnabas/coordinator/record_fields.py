"""The fields that records of the coordinators' topics are made of, one after the other, big-endian.

Keys and values are structures with a version of two bytes in front. A text has a length of two bytes before its UTF-8,
-1 for null; bytes and arrays have a length or a count of four. Bytes behind the last field are left alone, as Kafka
leaves them. What these functions cannot read is NotDecodable, what cannot be written UnrepresentableField.
"""

import struct
from struct import Struct
from typing import Final

from barnabas.protocol.primitives import MAX_TEXT_BYTES, UnrepresentableField

_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_NULL: Final = b"\xff\xff"


class NotDecodable(ValueError):
    """The record is none of that topic, or of a version that is not known."""


class FieldReader:
    """Takes the fields of one structure in their order. Every method raises NotDecodable where the bytes end early."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def i8(self) -> int:
        return self._number(_I8)

    def i16(self) -> int:
        return self._number(_I16)

    def i32(self) -> int:
        return self._number(_I32)

    def i64(self) -> int:
        return self._number(_I64)

    def text(self) -> str:
        """A text that may not be null; what is not UTF-8 is replaced, as Java does."""
        return self.take(self.i16()).decode("utf-8", "replace")

    def nullable_text(self) -> str | None:
        size = self.i16()
        return None if size < 0 else self.take(size).decode("utf-8", "replace")

    def block(self) -> bytes:
        """Bytes behind a length of four."""
        return self.take(self.i32())

    def count(self) -> int:
        """How many elements an array has: no more than bytes are left, since each takes one at least."""
        count = self.i32()
        if not 0 <= count <= len(self._data) - self._at:
            raise NotDecodable(f"{count} elements cannot stand at byte {self._at} of {len(self._data)}")
        return count

    def nullable_count(self) -> int:
        """The count of an array that may be null, which counts as none."""
        if self._data[self._at : self._at + 4] == b"\xff\xff\xff\xff":
            self._at += 4
            return 0
        return self.count()

    def take(self, size: int) -> bytes:
        """So many bytes as they are."""
        if not 0 <= size <= len(self._data) - self._at:
            raise NotDecodable(f"{size} bytes cannot stand at byte {self._at} of {len(self._data)}")
        self._at += size
        return bytes(self._data[self._at - size : self._at])

    def version(self, highest: int, what: str) -> int:
        """The version in front of a structure."""
        version = self.i16()
        if not 0 <= version <= highest:
            raise NotDecodable(f"{what} of version {version}, known are 0 to {highest}")
        return version

    def _number(self, form: Struct) -> int:
        try:
            (value,) = form.unpack_from(self._data, self._at)
        except struct.error:
            raise NotDecodable(f"{len(self._data)} bytes end within a field at byte {self._at}") from None
        self._at += form.size
        return int(value)


def i32(value: int) -> bytes:
    """A number of four bytes."""
    return _I32.pack(value)


def text(value: str) -> bytes:
    """A text with its length."""
    data = value.encode()
    if len(data) > MAX_TEXT_BYTES:
        raise UnrepresentableField(f"a text of {len(data)} bytes, a record holds {MAX_TEXT_BYTES}")
    return _I16.pack(len(data)) + data


def nullable_text(value: str | None) -> bytes:
    """A text with its length, or null."""
    return _NULL if value is None else text(value)


def block(value: bytes) -> bytes:
    """Bytes with their length."""
    return _I32.pack(len(value)) + value
