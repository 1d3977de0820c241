"""The codecs: round trips, what Java's readers accept, what is cut or corrupt, and bombs."""

import contextlib
import gzip
import random
import struct
import zlib
from typing import Self

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import HEADER_BYTES, Codec, CorruptBatch, read_header
from barnabas.protocol.compression import CorruptData, DecompressionBomb, compress, decompress, inflate
from barnabas.protocol.records import Record, build_batch, walk_records

REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
AMPLE = 1 << 30
MIB = 1 << 20
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def zeros(codec: Codec, mib: int) -> bytes:
    """What inflates to `mib` MiB of zeros, made without ever holding them."""
    one = bytes(MIB)
    if codec is Codec.GZIP:
        return gzip.compress(one) * mib
    if codec is Codec.ZSTD:
        return zstandard.ZstdCompressor().compress(one) * mib
    if codec is Codec.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(one))
        return XERIAL + (struct.pack(">i", len(block)) + block) * mib
    frame = lz4.frame.compress(one, block_size=lz4.frame.BLOCKSIZE_MAX1MB, block_linked=False, store_size=False)
    header, block, end = frame[:7], frame[7:-4], frame[-4:]
    return header + block * mib + end


class PeakMemory:
    """How far the resident memory of this process rose inside the block, in bytes."""

    def __enter__(self) -> Self:
        with open("/proc/self/clear_refs", "w") as reset:
            reset.write("5")
        self._before = self._peak()
        return self

    def __exit__(self, *_: object) -> None:
        self.rise_bytes = self._peak() - self._before

    @staticmethod
    def _peak() -> int:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


@given(st.sampled_from(Codec), st.binary(max_size=2000))
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, memoryview(data)))), len(data)) == data


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 3_000_000])
def test_sizes_around_the_pieces_come_back(codec: Codec, size: int, seed: int) -> None:
    noise = random.Random(seed).randbytes(size // 2)
    data = noise + bytes(size - len(noise))
    assert decompress(codec, compress(codec, data), size) == data
    assert all(0 < len(piece) <= 128 * 1024 for piece in inflate(codec, compress(codec, data), size))


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 9), (Codec.ZSTD, 19)])
def test_levels_act(codec: Codec, level: int) -> None:
    data = b"".join(b"%d squared is %d\n" % (i, i * i) for i in range(20_000))
    assert len(compress(codec, data, level)) != len(compress(codec, data))
    assert decompress(codec, compress(codec, data, level), len(data)) == data


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_the_ceiling_is_exact(codec: Codec) -> None:
    data = b"barnabas " * 50_000
    assert decompress(codec, compress(codec, data), len(data)) == data
    with pytest.raises(DecompressionBomb):
        decompress(codec, compress(codec, data), len(data) - 1)


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_every_prefix_is_refused_unless_it_ends_between_frames(codec: Codec, seed: int) -> None:
    data = random.Random(seed).randbytes(300) + b"barnabas " * 9000
    whole = compress(codec, data)
    for size in range(1, len(whole)):
        if codec is Codec.SNAPPY and size in block_ends(whole):
            continue
        with pytest.raises(CorruptData):
            decompress(codec, whole[:size], AMPLE)


def block_ends(xerial: bytes) -> set[int]:
    """Where xerial's framing may be cut without a trace; the records inside miss what is gone."""
    ends, pos = {16}, 16
    while pos < len(xerial):
        pos += 4 + struct.unpack_from(">i", xerial, pos)[0]
        ends.add(pos)
    return ends


@given(st.sampled_from(REAL_CODECS), st.binary(max_size=300))
def test_random_bytes_are_refused_or_inflated_within_the_ceiling(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, 10_000)) <= 10_000


@given(st.sampled_from(REAL_CODECS), st.data())
def test_mangled_data_is_refused_or_inflated_within_the_ceiling(codec: Codec, draw: st.DataObject) -> None:
    mangled = bytearray(compress(codec, b"barnabas and the castle " * draw.draw(st.integers(1, 400))))
    for _ in range(draw.draw(st.integers(1, 4))):
        mangled[draw.draw(st.integers(0, len(mangled) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, mangled, 20_000)) <= 20_000


def test_gzip_members_follow_each_other_and_other_bytes_after_one_are_not_looked_at() -> None:
    members = gzip.compress(b"first ") + gzip.compress(b"") + gzip.compress(b"second")
    assert decompress(Codec.GZIP, members, 100) == b"first second"
    assert decompress(Codec.GZIP, members + b"\0\0\0", 100) == b"first second"
    large = gzip.compress(random.Random(1).randbytes(40_000))
    assert len(decompress(Codec.GZIP, large * 3, 120_000)) == 120_000
    with pytest.raises(CorruptData):
        decompress(Codec.GZIP, zlib.compress(b"no gzip header"), 100)


def test_a_gzip_checksum_is_checked() -> None:
    wrong = bytearray(gzip.compress(b"first"))
    wrong[-5] ^= 1
    with pytest.raises(CorruptData):
        decompress(Codec.GZIP, wrong, 100)


def test_zstd_frames_follow_each_other_skippable_ones_and_checksums_among_them() -> None:
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(b"first ")
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"hello"
    streamed = zstandard.ZstdCompressor().compressobj()
    unsized = streamed.compress(b"second") + streamed.flush()
    assert decompress(Codec.ZSTD, checked + skippable + unsized, 100) == b"first second"
    with pytest.raises(CorruptData):
        decompress(Codec.ZSTD, checked + b"garbage after it", 100)
    with pytest.raises(CorruptData):
        decompress(Codec.ZSTD, checked[:-1] + bytes([checked[-1] ^ 1]), 100)


def test_only_the_first_lz4_frame_is_read_as_java_does() -> None:
    first, second = compress(Codec.LZ4, b"first"), compress(Codec.LZ4, b"second")
    assert decompress(Codec.LZ4, first + second, 100) == b"first"


def test_linked_lz4_blocks_are_refused_as_java_does() -> None:
    linked = lz4.frame.compress(random.Random(1).randbytes(200_000), block_linked=True)
    with pytest.raises(CorruptData, match="depend"):
        decompress(Codec.LZ4, linked, AMPLE)


def test_lz4_is_written_with_independent_blocks_of_64_kib_and_no_size() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, bytes(200_000)))
    assert (info["block_linked"], info["block_size"], info["content_size"]) == (False, 65_536, 0)


