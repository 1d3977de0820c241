"""Wire types, variable-length integers and the errors of the wire format.

Owns how one value looks on the wire. A wire type is a Python type annotated with a marker (`I32`, `Str`, `Records`):
type checkers see the Python type, the schema compiler reads the marker. What a message is made of is `schema`'s
business.

Every error here is a `WireError`: bytes of a peer that are no message, or a message of ours that a version cannot
carry.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Annotated, Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_TEXT_BYTES: Final = 0x7FFF
MAX_BYTES: Final = 0x7FFFFFFF
MAX_UVARINT: Final = 0xFFFFFFFF


class WireError(Exception):
    """Bytes that are no message, or a message that cannot become bytes."""


class TruncatedMessage(WireError):
    """The bytes end before the message does."""


class InvalidLength(WireError):
    """A length or a count that no message can have: negative, beyond the type's limit, or not that of its content."""


class InvalidText(WireError):
    """A string that is not UTF-8."""


class InvalidVarint(WireError):
    """A variable-length integer that does not end within the bytes that its type may take."""


class TrailingBytes(WireError):
    """Bytes are left after a message that should fill its frame."""


class UnknownApiKey(WireError):
    """A header names an API that is not in the table, so that not even the header's own version is known."""


class UnrepresentableField(WireError):
    """A value that the chosen version cannot carry and may not leave out."""


class SizedRecords(Protocol):
    """Record batches that are somewhere else, such as a stretch of a file; their length in bytes is known."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Marks a type of fixed width by its code in the `struct` module."""

    code: str


@dataclass(frozen=True, slots=True)
class Text:
    """Marks a UTF-8 string of at most 32767 bytes."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Marks a byte string that is copied out of the frame."""


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Marks record batches: a view over the frame when decoded, anything with a length when encoded."""


I8 = Annotated[int, Fixed("b")]
I16 = Annotated[int, Fixed("h")]
I32 = Annotated[int, Fixed("i")]
I64 = Annotated[int, Fixed("q")]
F64 = Annotated[float, Fixed("d")]
Bool = Annotated[bool, Fixed("?")]
Str = Annotated[str, Text()]
NullableStr = Annotated[str | None, Text()]
Bytes = Annotated[bytes, Blob()]
NullableBytes = Annotated[bytes | None, Blob()]
Records = Annotated[Buffer | SizedRecords | None, RecordSet()]

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
_TWO_BYTES: Final = Struct("BB").pack


def uvarint(value: int) -> bytes:
    """Encode an unsigned integer of at most 32 bits, seven bits to a byte, low bits first."""
    if value < 0x80:
        assert value >= 0
        return _ONE_BYTE[value]
    if value < 0x4000:
        return _TWO_BYTES(value & 0x7F | 0x80, value >> 7)
    assert value <= MAX_UVARINT
    return _septets(value)


def varint(value: int) -> bytes:
    """Encode a signed integer of at most 32 bits; zigzag puts the sign into the lowest bit."""
    assert -0x80000000 <= value <= 0x7FFFFFFF
    return _septets((value << 1) ^ (value >> 31))


def varlong(value: int) -> bytes:
    """Encode a signed integer of at most 64 bits; zigzag puts the sign into the lowest bit."""
    assert -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF
    return _septets((value << 1) ^ (value >> 63))


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the unsigned 32-bit integer at `pos` and the position after it.

    Raises TruncatedMessage where the bytes end first, InvalidVarint where it does not end within five bytes or 32 bits.
    """
    return _read_septets(buf, pos, 32)


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the signed 32-bit integer at `pos` and the position after it; errors as in `read_uvarint`."""
    value, pos = _read_septets(buf, pos, 32)
    return (value >> 1) ^ -(value & 1), pos


def read_varlong(buf: Buffer, pos: int) -> tuple[int, int]:
    """Return the signed 64-bit integer at `pos` and the position after it; it may take ten bytes."""
    value, pos = _read_septets(buf, pos, 64)
    return (value >> 1) ^ -(value & 1), pos


def _septets(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_septets(buf: Buffer, pos: int, bits: int) -> tuple[int, int]:
    value = 0
    try:
        for shift in range(0, bits, 7):
            byte = buf[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value, pos
    except IndexError:
        raise TruncatedMessage("a variable-length integer is cut off") from None
    raise InvalidVarint(f"a variable-length integer exceeds {bits} bits")
