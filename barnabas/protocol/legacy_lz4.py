"""The lz4 frame as message format 0 has it: the checksum of its descriptor is wrong, for good (KAFKA-3160).

The first clients took the checksum over the frame's magic too. Format 0 keeps it so: what is written has the wrong
one, and of what is read it is not looked at. Format 1 and batches have lz4's own.
"""

from typing import Final

from barnabas.protocol.batch import Buffer

_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLAGS_AT: Final = len(_FRAME_MAGIC)
_CONTENT_SIZE_BIT: Final = 0x08
_DICTIONARY_BIT: Final = 0x01

_MASK: Final = 0xFFFFFFFF
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def right_checksum(frame: Buffer) -> Buffer:
    """The frame with lz4's own checksum of its descriptor; what is no frame comes back as it is."""
    return _with_checksum(frame, covers_from=_FLAGS_AT)


def wrong_checksum(frame: Buffer) -> Buffer:
    """The frame with the checksum that format 0 has."""
    return _with_checksum(frame, covers_from=0)


def _with_checksum(frame: Buffer, *, covers_from: int) -> Buffer:
    if len(frame) <= _FLAGS_AT or bytes(frame[:_FLAGS_AT]) != _FRAME_MAGIC:
        return frame
    flags = frame[_FLAGS_AT]
    end = _FLAGS_AT + 2 + (8 if flags & _CONTENT_SIZE_BIT else 0) + (4 if flags & _DICTIONARY_BIT else 0)
    if len(frame) <= end:
        return frame
    data = bytearray(frame)
    data[end] = _xxh32(bytes(data[covers_from:end])) >> 8 & 0xFF
    return bytes(data)


def _xxh32(data: bytes) -> int:
    """The XXH32 hash with seed 0 of a few bytes (the specification's steps 4 to 7, which short input begins with)."""
    prime1, prime2, prime3, prime4, prime5 = _PRIMES
    value = prime5 + len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value = value + int.from_bytes(data[at : at + 4], "little") * prime3 & _MASK
        value = (value << 17 | value >> 15) * prime4 & _MASK
    for byte in data[whole:]:
        value = value + byte * prime5 & _MASK
        value = (value << 11 | value >> 21) * prime1 & _MASK
    value = (value ^ value >> 15) * prime2 & _MASK
    value = (value ^ value >> 13) * prime3 & _MASK
    return value ^ value >> 16
