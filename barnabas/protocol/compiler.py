"""Messages to bytes and back. A class is compiled once per version, on first use.

`decode` and `encode` trust their own side: the version must be one that the class declares, which the caller has
checked against the table of APIs. They trust nothing in the bytes: whatever a peer sends, the result is a message or a
`WireError`, and no allocation exceeds what the bytes at hand can account for.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar, cast

from barnabas.protocol.decoder_source import write_decoder
from barnabas.protocol.encoder_source import write_encoder, write_framer
from barnabas.protocol.primitives import Buffer, SizedRecords, TrailingBytes
from barnabas.protocol.schema import versions_of
from barnabas.protocol.written_codecs import DECODERS, ENCODERS, FRAMERS

T = TypeVar("T")

Decode: TypeAlias = Callable[..., tuple[Any, int]]
"""(buf, pos, budget of items in arrays) -> (message, position after it)"""

DecodeWhole: TypeAlias = Callable[..., Any]
"""(buf, pos) -> the message that fills it from there on"""

Encode: TypeAlias = Callable[[Any, bytes], list[bytes | SizedRecords]]
"""(message, bytes to put first) -> pieces"""

Frame: TypeAlias = Callable[[Any, int], list[bytes | SizedRecords]]
"""(response, correlation id) -> its whole frame, size and header included, as pieces to be sent in order"""


def decode(cls: type[T], version: int, buf: Buffer, pos: int = 0) -> tuple[T, int]:
    """Return the message that starts at `pos` and the position after it. Raises WireError.

    A `Records` field holds a memoryview over `buf`, so that `buf` lives as long as the message.
    """
    return cast("tuple[T, int]", decoder(cls, version)(buf, pos))


def decode_whole(cls: type[T], version: int, buf: Buffer, pos: int = 0) -> T:
    """Return the message that fills the buffer from `pos` on. Raises WireError; TrailingBytes where it does not."""
    return cast("T", whole_decoder(cls, version)(buf, pos))


def whole_decoder(cls: type[Any], version: int) -> DecodeWhole:
    """Return the function of `decode_whole` for a class and version, for who decodes many."""
    decode_one = decoder(cls, version)

    def decode_all(buf: Buffer, pos: int = 0) -> Any:
        decoded, end = decode_one(buf, pos)
        if end != len(buf):
            raise TrailingBytes(f"{len(buf) - end} bytes behind {cls.__name__} v{version}")
        return decoded

    return decode_all


def encode(message: object, version: int) -> bytes:
    """Return the message as bytes; its record sets are copied. Raises UnrepresentableField and InvalidText.

    A record set must be bytes here, not a stretch of a file.
    """
    parts = encode_parts(message, version)
    return cast("bytes", parts[0]) if len(parts) == 1 else b"".join(cast("list[bytes]", parts))


def encode_parts(message: object, version: int, *, first: bytes = b"") -> list[bytes | SizedRecords]:
    """Return the message as pieces to be sent in order: each non-empty record set is an element of its own, not copied.

    `first` stands in front of the message in the first piece. Raises UnrepresentableField and InvalidText.
    """
    return encoder(type(message), version)(message, first)


def _decoder(cls: type[Any], version: int) -> Decode:
    assert version in versions_of(cls).versions, f"{cls.__name__} has no version {version}"
    return DECODERS.get((cls, version)) or write_decoder(cls, version).compile()


def _encoder(cls: type[Any], version: int) -> Encode:
    assert version in versions_of(cls).versions, f"{cls.__name__} has no version {version}"
    return ENCODERS.get((cls, version)) or write_encoder(cls, version).compile()


def _framer(cls: type[Any], version: int, *, tagged_header: bool) -> Frame:
    assert version in versions_of(cls).versions, f"{cls.__name__} has no version {version}"
    return FRAMERS.get((cls, version)) or write_framer(cls, version, tagged_header=tagged_header).compile()


decoder: Final = cast("Callable[[type[Any], int], Decode]", functools.cache(_decoder))
"""The compiled decoder of a class and version."""

encoder: Final = cast("Callable[[type[Any], int], Encode]", functools.cache(_encoder))
"""The compiled encoder of a class and version."""

framer: Final = cast("Callable[..., Frame]", functools.cache(_framer))
"""The compiled function that frames a response of a class and version, whose header has tags or has not."""