def test_snappy_is_read_raw_and_in_xerials_framing() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"raw"))
    assert decompress(Codec.SNAPPY, raw, 100) == b"raw"
    block = struct.pack(">i", len(raw)) + raw
    assert decompress(Codec.SNAPPY, XERIAL + block + block, 100) == b"rawraw"
    assert decompress(Codec.SNAPPY, XERIAL + block + XERIAL + block, 100) == b"rawraw"
    assert decompress(Codec.SNAPPY, XERIAL, 100) == b""


def test_snappy_is_written_in_xerials_framing_with_blocks_of_32_kib() -> None:
    written = compress(Codec.SNAPPY, bytes(70_000))
    assert written[:16] == XERIAL
    (size,) = struct.unpack_from(">i", written, 16)
    assert len(cramjam.snappy.decompress_raw(written[20 : 20 + size])) == 32 * 1024


@pytest.mark.parametrize(
    "framed",
    [
        pytest.param(XERIAL + struct.pack(">i", -1), id="a negative block"),
        pytest.param(XERIAL + struct.pack(">i", 100) + b"short", id="a block that is cut"),
        pytest.param(XERIAL + b"\0\0", id="a block size that is cut"),
        pytest.param(XERIAL[:8] + struct.pack(">ii", 2, 2), id="readers of version 2"),
        pytest.param(XERIAL[:12], id="a header that is cut"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff", id="a size of too many bytes"),
    ],
)
def test_snappy_that_cannot_be_read_is_refused(framed: bytes) -> None:
    with pytest.raises(CorruptData):
        decompress(Codec.SNAPPY, framed, AMPLE)


def test_a_snappy_size_that_the_data_cannot_hold_is_refused_before_it_is_allocated() -> None:
    announced_1_gib = b"\x80\x80\x80\x80\x04" + bytes(1000)
    with PeakMemory() as memory, pytest.raises(CorruptData, match="cannot hold"):
        decompress(Codec.SNAPPY, announced_1_gib, 2 * AMPLE)
    assert memory.rise_bytes < 16 * MIB


def test_a_snappy_size_above_the_ceiling_is_a_bomb_only_where_the_data_could_hold_it() -> None:
    announced_10_kib, data = b"\x80\x50", bytes(1000)
    with pytest.raises(DecompressionBomb, match="announce"):
        decompress(Codec.SNAPPY, announced_10_kib + data, 5000)
    with pytest.raises(CorruptData, match="cannot hold"):
        decompress(Codec.SNAPPY, announced_10_kib + data[:400], 5000)


@pytest.mark.parametrize(
    ("codec", "mib"), [(Codec.GZIP, 1024), (Codec.ZSTD, 1024), (Codec.LZ4, 1024), (Codec.SNAPPY, 300)]
)
def test_a_bomb_is_refused_while_it_inflates(codec: Codec, mib: int) -> None:
    bomb = zeros(codec, mib)
    with PeakMemory() as memory, pytest.raises(DecompressionBomb):
        decompress(codec, bomb, 6 * MIB)
    assert memory.rise_bytes < 16 * MIB


def test_one_zstd_frame_of_a_gibibyte_is_refused_while_it_inflates() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    bomb = b"".join([*(stream.compress(bytes(MIB)) for _ in range(1024)), stream.flush()])
    assert len(bomb) < 40_000
    with PeakMemory() as memory, pytest.raises(DecompressionBomb):
        decompress(Codec.ZSTD, bomb, 6 * MIB)
    assert memory.rise_bytes < 16 * MIB


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_walk_holds_a_piece_of_a_batch_and_not_all_of_it(codec: Codec) -> None:
    record = Record(0, 0, None, bytes(200_000))
    batch = build_batch([record] * 400, codec=codec)
    with PeakMemory() as memory:
        walk_records(memoryview(batch)[HEADER_BYTES:], read_header(batch), 100 * MIB, None)
    assert memory.rise_bytes < 16 * MIB
    with PeakMemory() as memory, pytest.raises(DecompressionBomb):
        walk_records(memoryview(batch)[HEADER_BYTES:], read_header(batch), 70 * MIB, None)
    assert memory.rise_bytes < 16 * MIB
