"""What a client's batch must be, and which error it is answered with (Kafka 2.7's, in its order)."""

import struct

import pytest

from barnabas.protocol.batch import Codec, read_header, seal, verify_crc
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import Record, build_batch
from barnabas.storage.append import AppendOrigin, AppendRejected, RecordError
from barnabas.storage.log_config import LogConfig, RecordValidation, TimestampType
from tests.unit.storage.logs import NOW, append, batch, make_log, offset_for_timestamp, read_bytes

LARGE = b"v" * 20_000


def changed(data, layout, position, value, *, sealed=True):
    """The batch with another value in its header, its checksum right unless not `sealed`."""
    struct.pack_into(layout, data, position, value)
    if sealed:
        seal(data, 0)
    return data


def rejected(log, data, now_ms=NOW):
    """The rejection; the log and the buffer are as they were."""
    before, end = bytes(data), log.log_end_offset
    with pytest.raises(AppendRejected) as raised:
        append(log, data, now_ms=now_ms)
    assert bytes(data) == before
    assert log.log_end_offset == end
    append(log, batch(b"the log still takes batches", timestamp=now_ms), now_ms=now_ms)
    return raised.value


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (memoryview(bytearray()), ErrorCode.INVALID_RECORD),
        (batch(b"a")[:40], ErrorCode.INVALID_RECORD),
        (batch(b"a" * 50)[:-1], ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">i", 8, 20, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(b"a"), ">b", 16, 1, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(b"a"), ">b", 16, 3, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(b"a"), ">I", 17, 12345, sealed=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch(b"a"), ">q", 0, 5, sealed=False), ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">i", 23, 4), ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">i", 57, 0), ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">h", 21, 0x20), ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">q", 43, 7), ErrorCode.INVALID_RECORD),
        (changed(batch(b"a"), ">h", 21, 0x08), ErrorCode.INVALID_TIMESTAMP),
        (changed(batch(b"a"), ">h", 21, 6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(batch(LARGE), ">h", 21, 6), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(batch(b"a"), ">b", 61, 2), ErrorCode.INVALID_RECORD),
        (memoryview(bytearray(bytes(batch(b"a")) * 2)), ErrorCode.INVALID_RECORD),
        (batch(b"a" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_each_wrong_batch_has_its_error_and_changes_nothing(tmp_path, data, error):
    assert rejected(make_log(str(tmp_path)), data).error is error


def test_size_is_judged_before_the_checksum_and_the_checksum_before_the_count(tmp_path):
    log = make_log(str(tmp_path), LogConfig(max_message_bytes=100))
    damaged = changed(batch(b"a" * 200), ">I", 17, 1, sealed=False)
    assert rejected(log, damaged).error is ErrorCode.MESSAGE_TOO_LARGE
    miscounted = changed(batch(b"a"), ">i", 57, 9, sealed=False)
    assert rejected(log, miscounted).error is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_greater_than_a_segment_is_refused(tmp_path):
    log = make_log(str(tmp_path), LogConfig(segment_bytes=200))
    assert rejected(log, batch(b"a" * 200)).error is ErrorCode.RECORD_LIST_TOO_LARGE
    assert len(log.segments) == 1


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_taken_and_kept(tmp_path, codec):
    log = make_log(str(tmp_path))
    data = bytes(batch(*[b"value %d" % number for number in range(50)], codec=codec))
    append(log, memoryview(bytearray(data)))
    assert read_bytes(log, 0)[21:] == data[21:]


def test_large_batches_are_walked_only_when_asked_for(tmp_path):
    broken = changed(batch(LARGE), ">b", 61, 2)
    append(make_log(str(tmp_path / "header")), memoryview(bytearray(broken)))
    log = make_log(str(tmp_path / "full"), LogConfig(record_validation=RecordValidation.FULL))
    assert rejected(log, broken).error is ErrorCode.INVALID_RECORD


def test_a_compacted_topic_refuses_records_without_a_key_by_their_place(tmp_path):
    log = make_log(str(tmp_path), LogConfig(compact=True, delete=False))
    records = [Record(0, NOW, key, LARGE) for key in (b"k", None, b"k", None)]
    data = memoryview(bytearray(build_batch(records)))
    with pytest.raises(AppendRejected) as raised:
        append(log, data)
    assert raised.value.error is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [1, 3]
    append(log, batch(b"v", key=b"k"))


@pytest.mark.parametrize("value", [b"a", LARGE])
def test_timestamps_too_far_from_the_brokers_are_refused_by_their_place(tmp_path, value):
    log = make_log(str(tmp_path), LogConfig(message_timestamp_difference_max_ms=1000))
    records = [Record(0, NOW + delta, b"k", value) for delta in (0, 1000, 1001, -1000, -1001)]
    with pytest.raises(AppendRejected) as raised:
        append(log, memoryview(bytearray(build_batch(records))))
    assert raised.value.error is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in raised.value.record_errors] == [2, 4]
    assert isinstance(raised.value.record_errors[0], RecordError)
    append(log, memoryview(bytearray(build_batch([records[1], records[3]]))))
    append(log, batch(b"no timestamp", timestamp=-1))


def test_with_log_append_time_the_producers_timestamps_do_not_matter(tmp_path):
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME, message_timestamp_difference_max_ms=1000)
    append(make_log(str(tmp_path), config), batch(b"a", timestamp=5))


def test_a_header_that_lies_about_the_greatest_timestamp_is_put_right(tmp_path):
    log = make_log(str(tmp_path))
    info = append(log, changed(batch(b"a", timestamp=NOW), ">q", 35, NOW + 999))
    data = read_bytes(log, 0)
    header = read_header(data)
    verify_crc(data, 0, header)
    assert (info.max_timestamp, header.max_timestamp) == (NOW, NOW)
    assert offset_for_timestamp(log, NOW + 1) is None


def test_a_duplicate_is_answered_with_its_original_and_not_written(tmp_path):
    log = make_log(str(tmp_path))
    append(log, batch(b"first"))
    original = append(log, batch(b"a", b"b", producer=(7, 0, 0), timestamp=NOW - 5))
    append(log, batch(b"c", producer=(7, 0, 2)))
    size = log.size_bytes
    duplicate = append(log, batch(b"a", b"b", producer=(7, 0, 0), timestamp=NOW - 5))
    assert duplicate.duplicate
    assert (duplicate.first_offset, duplicate.last_offset) == (original.first_offset, original.last_offset)
    assert duplicate.log_append_time_ms == NOW - 5
    assert (log.size_bytes, log.log_end_offset) == (size, 4)


def test_a_sequence_out_of_order_is_refused(tmp_path):
    log = make_log(str(tmp_path))
    append(log, batch(b"a", producer=(7, 1, 0)))
    assert rejected(log, batch(b"a", producer=(7, 1, 5))).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert rejected(log, batch(b"a", producer=(7, 0, 1))).error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_same_sequence_cannot_be_prepared_twice(tmp_path):
    log = make_log(str(tmp_path))
    log.prepare_append(batch(b"a"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW)
    with pytest.raises(AssertionError, match="an append is under way"):
        log.prepare_append(batch(b"b"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW)


def test_a_trailing_piece_of_a_batch_is_left_out(tmp_path):
    log = make_log(str(tmp_path))
    data = bytes(batch(b"a"))
    append(log, memoryview(bytearray(data + data[:30])))
    assert log.size_bytes == len(data)


@pytest.mark.parametrize(
    ("later", "error"),
    [
        (LogConfig(segment_bytes=300), ErrorCode.RECORD_LIST_TOO_LARGE),
        (LogConfig(max_message_bytes=300), ErrorCode.MESSAGE_TOO_LARGE),
        (LogConfig(message_timestamp_difference_max_ms=10), ErrorCode.INVALID_TIMESTAMP),
        (LogConfig(compact=True), ErrorCode.INVALID_RECORD),
        (LogConfig(compression=Codec.GZIP, max_message_bytes=60), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_a_duplicate_is_one_whatever_was_set_since(tmp_path, later, error):
    log = make_log(str(tmp_path))

    def sent(sequence):
        return batch(b"a" * 200, b"b" * 200, key=None, producer=(7, 0, sequence), timestamp=NOW - 5000)

    original = append(log, sent(0))
    log.config = later
    duplicate = append(log, sent(0))
    assert duplicate.duplicate
    assert (duplicate.first_offset, duplicate.last_offset) == (original.first_offset, original.last_offset)
    for wrong in (sent(2), changed(sent(0), ">I", 17, 12345, sealed=False)):
        with pytest.raises(AppendRejected) as raised:
            append(log, wrong)
        assert raised.value.error in (error, ErrorCode.CORRUPT_MESSAGE)
    assert log.log_end_offset == 2
