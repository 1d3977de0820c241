"""What a client's set becomes in a topic of another message format or codec, and what is refused on the way."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.batch import Codec, read_header
from barnabas.protocol.compression import compress
from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.message_set import encode_message
from barnabas.protocol.records import Record, build_batch
from barnabas.protocol.steps import complete
from barnabas.storage.append_checks import AppendRejected
from barnabas.storage.append_conversion import ConvertedSet, Placing, convert
from barnabas.storage.log_config import LogConfig, TimestampType
from tests.unit.protocol.old_formats import (
    OLD_CODECS,
    REAL_OLD_CODECS,
    as_format,
    build,
    headers,
    read,
    records_at_rising_offsets,
)

NOW = 1_600_000_000_000
BASE = 1000
SOME = [Record(0, NOW, b"k", b"v"), Record(1, NOW + 5, None, b""), Record(2, NOW + 1, b"", None)]
LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def stored(data: bytes, config: LogConfig, *, from_client: bool = True) -> ConvertedSet:
    placing = Placing(config, BASE, 7, from_client, NOW + 9)
    made = complete(convert(memoryview(bytearray(data)), placing))
    sizes = sum(header.size_bytes for header in made.headers)
    assert (sizes, made.headers[0].base_offset) == (len(made.data), BASE)
    for header, after in zip(made.headers, made.headers[1:], strict=False):
        assert header.next_offset == after.base_offset
    assert made.headers[-1].last_offset == headers(made.data)[-1].last_offset
    return made


def refusal(data: bytes, config: LogConfig | None = None) -> AppendRejected:
    with pytest.raises(AppendRejected) as caught:
        stored(data, config or LogConfig(message_format=1))
    return caught.value


def sent(records: list[Record]) -> list[Record]:
    """As a producer numbers them."""
    return [replace(record, offset=index) for index, record in enumerate(records)]


FORMATS = st.sampled_from((0, 1, 2))
CONFIGS = st.builds(
    LogConfig,
    message_format=FORMATS,
    compression=st.sampled_from((None, *OLD_CODECS)),
    message_timestamp_type=st.sampled_from(TimestampType),
)


@given(records_at_rising_offsets(), FORMATS, st.sampled_from(OLD_CODECS), CONFIGS)
def test_all_records_arrive_in_the_topics_format_and_codec(
    records: list[Record], magic: int, codec: Codec, config: LogConfig
) -> None:
    made = stored(build(sent(records), magic=magic, codec=codec), config)
    by_broker = config.message_timestamp_type is LOG_APPEND_TIME
    expected = []
    for index, record in enumerate(records):
        timestamp = as_format(record, magic).timestamp
        time = NOW + 9 if by_broker else timestamp
        expected.append(Record(BASE + index, time if config.message_format else -1, record.key, record.value))
    assert read(made.data) == expected
    found = headers(made.data)
    assert {header.magic for header in found} == {config.message_format}
    assert {header.codec for header in found} == {codec if config.compression is None else config.compression}
    newest = max(record.timestamp for record in expected)
    assert made.max_timestamp == (NOW + 9 if by_broker else newest)
    assert made.log_append_time_ms == (NOW + 9 if by_broker else -1)
    if config.message_format == 2:
        assert found[0].leader_epoch == 7
    elif found[0].codec is Codec.NONE:
        assert len(found) == len(records)


def test_producers_stay_with_batches_that_are_compressed_anew() -> None:
    batch = build_batch(SOME, producer_id=8, producer_epoch=2, base_sequence=77, transactional=True)
    made = stored(batch, LogConfig(compression=Codec.ZSTD))
    header = read_header(made.data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 2, 77)
    assert (header.is_transactional, header.codec, header.base_offset) == (True, Codec.ZSTD, BASE)
    assert made.rebuilt_records == 3


def test_headers_of_records_survive_recompression() -> None:
    record = Record(0, 5, b"k", b"v", (("a", b"b"), ("c", None)))
    made = stored(build_batch([record]), LogConfig(compression=Codec.GZIP))
    assert read(made.data)[0].headers == record.headers


@pytest.mark.parametrize("codec", REAL_OLD_CODECS)
@pytest.mark.parametrize("by_broker", [False, True])
def test_a_wrapper_that_counts_from_0_is_placed_where_it_stands(codec: Codec, by_broker: bool) -> None:
    data = build(SOME, magic=1, codec=codec)
    kind = LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME
    made = stored(data, LogConfig(message_format=1, message_timestamp_type=kind))
    # Offset, checksum, attributes and time are new; what is compressed is not.
    assert bytes(made.data[26:]) == data[26:]
    assert made.rebuilt_records == 0


@pytest.mark.parametrize("first", [1, 5])
def test_a_wrapper_of_an_old_client_that_counts_otherwise_is_written_anew(first: int) -> None:
    records = [replace(record, offset=first + 2 * index) for index, record in enumerate(SOME)]
    content = b"".join(
        encode_message(record.offset, record.timestamp, record.key, record.value, magic=1) for record in records
    )
    data = encode_message(0, NOW, None, compress(Codec.GZIP, content), magic=1, attributes=Codec.GZIP)
    made = stored(data, LogConfig(message_format=1))
    assert [record.offset for record in read(made.data)] == [BASE, BASE + 1, BASE + 2]
    assert made.rebuilt_records == 3


def test_a_wrapper_that_an_old_librdkafka_leaves_at_offset_0_is_placed() -> None:
    data = bytearray(build(SOME, magic=1, codec=Codec.GZIP))
    data[:8] = bytes(8)
    made = stored(bytes(data), LogConfig(message_format=1))
    assert [record.offset for record in read(made.data)] == [BASE, BASE + 1, BASE + 2]
    assert made.rebuilt_records == 0


def test_a_wrapper_of_format_0_is_written_anew_for_its_offsets_are_absolute() -> None:
    made = stored(build(SOME, magic=0, codec=Codec.LZ4), LogConfig(message_format=0))
    assert [record.offset for record in read(made.data)] == [BASE, BASE + 1, BASE + 2]
    assert made.rebuilt_records == 3


def test_plain_messages_in_a_row_share_a_header_up_to_the_distance_of_index_entries() -> None:
    data = build([Record(i, NOW + i, None, b"v" * 70) for i in range(100)], magic=1)
    made = stored(data, LogConfig(message_format=1, index_interval_bytes=1000))
    assert all(header.size_bytes <= 1000 for header in made.headers)
    assert len(made.headers) == 12
    assert [header.max_timestamp for header in made.headers][-1] == NOW + 99


def test_a_message_that_is_cut_at_the_end_of_the_set_is_left_out() -> None:
    data = build(SOME, magic=1)
    assert len(read(stored(data[:-1], LogConfig(message_format=1)).data)) == 2
    assert len(read(stored(data[:-1], LogConfig()).data)) == 2


def test_a_time_below_minus_1_is_none_where_a_message_is_placed() -> None:
    data = encode_message(0, -5, None, b"v", magic=1)
    made = stored(data, LogConfig(message_format=1))
    assert [record.timestamp for record in read(made.data)] == [-1]
    assert refusal(data, LogConfig()).error is ErrorCode.UNKNOWN_SERVER_ERROR


OLD, MIDDLE, NEW = (LogConfig(message_format=magic) for magic in (0, 1, 2))
COMPACTED = LogConfig(message_format=1, compact=True)
LIMITED = LogConfig(message_format=1, message_timestamp_difference_max_ms=100)
BATCH = build_batch([Record(0, NOW, b"k", b"v")])
STAMPED = build(SOME, magic=1, log_append_time_ms=5)
STAMPED_WRAPPER = build(SOME, magic=1, codec=Codec.GZIP, log_append_time_ms=5)
TWO_WRAPPERS = build(SOME, magic=1, codec=Codec.GZIP) * 2


def damaged(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("config", [OLD, MIDDLE, NEW])
@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(build(SOME, magic=1)[:20], ErrorCode.INVALID_RECORD, id="no whole message"),
        pytest.param(damaged(build(SOME, magic=1), -1), ErrorCode.CORRUPT_MESSAGE, id="checksum of the last"),
        pytest.param(build(SOME, magic=0)[:8] + bytes(30), ErrorCode.CORRUPT_MESSAGE, id="length 0"),
        pytest.param(damaged(build(SOME, magic=1), 16 + 0)[:60], ErrorCode.CORRUPT_MESSAGE, id="checksum of format"),
        pytest.param(build(SOME, magic=1)[:16] + b"\x03" + bytes(60), ErrorCode.CORRUPT_MESSAGE, id="format 3"),
        pytest.param(TWO_WRAPPERS, ErrorCode.INVALID_RECORD, id="two wrappers"),
        pytest.param(build(SOME, magic=1) + build(SOME, magic=1, codec=Codec.GZIP), ErrorCode.INVALID_RECORD, id="mix"),
        pytest.param(build(SOME, magic=0) + build(SOME, magic=1), ErrorCode.INVALID_RECORD, id="two formats"),
        pytest.param(STAMPED, ErrorCode.INVALID_TIMESTAMP, id="broker's time"),
        pytest.param(STAMPED_WRAPPER, ErrorCode.INVALID_TIMESTAMP, id="broker's time, wrapped"),
        pytest.param(
            encode_message(0, 0, None, b"v", magic=1, attributes=4), ErrorCode.INVALID_RECORD, id="zstd wrapper"
        ),
        pytest.param(
            encode_message(0, 0, None, b"v", magic=1, attributes=5),
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            id="codec 5",
        ),
        pytest.param(encode_message(0, 0, None, None, magic=1, attributes=1), ErrorCode.INVALID_RECORD, id="null"),
        pytest.param(
            encode_message(0, 0, None, compress(Codec.GZIP, b""), magic=0, attributes=1),
            ErrorCode.INVALID_RECORD,
            id="empty wrapper",
        ),
        pytest.param(
            encode_message(0, 0, None, compress(Codec.GZIP, damaged(build(SOME, magic=1), 30)), magic=1, attributes=1),
            ErrorCode.CORRUPT_MESSAGE,
            id="checksum within",
        ),
        pytest.param(
            encode_message(0, 0, None, compress(Codec.GZIP, build(SOME, magic=0)), magic=1, attributes=1),
            ErrorCode.INVALID_RECORD,
            id="format 0 within",
        ),
        pytest.param(
            encode_message(0, 0, None, compress(Codec.GZIP, TWO_WRAPPERS), magic=1, attributes=1),
            ErrorCode.INVALID_RECORD,
            id="nested",
        ),
    ],
)
def test_sets_that_no_format_takes(data: bytes, error: ErrorCode, config: LogConfig) -> None:
    assert refusal(data, config).error is error


@pytest.mark.parametrize(
    ("data", "config", "error"),
    [
        (build_batch(SOME, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), MIDDLE, 43),
        (build_batch(SOME, producer_id=1, producer_epoch=0, base_sequence=0), OLD, 43),
        (build_batch(SOME, producer_id=1, producer_epoch=0), MIDDLE, 87),
        (build_batch(SOME, control=True), MIDDLE, 87),
        (build_batch(SOME, base_offset=1), MIDDLE, 87),
        (BATCH + BATCH, MIDDLE, 87),
        (build_batch([Record(0, 0, None, b"v", (("a", b"b"),))]), MIDDLE, -1),
        (build_batch(SOME, codec=Codec.ZSTD), MIDDLE, -1),
        (BATCH, LogConfig(message_format=0, compression=Codec.ZSTD), -1),
        (build(SOME, magic=1), COMPACTED, 87),
        (build(SOME, magic=1, codec=Codec.GZIP), COMPACTED, 87),
        (build(SOME, magic=0), replace(COMPACTED, message_format=2), 87),
        (build([Record(0, NOW - 92, None, b"v")], magic=1), LIMITED, 32),
        (build([Record(0, NOW + 110, None, b"v")], magic=1, codec=Codec.LZ4), LIMITED, 32),
        (build([Record(0, NOW, None, b"v" * 300)], magic=1), LogConfig(message_format=1, max_message_bytes=300), 10),
        (build([Record(0, NOW, None, b"v" * 270)], magic=0), LogConfig(message_format=1, max_message_bytes=300), 10),
        (build([Record(0, NOW, None, b"v" * 260)], magic=1), LogConfig(max_message_bytes=320), 10),
    ],
)
def test_sets_that_this_topic_does_not_take(data: bytes, config: LogConfig, error: int) -> None:
    assert refusal(data, config).error == error


def test_messages_of_format_0_have_no_time_to_be_wrong() -> None:
    assert len(read(stored(build(SOME, magic=0), LIMITED).data)) == 3


def test_what_counts_against_the_greatest_size_is_compressed() -> None:
    records = [Record(i, NOW, None, b"v" * 500) for i in range(40)]
    small = LogConfig(compression=Codec.GZIP, max_message_bytes=600, message_format=1)
    for magic in (1, 2):
        data = build(records, magic=magic, codec=Codec.LZ4)
        assert len(data) < 600
        assert headers(stored(data, small).data)[0].codec is Codec.GZIP
    assert refusal(data, replace(small, compression=Codec.NONE, message_format=2)).error is ErrorCode.MESSAGE_TOO_LARGE
    # Plain messages are each judged alone.
    assert len(headers(stored(data, replace(small, compression=Codec.NONE)).data)) == 40


def test_plain_messages_that_fill_more_than_a_segment_are_refused_while_they_are_made() -> None:
    data = build([Record(i, NOW, None, b"v" * 500) for i in range(400)], magic=1, codec=Codec.GZIP)
    config = LogConfig(message_format=1, compression=Codec.NONE, segment_bytes=100_000)
    assert refusal(data, config).error is ErrorCode.RECORD_LIST_TOO_LARGE


def test_every_bad_record_of_a_batch_is_told_by_its_place() -> None:
    records = [Record(i, NOW + (500 if i == 800 else 0), None if i in {3, 700} else b"k", b"v") for i in range(900)]
    config = LogConfig(compact=True, message_timestamp_difference_max_ms=100, compression=Codec.GZIP)
    error = refusal(build_batch(records), config)
    assert error.error is ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in error.record_errors] == [3, 700, 800]
    keyless = refusal(build_batch(records[:800]), config)
    assert keyless.error is ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in keyless.record_errors] == [3, 700]


def test_a_large_set_is_many_steps() -> None:
    for magic, codec in ((0, Codec.NONE), (1, Codec.NONE), (1, Codec.GZIP), (2, Codec.NONE)):
        data = build([Record(i, NOW, None, b"v") for i in range(5000)], magic=magic, codec=codec)
        for config in (OLD, MIDDLE, LogConfig(compression=Codec.ZSTD)):
            steps = convert(memoryview(bytearray(data)), Placing(config, 0, 0, True, NOW))
            assert len(list(steps)) >= 8, (magic, codec, config.message_format)


@given(st.binary(max_size=150), FORMATS, CONFIGS)
def test_random_bytes_are_refused_with_an_error_of_the_protocol(data: bytes, magic: int, config: LogConfig) -> None:
    for mangled in (
        data,
        build(SOME, magic=magic)[:17] + data,
        encode_message(0, 0, None, data, magic=1, attributes=2),
    ):
        try:
            made = stored(mangled, config)
        except AppendRejected:
            continue
        assert list(iterate_entries(made.data))
