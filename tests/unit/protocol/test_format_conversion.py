"""Down-conversion of what a log holds, for consumers of older formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import BatchHeader, Codec, CorruptBatch, InvalidRecord, frame, read_header
from barnabas.protocol.compression import DecompressionBomb, compress
from barnabas.protocol.entries import iterate_entries, read_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.format_conversion import ConversionRefused, convert_down
from barnabas.protocol.message_set import encode_message
from barnabas.protocol.records import (
    ControlRecordType,
    EndTxnMarker,
    Record,
    build_batch,
    build_end_txn_marker,
)
from tests.unit.protocol.old_formats import (
    AMPLE,
    OLD_CODECS,
    REAL_OLD_CODECS,
    as_format,
    build,
    converted,
    headers,
    read,
    records_at_rising_offsets,
)

DOWNWARDS = [(2, 1), (2, 0), (1, 0)]
SOME = [Record(7, 1000, b"k", b"v", (("h", b"x"),)), Record(8, 3000, None, b""), Record(11, 2000, b"", None)]


@given(records_at_rising_offsets(), st.sampled_from(DOWNWARDS), st.sampled_from(OLD_CODECS))
def test_a_conversion_is_what_would_have_been_built(
    records: list[Record], formats: tuple[int, int], codec: Codec
) -> None:
    from_magic, to_magic = formats
    made = converted(build(records, magic=from_magic, codec=codec), to_magic)
    assert made == build(records, magic=to_magic, codec=codec)
    assert read(made) == [as_format(record, to_magic) for record in records]


@pytest.mark.parametrize("codec", OLD_CODECS)
@pytest.mark.parametrize("formats", DOWNWARDS)
def test_the_brokers_time_stays_the_brokers(formats: tuple[int, int], codec: Codec) -> None:
    from_magic, to_magic = formats
    made = converted(build(SOME, magic=from_magic, codec=codec, log_append_time_ms=9000), to_magic)
    assert {record.timestamp for record in read(made)} == {9000 if to_magic else -1}
    assert all(header.uses_log_append_time == (to_magic == 1) for header in headers(made))


@pytest.mark.parametrize(("codec", "left"), [(Codec.NONE, [8, 11]), (Codec.GZIP, [7, 8, 11])])
def test_records_below_the_offset_asked_for_go_where_no_batch_holds_them(codec: Codec, left: list[int]) -> None:
    stored = build(SOME, magic=2, codec=codec)
    assert [record.offset for record in read(converted(stored, 1, first_offset=8))] == left
    assert converted(build(SOME, magic=2), 1, first_offset=12) == b""


def test_headers_are_dropped() -> None:
    assert [record.headers for record in read(converted(build(SOME, magic=2), 1))] == [(), (), ()]


def test_control_batches_are_left_out() -> None:
    marker = EndTxnMarker(ControlRecordType.COMMIT, 0)
    batch = build_end_txn_marker(marker, producer_id=1, producer_epoch=0, timestamp=5, base_offset=12)
    assert [record.offset for record in read(converted(build(SOME, magic=2) + batch, 1))] == [7, 8, 11]


def test_an_empty_batch_as_compaction_leaves_it_becomes_nothing() -> None:
    assert converted(frame(BatchHeader(3, 0, 0, 2, 0, 0, 4, 0, 0, 9, 0, 0, 0), b""), 0) == b""


def test_a_wrapper_of_compacted_records_keeps_its_offsets() -> None:
    kept = [SOME[0], SOME[2]]
    assert [record.offset for record in read(converted(build(kept, magic=1, codec=Codec.GZIP), 0))] == [7, 11]


def refusal(data: bytes, to_magic: int) -> ConversionRefused:
    with pytest.raises(ConversionRefused) as caught:
        converted(data, to_magic)
    return caught.value


def test_zstd_is_refused() -> None:
    error = refusal(build_batch([Record(0, 0, None, b"v")], codec=Codec.ZSTD), 1)
    assert error.error is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_offsets_that_do_not_rise_within_a_wrapper_are_damage() -> None:
    content = b"".join(encode_message(at, 5, None, b"v", magic=0) for at in (4, 4))
    wrapper = encode_message(4, 5, None, compress(Codec.GZIP, content), magic=0, attributes=Codec.GZIP)
    assert [record.offset for record in read(wrapper)] == [4, 4]
    inner = b"".join(encode_message(at, 5, None, b"v", magic=1) for at in (1, 0))
    wrapper = encode_message(4, 5, None, compress(Codec.GZIP, inner), magic=1, attributes=Codec.GZIP)
    with pytest.raises(InvalidRecord, match="offset 4 follows 5"):
        converted(wrapper, 0)


def test_a_timestamp_that_the_old_formats_cannot_say_is_refused() -> None:
    assert refusal(build_batch([Record(0, -2, None, b"v")]), 0).error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", REAL_OLD_CODECS)
def test_bombs_are_refused(codec: Codec) -> None:
    for magic in (1, 2):
        data = build([Record(i, 0, None, bytes(1000)) for i in range(1000)], magic=magic, codec=codec)
        with pytest.raises(DecompressionBomb):
            list(convert_down(data, 0, read_entry(data), to_magic=0, first_offset=0, max_inflated_bytes=900_000))


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_conversion_of_many_records_is_many_steps(codec: Codec) -> None:
    data = build([Record(i, 0, None, b"v") for i in range(5000)], magic=2, codec=codec)
    steps = convert_down(data, 0, read_header(data), to_magic=1, first_offset=0, max_inflated_bytes=AMPLE)
    assert len(list(steps)) >= 10


@given(records_at_rising_offsets(), st.sampled_from(DOWNWARDS), st.sampled_from(OLD_CODECS), st.data())
def test_mangled_entries_are_converted_or_refused(
    records: list[Record], formats: tuple[int, int], codec: Codec, data: st.DataObject
) -> None:
    stored = bytearray(build(records, magic=formats[0], codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(17, len(stored) - 1))] = data.draw(st.integers(0, 255))
    try:
        made = converted(stored, formats[1])
    except (CorruptBatch, ConversionRefused):
        return
    assert all(header.magic <= formats[1] for _, header in iterate_entries(made))
