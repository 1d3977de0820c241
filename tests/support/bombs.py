"""Decompression bombs: small batches that hold, or say that they hold, very much. Their checksums are right.

Each codec has one whose content is a single record of the announced size, so that a reader has no reason to stop
before it has read it all, and one whose content is no record at all.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.frame
import zstandard

from barnabas.protocol.batch import BatchHeader, Codec, frame
from barnabas.protocol.primitives import varint

MEBIBYTE: Final = 1024 * 1024
LARGEST_BYTES: Final = 16 * 1024
"""Batches of up to this size are always walked; a bomb has to be one of these to go off at the broker."""

_ZEROS: Final = bytes(MEBIBYTE)


def bombs() -> list[bytes]:
    """Batches, none greater than 16 KB."""
    made = [
        _batch(Codec.GZIP, _gzip(_one_record(15 * MEBIBYTE))),
        _batch(Codec.GZIP, _gzip(_zeros(15 * MEBIBYTE))),
        _batch(Codec.LZ4, _lz4(_one_record(3 * MEBIBYTE))),
        _batch(Codec.LZ4, _lz4(_zeros(3 * MEBIBYTE))),
        _batch(Codec.ZSTD, _zstd(_one_record(256 * MEBIBYTE))),
        _batch(Codec.ZSTD, _zstd(_zeros(256 * MEBIBYTE))),
        # A block of snappy begins with the size that it announces: here 2 GB and 512 MB.
        _batch(Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + bytes(16)),
        _batch(Codec.SNAPPY, _snappy_zeros(300 * 1024)),
        # The framing of snappy's Java library, with a block of the same kind.
        _batch(
            Codec.SNAPPY,
            b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x15\xff\xff\xff\xff\x01" + bytes(16),
        ),
    ]
    assert all(len(batch) <= LARGEST_BYTES for batch in made), [len(batch) for batch in made]
    return made


def bomb_of_one_record(codec: Codec, size_bytes: int, *, announces_newer: bool = False) -> bytes:
    """A batch with one record of about that size; it may be of any size itself.

    One that announces a second record, 10 ms newer, has to be inflated to its end by who looks for that.
    """
    compressors: dict[Codec, Callable[[Iterator[bytes]], bytes]] = {
        Codec.GZIP: _gzip,
        Codec.LZ4: _lz4,
        Codec.ZSTD: _zstd,
    }
    return _batch(codec, compressors[codec](_one_record(size_bytes)), announces_newer=announces_newer)


def _batch(codec: Codec, payload: bytes, *, announces_newer: bool = False) -> bytes:
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=int(announces_newer),
        first_timestamp=1_600_000_000_000,
        max_timestamp=1_600_000_000_000 + 10 * announces_newer,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1 + announces_newer,
    )
    return frame(header, payload)


def _zeros(size_bytes: int) -> Iterator[bytes]:
    for _ in range(size_bytes // MEBIBYTE):
        yield _ZEROS


def _one_record(size_bytes: int) -> Iterator[bytes]:
    """A record without key and headers whose value is all zeros."""
    value_bytes = size_bytes - 100
    # attributes, timestamp delta, offset delta, no key
    head = b"\x00\x00\x00\x01" + varint(value_bytes)
    yield varint(len(head) + value_bytes + 1) + head
    whole, rest = divmod(value_bytes, MEBIBYTE)
    yield from (_ZEROS for _ in range(whole))
    yield bytes(rest) + b"\x00"


def _gzip(pieces: Iterator[bytes]) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(piece) for piece in pieces) + packer.flush()


def _lz4(pieces: Iterator[bytes]) -> bytes:
    return lz4.frame.compress(b"".join(pieces), block_linked=False)  # type: ignore[no-any-return]


def _zstd(pieces: Iterator[bytes]) -> bytes:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(packer.compress(piece) for piece in pieces) + packer.flush()


def _snappy_zeros(size_bytes: int) -> bytes:
    """A raw block that is true: one literal zero, then copies of 64 bytes at distance 1."""
    copies = (size_bytes - 1) // 64
    size = 1 + copies * 64
    announced = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    return announced + b"\x00\x00" + b"\xfe\x01\x00" * copies
