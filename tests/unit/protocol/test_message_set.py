"""Messages and wrappers of formats 0 and 1: round trips, what is refused, bombs, and kafka-python on the same bytes."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from barnabas.protocol.batch import (
    Codec,
    CorruptBatch,
    CrcMismatch,
    InvalidBatchSize,
    InvalidRecord,
    TruncatedBatch,
    UnsupportedMagic,
)
from barnabas.protocol.compression import DecompressionBomb, compress
from barnabas.protocol.entries import first_entry_offset, holds_entry, iterate_entries, read_entry, verify_entry
from barnabas.protocol.legacy_lz4 import right_checksum, wrong_checksum
from barnabas.protocol.message_set import encode_message, patch_message_time, place_message, read_message_header
from barnabas.protocol.records import Record, build_batch
from tests.unit.protocol.old_formats import (
    AMPLE,
    OLD_CODECS,
    REAL_OLD_CODECS,
    as_format,
    build,
    headers,
    read,
    records_at_rising_offsets,
)

MAGICS = (0, 1)
SOME = [Record(7, 1000, b"k", b"v"), Record(8, 3000, None, b""), Record(11, 2000, b"", None)]


def wrapper(content: bytes, *, magic: int = 1, codec: Codec = Codec.GZIP, offset: int = 0, timestamp: int = 0) -> bytes:
    """A wrapper of what must not be in one."""
    return encode_message(offset, timestamp, None, compress(codec, content), magic=magic, attributes=codec)


@given(records_at_rising_offsets(), st.sampled_from(MAGICS), st.sampled_from(OLD_CODECS))
def test_what_is_built_is_read_back(records: list[Record], magic: int, codec: Codec) -> None:
    data = build(records, magic=magic, codec=codec)
    assert read(data) == [as_format(record, magic) for record in records]
    made = headers(data)
    assert all((header.magic, header.codec, header.leader_epoch) == (magic, codec, -1) for header in made)
    assert made[-1].last_offset == records[-1].offset
    assert max(header.max_timestamp for header in made) == (max(r.timestamp for r in records) if magic else -1)
    assert len(made) == (1 if codec else len(records))
    assert first_entry_offset(data, 0, made[0], AMPLE) == records[0].offset


@given(records_at_rising_offsets(), st.sampled_from(MAGICS), st.sampled_from(OLD_CODECS), st.data())
def test_a_cut_set_gives_its_whole_entries_and_says_so(
    records: list[Record], magic: int, codec: Codec, data: st.DataObject
) -> None:
    whole = build(records, magic=magic, codec=codec)
    ends = [pos + header.size_bytes for pos, header in iterate_entries(whole)]
    size = data.draw(st.integers(0, len(whole) - 1))
    given_entries = 0
    try:
        for _ in iterate_entries(memoryview(whole)[:size]):
            given_entries += 1
    except TruncatedBatch:
        assert size not in (0, *ends)
    else:
        assert size in (0, *ends)
    assert given_entries == sum(end <= size for end in ends)
    assert holds_entry(whole[:size]) == (size >= ends[0])


@given(records_at_rising_offsets(), st.sampled_from(MAGICS), st.sampled_from(OLD_CODECS), st.data())
def test_content_that_is_cut_within_its_entry_is_refused(
    records: list[Record], magic: int, codec: Codec, data: st.DataObject
) -> None:
    """With a right checksum and length, so that only the reader can tell."""
    whole = build(records[:1] if codec is Codec.NONE else records, magic=magic, codec=codec)
    cut = bytearray(whole[: data.draw(st.integers(18, len(whole) - 1))])
    struct.pack_into(">iI", cut, 8, len(cut) - 12, zlib.crc32(cut[16:]))
    with pytest.raises(CorruptBatch):
        read(cut)


@given(records_at_rising_offsets(), st.sampled_from(MAGICS), st.sampled_from(OLD_CODECS), st.data())
def test_a_flipped_bit_is_seen_by_the_checksum(
    records: list[Record], magic: int, codec: Codec, data: st.DataObject
) -> None:
    flipped = bytearray(build(records[:1], magic=magic, codec=codec))
    bit = data.draw(st.integers(12 * 8, len(flipped) * 8 - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatch):
        verify_entry(flipped, 0, read_entry(flipped))


@given(st.binary(max_size=120))
def test_random_bytes_are_never_anything_but_corrupt_or_records(content: bytes) -> None:
    for data in (content, wrapper(content), encode_message(0, 0, None, content, magic=0, attributes=Codec.SNAPPY)):
        try:
            read(data)
        except CorruptBatch:
            continue


# For lz4 in format 0 kafka-python wants a package more; Kafka's own bytes stand in test_old_formats_of_kafka.py.
KAFKA_PYTHONS = [(magic, codec) for magic in MAGICS for codec in OLD_CODECS if (magic, codec) != (0, Codec.LZ4)]


@pytest.mark.parametrize(("magic", "codec"), KAFKA_PYTHONS)
def test_kafka_python_reads_what_we_build_and_we_read_what_it_builds(magic: int, codec: Codec) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    records = [Record(i, 1000 + i * 7 % 5, b"key %d" % i if i % 3 else None, b"value" * i) for i in range(50)]
    for record in records:
        assert builder.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
    theirs = bytes(builder.build())
    ours = build(records, magic=magic, codec=codec)
    if codec is Codec.NONE:
        assert ours == theirs
    found = read(theirs)
    if magic == 1 and codec:
        # It leaves the offset of a wrapper 0, as old producers do: the messages within count from 0.
        assert headers(theirs)[0].last_offset == 0
    assert found == [as_format(record, magic) for record in records]
    seen = []
    for pos, header in iterate_entries(ours):
        batch = LegacyRecordBatch(bytearray(ours[pos : pos + header.size_bytes]), magic)
        assert batch.validate_crc()
        seen += [Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in batch]
    assert seen == found


def test_a_wrapper_with_the_brokers_time_lends_it_to_its_messages() -> None:
    data = build(SOME, magic=1, codec=Codec.GZIP, log_append_time_ms=9000)
    assert [record.timestamp for record in read(data)] == [9000, 9000, 9000]
    assert headers(data)[0].uses_log_append_time
    create_time = bytearray(build(SOME, magic=1, codec=Codec.GZIP))
    patch_message_time(create_time, 0, read_entry(create_time), 8000, log_append_time=True)
    assert [record.timestamp for record in read(create_time)] == [8000, 8000, 8000]


def test_an_entry_is_placed_and_stamped_where_it_stands() -> None:
    entry = bytearray(build(SOME[:1], magic=1))
    place_message(entry, 0, 55)
    assert read(entry) == [Record(55, 1000, b"k", b"v")]
    before = bytes(entry)
    patch_message_time(entry, 0, read_entry(entry), 1000, log_append_time=False)
    assert entry == before
    patch_message_time(entry, 0, read_entry(entry), 1234, log_append_time=True)
    assert read(entry) == [Record(55, 1234, b"k", b"v")]
    assert read_entry(entry).uses_log_append_time


@pytest.mark.parametrize("offset", [2, 1002])
def test_offsets_within_a_wrapper_count_back_from_its_own(offset: int) -> None:
    content = b"".join(encode_message(at, 5, None, b"v", magic=1) for at in (0, 2))
    assert [record.offset for record in read(wrapper(content, offset=offset))] == [offset - 2, offset]


def test_a_wrapper_whose_offset_is_below_that_of_its_last_message_is_refused() -> None:
    content = b"".join(encode_message(at, 5, None, b"v", magic=1) for at in (0, 9))
    assert [record.offset for record in read(wrapper(content, offset=0))] == [0, 9]
    with pytest.raises(InvalidRecord, match="offset 9"):
        read(wrapper(content, offset=8))


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        pytest.param(
            wrapper(wrapper(encode_message(0, 0, None, b"v", magic=1))), InvalidRecord, "compressed", id="nested"
        ),
        pytest.param(wrapper(encode_message(0, 0, None, b"v", magic=0)), InvalidRecord, "format 0", id="other format"),
        pytest.param(wrapper(build_batch([Record(0, 0, None, b"v")])), UnsupportedMagic, "2", id="a batch"),
        pytest.param(wrapper(b""), InvalidRecord, "no messages", id="empty"),
        pytest.param(encode_message(0, 0, None, None, magic=1, attributes=1), InvalidRecord, "value", id="null"),
        pytest.param(wrapper(b"v", codec=Codec.ZSTD), InvalidRecord, "zstd", id="zstd"),
        pytest.param(encode_message(0, 0, None, b"v", magic=1, attributes=6), CorruptBatch, "6", id="codec 6"),
        pytest.param(wrapper(struct.pack(">qi", 0, 13) + bytes(13)), InvalidBatchSize, "13", id="too small"),
        pytest.param(wrapper(encode_message(0, 0, None, b"v", magic=1)[:-1]), InvalidRecord, "whole", id="cut"),
        pytest.param(wrapper(encode_message(0, 0, None, b"v", magic=1) + b"x"), InvalidRecord, "whole", id="more"),
    ],
)
def test_wrappers_of_what_they_must_not_hold_are_refused(data: bytes, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        read(data)


def test_a_message_within_a_wrapper_is_held_against_its_own_checksum() -> None:
    inner = bytearray(encode_message(0, 0, None, b"value", magic=1))
    inner[-1] ^= 1
    with pytest.raises(CrcMismatch):
        read(wrapper(bytes(inner)))


@pytest.mark.parametrize(
    ("key_size", "value_size"), [(-2, 1), (2, 1), (1, 2), (1, 0), (1, -1), (2**31 - 1, 1), (-(2**31), 1), (1, -9)]
)
@pytest.mark.parametrize("magic", MAGICS)
def test_lengths_that_do_not_fit_their_message_are_refused(key_size: int, value_size: int, magic: int) -> None:
    data = bytearray(encode_message(0, 0, b"k", b"v", magic=magic))
    struct.pack_into(">i", data, 18 + 8 * magic, key_size)
    struct.pack_into(">i", data, 23 + 8 * magic, value_size)
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    with pytest.raises(InvalidRecord):
        read(data)


@pytest.mark.parametrize(("magic", "length"), [(0, 13), (1, 21), (0, -1), (1, -(2**31))])
def test_a_length_that_cannot_hold_a_message_is_refused(magic: int, length: int) -> None:
    data = bytearray(encode_message(0, 0, b"key", b"value", magic=magic))
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(InvalidBatchSize):
        read_message_header(data)
    # It is no empty set either: who looks for its entries is told.
    assert holds_entry(data)


@pytest.mark.parametrize("magic", [3, -1, 127])
def test_formats_that_nobody_knows_are_named(magic: int) -> None:
    data = bytearray(build(SOME, magic=1))
    struct.pack_into(">b", data, 16, magic)
    with pytest.raises(UnsupportedMagic) as caught:
        read_entry(data)
    assert caught.value.magic == magic


@pytest.mark.parametrize("codec", REAL_OLD_CODECS)
def test_a_wrapper_that_holds_more_than_the_ceiling_is_a_bomb(codec: Codec) -> None:
    data = build([Record(i, 0, None, bytes(1000)) for i in range(1000)], magic=1, codec=codec)
    with pytest.raises(DecompressionBomb):
        read(data, 900_000)
    assert len(read(data, 1_100_000)) == 1000


def test_a_message_that_needs_more_than_the_ceiling_is_not_gathered() -> None:
    data = build([Record(0, 0, None, bytes(1_000_000))], magic=1, codec=Codec.GZIP)
    with pytest.raises(DecompressionBomb, match="needs"):
        read(data, 900_000)


def test_lz4_of_format_0_has_the_wrong_checksum_and_either_is_read() -> None:
    records = [Record(i, -1, None, b"value") for i in range(3)]
    data = build(records, magic=0, codec=Codec.LZ4)
    content = data[26:]
    # The constant that Kafka's first clients wrote for this descriptor.
    assert content[:7] == bytes.fromhex("04224d1860401a")
    assert content == wrong_checksum(right_checksum(content)) != right_checksum(content)
    right = encode_message(2, -1, None, bytes(right_checksum(content)), magic=0, attributes=Codec.LZ4)
    assert read(right) == read(data) == records
    with pytest.raises(CorruptBatch, match="lz4"):
        read(encode_message(2, -1, None, content, magic=1, attributes=Codec.LZ4))


def test_what_is_no_lz4_frame_is_left_to_the_codec() -> None:
    for content in (b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x48\x40", b"something else"):
        assert right_checksum(content) == wrong_checksum(content) == content


def test_entries_of_all_formats_stand_side_by_side() -> None:
    data = b"".join(build(SOME, magic=magic, codec=codec) for magic in (0, 1, 2) for codec in OLD_CODECS)
    assert [header.magic for header in headers(data)] == [0] * 6 + [1] * 6 + [2] * 4
    assert len(read(data)) == 3 * 12
