"""The codecs of record batches: gzip, snappy, lz4 and zstd behind one table.

Decompression is streaming and has a ceiling: `inflate` gives pieces of bounded size and stops with `DecompressionBomb`
as soon as the sum would pass the ceiling, so a small input never makes a large allocation. It reads what Kafka's Java
clients read: concatenated gzip members, zstd frames and xerial streams; of lz4 the first frame only; after the last
gzip member nothing is looked at. Snappy is read raw or in xerial's framing, told apart by xerial's magic. What is cut
short is refused.

What `compress` writes the Java clients of every version read: snappy in xerial's framing, lz4 with independent blocks.
`Compressor` writes the same piece by piece, for who must not hold the event loop for as long as a large batch takes.

Left out: the wrong checksum of lz4 frames in message format 0 (legacy_lz4.py).
"""

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

import cramjam
import lz4.frame
import zstandard

from barnabas.protocol.batch import Buffer, Codec, CorruptBatch

_PIECE_BYTES: Final = 64 * 1024  # what one step of a codec may give
_SLICE_BYTES: Final = 16 * 1024  # what one step of a codec is fed; zlib copies the part it did not use

_GZIP_WINDOW_BITS: Final = 31  # 15 bits of window, with the gzip header
_GZIP_MAGIC: Final = b"\x1f\x8b"

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # written as version 1, readable by 1
_XERIAL_HEADER_BYTES: Final = len(_XERIAL_HEADER)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_VERSIONS: Final = Struct(">ii")
_BLOCK_SIZE: Final = Struct(">i")
_SNAPPY_GREATEST_RATIO: Final = 22  # three bytes give at most 64

_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT_BIT: Final = 0x20

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50  # the low four bits are the user's
_ZSTD_CHECKSUM_BIT: Final = 0x04
_ZSTD_RLE_BLOCK: Final = 1
_LITTLE_U32: Final = Struct("<I")


_LARGEST_RECORD_BYTES: Final = 32 * 1024 * 1024


def largest_record_bytes(data: Buffer) -> int:
    """How large a record may be that is held whole while the others of its compressed batch pass by.

    What a client sends may say that it holds a record of hundreds of megabytes in a few kilobytes.
    """
    return max(_LARGEST_RECORD_BYTES, 4 * len(data))


class DecompressionBomb(CorruptBatch):
    """The data inflates to more than the reader allows."""


