"""The batch header, its checksum and what is patched in place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    CorruptBatch,
    CrcMismatch,
    InvalidBatchSize,
    InvalidRecordCount,
    TruncatedBatch,
    UnsupportedCodec,
    UnsupportedMagic,
    frame,
    patch_create_time,
    patch_log_append_time,
    place,
    read_header,
    verify_crc,
)
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.records import Record, build_batch, iterate_records

I64 = st.integers(-(2**63), 2**63 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I16 = st.integers(-(2**15), 2**15 - 1)

# One key and one value, as Kafka 2.7's producer would send it: written out by hand from KIP-98.
KNOWN = bytes.fromhex(
    "0000000000000000" "0000003e" "ffffffff" "02" "6378d083" "0000" "00000000" "00000000000003e8" "00000000000003e8"
    "ffffffffffffffff" "ffff" "ffffffff" "00000001" "18" "00" "00" "00" "026b" "0276" "02" "0261" "0262"
)  # fmt: skip


def header(**changed: int) -> BatchHeader:
    fields = {
        "base_offset": 7,
        "length": 0,
        "leader_epoch": 3,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": 1,
        "first_timestamp": 1000,
        "max_timestamp": 2000,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": 2,
    }
    return BatchHeader(**{**fields, **changed})


@given(
    st.builds(
        BatchHeader,
        base_offset=I64,
        length=st.just(0),
        leader_epoch=I32,
        magic=st.just(2),
        crc=st.just(0),
        attributes=I16,
        last_offset_delta=I32,
        first_timestamp=I64,
        max_timestamp=I64,
        producer_id=I64,
        producer_epoch=I16,
        base_sequence=I32,
        record_count=I32,
    ),
    st.binary(max_size=40),
    st.binary(max_size=5),
)
def test_a_framed_header_is_read_back(given_header: BatchHeader, payload: bytes, before: bytes) -> None:
    batch = frame(given_header, payload)
    read = read_header(before + batch, len(before))
    given_header.length = len(batch) - 12
    given_header.crc = read.crc
    assert read == given_header
    assert read.size_bytes == HEADER_BYTES + len(payload)
    verify_crc(before + batch, len(before), read)


def test_a_known_batch_reads_as_written() -> None:
    ((pos, known),) = iterate_entries(KNOWN)
    verify_crc(KNOWN, pos, known)
    assert list(iterate_records(KNOWN, pos, known, 0)) == [Record(0, 1000, b"k", b"v", (("a", b"b"),))]
    assert build_batch([Record(0, 1000, b"k", b"v", (("a", b"b"),))]) == KNOWN


def test_every_byte_behind_the_checksum_is_covered_and_none_before_it() -> None:
    for at in range(len(KNOWN)):
        flipped = bytearray(KNOWN)
        flipped[at] ^= 0x10
        if at < 8 or 12 <= at < 16:
            verify_crc(flipped, 0, read_header(flipped))
        else:
            with pytest.raises(CorruptBatch):
                verify_crc(flipped, 0, read_header(flipped))


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_a_checksum_mismatch(bit: int) -> None:
    for at in range(17, len(KNOWN)):
        flipped = bytearray(KNOWN)
        flipped[at] ^= 1 << bit
        with pytest.raises(CrcMismatch):
            verify_crc(flipped, 0, read_header(flipped))


def test_every_proper_prefix_is_truncated() -> None:
    for size in range(1, len(KNOWN)):
        with pytest.raises(TruncatedBatch):
            list(iterate_entries(KNOWN[:size]))


def test_whole_batches_are_given_before_a_torn_one_is_refused() -> None:
    headers = iterate_entries(KNOWN + KNOWN + KNOWN[:-1])
    assert [next(headers)[0], next(headers)[0]] == [0, len(KNOWN)]
    with pytest.raises(TruncatedBatch):
        next(headers)


def test_a_checksum_of_a_batch_that_is_not_whole_is_refused() -> None:
    with pytest.raises(TruncatedBatch):
        verify_crc(KNOWN[:-1], 0, read_header(KNOWN))


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_another_magic_is_named_even_where_the_message_is_shorter_than_a_header(magic: int) -> None:
    other = bytearray(KNOWN)
    other[16] = magic
    for size in (17, 26, 60, 61, len(other)):
        with pytest.raises(UnsupportedMagic) as caught:
            read_header(memoryview(other)[:size])
        assert caught.value.magic == (magic if magic < 128 else magic - 256)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_length_that_cannot_hold_a_header_is_refused(length: int) -> None:
    short = KNOWN[:8] + length.to_bytes(4, "big", signed=True) + KNOWN[12:]
    with pytest.raises(InvalidBatchSize):
        read_header(short)


@pytest.mark.parametrize(("count", "last_delta"), [(-1, 0), (2, 0), (0, -1), (1, -1)])
def test_impossible_counts_are_refused(count: int, last_delta: int) -> None:
    batch = frame(header(record_count=count, last_offset_delta=last_delta), b"")
    with pytest.raises(InvalidRecordCount):
        list(iterate_entries(batch))


def test_an_empty_batch_as_compaction_leaves_it_is_legal_to_read() -> None:
    batch = frame(header(record_count=0, last_offset_delta=4, producer_id=9, base_sequence=3), b"")
    ((_, empty),) = iterate_entries(batch)
    verify_crc(batch, 0, empty)
    assert (empty.last_offset, empty.next_offset, empty.last_sequence) == (11, 12, 7)
    assert list(iterate_records(batch, 0, empty, 0)) == []


def test_attributes_say_what_the_batch_is() -> None:
    plain, special = header(), header(attributes=0x08 | 0x10 | 0x20 | 0x04, producer_id=0)
    assert (plain.codec, special.codec) == (Codec.NONE, Codec.ZSTD)
    assert not any((plain.uses_log_append_time, plain.is_transactional, plain.is_control))
    assert special.uses_log_append_time
    assert special.is_transactional
    assert special.is_control


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number: int) -> None:
    with pytest.raises(UnsupportedCodec, match=str(number)):
        _ = header(attributes=number).codec


def test_sequences_wrap_after_the_greatest() -> None:
    assert header(base_sequence=2**31 - 1, last_offset_delta=0).last_sequence == 2**31 - 1
    assert header(base_sequence=2**31 - 1, last_offset_delta=3).last_sequence == 2
    assert header(base_sequence=-1, last_offset_delta=3).last_sequence == -1


@given(st.integers(0, 2**62), st.integers(0, 2**31 - 1), st.binary(max_size=3))
def test_placing_changes_offset_and_epoch_alone(base_offset: int, leader_epoch: int, before: bytes) -> None:
    buf = bytearray(before + KNOWN)
    known = read_header(KNOWN)
    known.base_offset, known.leader_epoch = base_offset, leader_epoch
    place(memoryview(buf), len(before), known)
    patched = read_header(buf, len(before))
    assert (patched.base_offset, patched.leader_epoch) == (base_offset, leader_epoch)
    verify_crc(buf, len(before), patched)
    place(buf, len(before), read_header(KNOWN))
    assert buf == before + KNOWN


def test_log_append_time_is_the_time_of_every_record_and_can_be_taken_back() -> None:
    batch = bytearray(build_batch([Record(0, 1000, b"k", b"v"), Record(0, 3000, None, None)]))
    before = bytes(batch)
    patch_log_append_time(batch, 0, 5000)
    stamped = read_header(batch)
    verify_crc(batch, 0, stamped)
    assert stamped.uses_log_append_time
    assert [record.timestamp for record in iterate_records(batch, 0, stamped, 0)] == [5000, 5000]
    patch_create_time(batch, 0, 3000)
    assert batch == before
