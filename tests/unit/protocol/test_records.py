"""Records inside batches: round trips, what is refused, control records."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    CorruptBatch,
    InvalidRecord,
    TruncatedBatch,
    frame,
    read_header,
    verify_crc,
)
from barnabas.protocol.compression import DecompressionBomb, compress
from barnabas.protocol.record_stream import stream_records
from barnabas.protocol.records import (
    Ages,
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
    iterate_records,
    read_control_record,
    walk_records,
)

AMPLE = 1 << 30
BYTES_OR_NONE = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**62),
        BYTES_OR_NONE,
        BYTES_OR_NONE,
        st.lists(st.tuples(st.text(max_size=9), BYTES_OR_NONE), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def at_offsets(records: list[Record], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)]


def batch_of(payload: bytes, count: int, codec: Codec = Codec.NONE) -> tuple[bytes, BatchHeader]:
    made = frame(BatchHeader(0, 0, -1, 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count), compress(codec, payload))
    return made, read_header(made)


def walk(batch: bytes | bytearray, header: BatchHeader, max_bytes: int, keyless: list[int] | None = None) -> Ages:
    return walk_records(memoryview(batch)[HEADER_BYTES:], header, max_bytes, keyless)


def streamed(batch: bytes | bytearray, header: BatchHeader, max_bytes: int) -> list[Record]:
    return [record for some in stream_records(batch, 0, header, max_bytes) for record in some]


@given(RECORDS, st.sampled_from(Codec), st.integers(0, 2**62))
def test_built_records_are_read_back(records: list[Record], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    header = read_header(batch)
    verify_crc(batch, 0, header)
    assert list(iterate_records(batch, 0, header, AMPLE)) == at_offsets(records, base_offset)
    assert streamed(batch, header, AMPLE) == at_offsets(records, base_offset)
    keyless: list[int] = []
    oldest, newest, newest_index = walk(batch, header, AMPLE, keyless)
    times = [record.timestamp for record in records]
    assert (header.first_timestamp + oldest, header.first_timestamp + newest) == (min(times), max(times))
    assert max(times) == header.max_timestamp
    assert newest_index == times.index(max(times))
    assert keyless == [i for i, record in enumerate(records) if record.key is None]


@given(RECORDS, st.sampled_from(Codec), st.data())
def test_cut_records_are_refused(records: list[Record], codec: Codec, data: st.DataObject) -> None:
    header = read_header(build_batch(records, codec=codec))
    payload = build_batch(records, codec=codec)[61:]
    cut = frame(header, payload[: data.draw(st.integers(0, len(payload) - 1))])
    with pytest.raises(CorruptBatch):
        list(iterate_records(cut, 0, read_header(cut), AMPLE))
    with pytest.raises(CorruptBatch):
        walk(cut, read_header(cut), AMPLE)
    with pytest.raises(CorruptBatch):
        streamed(cut, read_header(cut), AMPLE)


@given(RECORDS, st.sampled_from(Codec), st.data())
def test_mangled_records_are_read_or_refused_and_all_walks_agree(
    records: list[Record], codec: Codec, data: st.DataObject
) -> None:
    batch = bytearray(build_batch(records, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    try:
        read = list(iterate_records(batch, 0, header, 1 << 20))
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            walk(batch, header, 1 << 20)
        with pytest.raises(CorruptBatch):
            streamed(batch, header, 1 << 20)
    else:
        assert streamed(batch, header, 1 << 20) == read
        assert len(read) == len(records)
        walk(batch, header, 1 << 20)


@given(st.binary(max_size=100), st.integers(1, 20))
def test_random_bytes_are_never_anything_but_corrupt_or_records(payload: bytes, count: int) -> None:
    batch, header = batch_of(payload, count)
    try:
        assert len(list(iterate_records(batch, 0, header, AMPLE))) == count
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            walk(batch, header, AMPLE)
        with pytest.raises(CorruptBatch):
            streamed(batch, header, AMPLE)


@pytest.mark.parametrize("codec", Codec)
def test_large_and_small_records_cross_the_pieces_of_a_codec(codec: Codec, seed: int) -> None:
    noise = random.Random(seed)
    sizes = [0, 1, 65_535, 3, 1_000_000, 2, 65_536, *([17] * 5000), 200_000]
    records = [Record(i, i, None, noise.randbytes(size)) for i, size in enumerate(sizes)]
    batch = build_batch(records, codec=codec)
    header = read_header(batch)
    assert list(iterate_records(batch, 0, header, AMPLE)) == records
    assert streamed(batch, header, AMPLE) == records
    assert walk(batch, header, AMPLE)[2] == len(records) - 1


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param("0c00000001010000", 1, id="a byte after the last record"),
        pytest.param("0c000000010100", 2, id="fewer records than announced"),
        pytest.param("0c0000000101000c000002010100", 1, id="more records than announced"),
        pytest.param("0c0000000101000c000000010100", 2, id="a delta twice"),
        pytest.param("0e00000001010000", 1, id="a record shorter than its length"),
        pytest.param("0a000000010100", 1, id="a record longer than its length"),
        pytest.param("01000000010100", 1, id="a negative length"),
        pytest.param("0c000000010101", 1, id="a negative header count"),
        pytest.param("0c0000000101fe", 1, id="a header count that is cut"),
        pytest.param("100000000101100000", 1, id="more headers than fit"),
        pytest.param("1400000001010401026101", 1, id="a header without a key"),
        pytest.param("12000000010102026110", 1, id="a header value longer than the record"),
        pytest.param("0c000000100100", 1, id="a key longer than the record"),
        pytest.param("8080808080808080808001", 1, id="a length of too many bytes"),
        pytest.param("ffffffff7f", 1, id="a length over 32 bits"),
        pytest.param("ffffffff0f", 1, id="a length of -2**31"),
        pytest.param("feffffff0f", 1, id="a length of 2**31-1"),
        pytest.param("1e00ffffffffffffffffff7f00010100", 1, id="a timestamp over 64 bits"),
    ],
)
def test_records_that_contradict_themselves_are_refused(payload: str, count: int, codec: Codec) -> None:
    batch, header = batch_of(bytes.fromhex(payload), count, codec)
    with pytest.raises(InvalidRecord):
        walk(batch, header, 1 << 40)
    with pytest.raises(InvalidRecord):
        list(iterate_records(batch, 0, header, 1 << 40))


def test_gaps_in_the_offsets_are_read_but_no_producer_may_send_them() -> None:
    payload = bytes.fromhex("0c0000020101000c000006010100")
    batch = frame(BatchHeader(10, 0, -1, 2, 0, 0, 5, 0, 0, -1, -1, -1, 2), payload)
    assert [record.offset for record in iterate_records(batch, 0, read_header(batch), 0)] == [11, 13]
    assert streamed(batch, read_header(batch), 0) == list(iterate_records(batch, 0, read_header(batch), 0))
    dense, header = batch_of(payload, 2)
    header.last_offset_delta = 1
    with pytest.raises(InvalidRecord, match="out of order"):
        walk(dense, header, 0)


def test_offsets_that_go_back_from_one_piece_to_the_next_are_refused() -> None:
    large = Record(0, 0, None, bytes(70_000))
    first, again = (build_batch([large])[HEADER_BYTES:] for _ in range(2))
    batch, header = batch_of(first + again, 2)
    with pytest.raises(InvalidRecord, match="out of order"):
        streamed(batch, header, AMPLE)


def test_a_record_too_great_for_the_ceiling_is_a_bomb_before_it_is_gathered() -> None:
    batch = build_batch([Record(0, 0, None, bytes(1_000_000))], codec=Codec.GZIP)
    with pytest.raises(DecompressionBomb, match="needs"):
        walk(batch, read_header(batch), 900_000)
    with pytest.raises(DecompressionBomb, match="needs"):
        streamed(batch, read_header(batch), 900_000)
    walk(batch, read_header(batch), 1_100_000)
    assert len(streamed(batch, read_header(batch), 1_100_000)) == 1


def test_records_of_a_batch_that_is_not_whole_are_refused() -> None:
    batch = build_batch([Record(0, 0, None, b"value")])
    with pytest.raises(TruncatedBatch):
        streamed(batch[:-1], read_header(batch), AMPLE)
    with pytest.raises(TruncatedBatch):
        list(iterate_records(batch[:-1], 0, read_header(batch), AMPLE))


def test_producer_fields_and_flags_are_written() -> None:
    batch = build_batch(
        [Record(0, 5, b"k", b"v")],
        base_offset=3,
        producer_id=8,
        producer_epoch=2,
        base_sequence=77,
        transactional=True,
        leader_epoch=4,
        log_append_time_ms=99,
    )
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 2, 77)
    assert (header.is_transactional, header.is_control, header.uses_log_append_time) == (True, False, True)
    assert (header.base_offset, header.leader_epoch, header.first_timestamp, header.max_timestamp) == (3, 4, 5, 99)


def test_header_keys_that_are_not_utf8_survive() -> None:
    payload = bytes.fromhex("1400000001010202ff0278")
    batch, header = batch_of(payload, 1)
    (record,) = iterate_records(batch, 0, header, 0)
    assert build_batch([record])[61:] == payload


@pytest.mark.parametrize("kind", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_a_transaction_marker_is_read_back(kind: ControlRecordType) -> None:
    marker = EndTxnMarker(kind, 12)
    batch = build_end_txn_marker(marker, producer_id=5, producer_epoch=1, timestamp=1000, base_offset=9, leader_epoch=2)
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.producer_id, header.base_offset) == (True, True, 5, 9)
    (record,) = iterate_records(batch, 0, header, 0)
    assert record.key == struct.pack(">hh", 0, kind)
    assert record.value == struct.pack(">hi", 0, 12)
    assert read_control_record(record) == marker


def test_control_records_of_later_versions_are_read_as_far_as_they_are_known() -> None:
    longer = Record(0, 0, bytes.fromhex("00010001ff"), bytes.fromhex("000100000007ff"))
    assert read_control_record(longer) == EndTxnMarker(ControlRecordType.COMMIT, 7)
    assert read_control_record(Record(0, 0, bytes.fromhex("00000002"), None)).kind is ControlRecordType.UNKNOWN


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), ("0000", None), ("ffff0001", "000000000000"), ("00000001", "0000000000"),
                       ("00000001", None), ("00000000", "ffff00000000")]
)  # fmt: skip
def test_control_records_that_cannot_be_read_are_refused(key: str | None, value: str | None) -> None:
    raw_key, raw_value = (None if text is None else bytes.fromhex(text) for text in (key, value))
    with pytest.raises(InvalidRecord):
        read_control_record(Record(0, 0, raw_key, raw_value))