class CorruptData(CorruptBatch):
    """The data is not of its codec, or is cut short."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` is the codec's own scale, its default where None. Snappy has no levels."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: Codec, data: Buffer, max_bytes: int) -> bytes:
    """The whole content of `data`. Raises DecompressionBomb above `max_bytes`, CorruptData for what cannot be read."""
    if codec is Codec.NONE:
        return bytes(data)
    return b"".join(inflate(codec, data, max_bytes))


def inflate(codec: Codec, data: Buffer, max_bytes: int) -> Iterator[bytes]:
    """The content of `data` in pieces, none empty, `max_bytes` of it at most; raises as `decompress` does."""
    given = 0
    view = memoryview(data)
    for piece in _INFLATERS[codec](view, max_bytes):
        given += len(piece)
        if given > max_bytes:
            raise DecompressionBomb(f"{len(view)} bytes of {codec.name.lower()} hold more than {max_bytes} bytes")
        if piece:
            yield piece


def _store(data: Buffer, _level: int | None) -> bytes:
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW_BITS)


def _snappy(data: Buffer, level: int | None) -> bytes:
    assert level is None, "snappy has no levels"
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _lz4(data: Buffer, level: int | None) -> bytes:
    # Java reads neither linked blocks nor, in its old versions, a stored size.
    compressed = lz4.frame.compress(
        data,
        compression_level=level or 0,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    assert isinstance(compressed, bytes)
    return compressed


def _zstd(data: Buffer, level: int | None) -> bytes:
    return zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)


def _copy(view: memoryview, _max_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(view), _PIECE_BYTES):
        yield bytes(view[start : start + _PIECE_BYTES])


def _gunzip(view: memoryview, _max_bytes: int) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    pos = 0
    rest = b""
    while True:
        if not rest:
            rest = bytes(view[pos : pos + _SLICE_BYTES])
            pos += len(rest)
            if not rest:
                raise CorruptData("the gzip data is cut short")
        try:
            piece = member.decompress(rest, _PIECE_BYTES)
        except zlib.error as error:
            raise CorruptData(f"the gzip data is corrupt: {error}") from None
        yield piece
        rest = member.unconsumed_tail
        if member.eof:
            pos -= len(member.unused_data)
            # Like Java, what follows a member is the next one when it begins like one, and nothing otherwise.
            if bytes(view[pos : pos + 2]) != _GZIP_MAGIC:
                return
            member, rest = zlib.decompressobj(_GZIP_WINDOW_BITS), b""


def _unsnappy(view: memoryview, max_bytes: int) -> Iterator[bytes]:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield _unsnappy_block(view, max_bytes)
        return
    pos, given = 0, 0
    while pos < len(view):
        if bytes(view[pos : pos + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            pos = _xerial_header_end(view, pos)
            continue
        if pos + 4 > len(view):
            raise CorruptData("the snappy data is cut short")
        (size,) = _BLOCK_SIZE.unpack_from(view, pos)
        pos += 4
        if not 0 <= size <= len(view) - pos:
            raise CorruptData(f"a snappy block of {size} bytes does not fit the {len(view) - pos} bytes that follow")
        piece = _unsnappy_block(view[pos : pos + size], max_bytes - given)
        given += len(piece)
        pos += size
        yield piece


def _xerial_header_end(view: memoryview, pos: int) -> int:
    end = pos + _XERIAL_HEADER_BYTES
    if end > len(view):
        raise CorruptData("the snappy data is cut short")
    _, readable_by = _XERIAL_VERSIONS.unpack_from(view, pos + len(_XERIAL_MAGIC))
    if readable_by > 1:
        raise CorruptData(f"snappy framing for readers of version {readable_by} is not known")
    return end


def _unsnappy_block(view: memoryview, max_bytes: int) -> bytes:
    """One raw block. Its first bytes announce its size, which is judged before it is allocated."""
    try:
        size = cramjam.snappy.decompress_raw_len(view)
        if size > len(view) * _SNAPPY_GREATEST_RATIO:
            raise CorruptData(f"{len(view)} bytes of snappy cannot hold the {size} bytes they announce")
        if size > max_bytes:
            raise DecompressionBomb(f"{len(view)} bytes of snappy announce {size} bytes, {max_bytes} are allowed")
        return bytes(cramjam.snappy.decompress_raw(view))
    except cramjam.DecompressionError as error:
        raise CorruptData(f"the snappy data is corrupt: {error}") from None


def _unlz4(view: memoryview, _max_bytes: int) -> Iterator[bytes]:
    if len(view) > _LZ4_FLAGS_AT and not view[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT_BIT:
        raise CorruptData("lz4 blocks that depend on each other cannot be read by Kafka's clients")
    frame = lz4.frame.LZ4FrameDecompressor()
    pos = 0
    while not frame.eof:
        fed = b""
        if frame.needs_input:
            fed = bytes(view[pos : pos + _SLICE_BYTES])
            pos += len(fed)
            if not fed:
                raise CorruptData("the lz4 data is cut short")
        try:
            yield frame.decompress(fed, _PIECE_BYTES)
        except RuntimeError as error:
            raise CorruptData(f"the lz4 data is corrupt: {error}") from None


def _unzstd(view: memoryview, _max_bytes: int) -> Iterator[bytes]:
    # The library's reader ends in silence where its input is cut, so the frames are followed first.
    pos = 0
    while pos < len(view):
        pos = _zstd_frame_end(view, pos)
    reader = zstandard.ZstdDecompressor().stream_reader(view, read_across_frames=True)
    try:
        while piece := reader.read(_PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        raise CorruptData(f"the zstd data is corrupt: {error}") from None


def _zstd_frame_end(view: memoryview, pos: int) -> int:
    """Where the frame at `pos` ends, by the sizes of its blocks (RFC 8878, section 3.1). Raises CorruptData."""
    size = len(view)
    if size - pos < 8:
        raise CorruptData("the zstd data is cut short")
    (magic,) = _LITTLE_U32.unpack_from(view, pos)
    if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        (skipped,) = _LITTLE_U32.unpack_from(view, pos + 4)
        end = pos + 8 + int(skipped)
    elif magic == _ZSTD_MAGIC:
        try:
            end = pos + zstandard.frame_header_size(view[pos:])
        except zstandard.ZstdError as error:
            raise CorruptData(f"the zstd data is corrupt: {error}") from None
        last = False
        while not last:
            if end + 3 > size:
                raise CorruptData("the zstd data is cut short")
            block = view[end] | view[end + 1] << 8 | view[end + 2] << 16
            last = block & 1 == 1
            end += 3 + (1 if block >> 1 & 3 == _ZSTD_RLE_BLOCK else block >> 3)
        if view[pos + 4] & _ZSTD_CHECKSUM_BIT:
            end += 4
    else:
        raise CorruptData("what should be a zstd frame is none")
    if end > size:
        raise CorruptData("the zstd data is cut short")
    return end


class Compressor:
    """Compresses what it is given with the codec's default level; `finish` gives the whole."""

    __slots__ = ("_codec", "_flush", "_parts", "_rest", "_step", "size_bytes")

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._parts: list[bytes] = []
        self._rest = bytearray()
        self._step: Callable[[bytes], bytes] = bytes
        self._flush: Callable[[], bytes] = bytes
        self.size_bytes = 0
        """What has come out of the codec so far; it may hold some back until the end."""
        if codec is Codec.GZIP:
            gzip = zlib.compressobj(-1, zlib.DEFLATED, _GZIP_WINDOW_BITS)
            self._step, self._flush = gzip.compress, gzip.flush
        elif codec is Codec.SNAPPY:
            self._keep(_XERIAL_HEADER)
            self._step, self._flush = self._snappy_blocks, self._last_snappy_block
        elif codec is Codec.LZ4:
            frame = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
            self._keep(frame.begin())
            self._step, self._flush = frame.compress, frame.flush
        elif codec is Codec.ZSTD:
            zstd = zstandard.ZstdCompressor(level=3).compressobj()
            self._step, self._flush = zstd.compress, zstd.flush

    def add(self, data: bytes) -> None:
        """Take in the next piece; how long that takes goes by its size."""
        self._keep(self._step(data))

    def finish(self) -> bytes:
        """All that was given, compressed."""
        self._keep(self._flush())
        return b"".join(self._parts)

    def _keep(self, piece: bytes) -> None:
        self.size_bytes += len(piece)
        self._parts.append(piece)

    def _snappy_blocks(self, data: bytes) -> bytes:
        self._rest += data
        whole = len(self._rest) // _XERIAL_BLOCK_BYTES * _XERIAL_BLOCK_BYTES
        blocks = bytes(self._rest[:whole])
        del self._rest[:whole]
        return _snappy(blocks, None)[_XERIAL_HEADER_BYTES:]

    def _last_snappy_block(self) -> bytes:
        return _snappy(bytes(self._rest), None)[_XERIAL_HEADER_BYTES:]


_COMPRESSORS: Final[dict[Codec, Callable[[Buffer, int | None], bytes]]] = {
    Codec.NONE: _store,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}

_INFLATERS: Final[dict[Codec, Callable[[memoryview, int], Iterator[bytes]]]] = {
    Codec.NONE: _copy,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
