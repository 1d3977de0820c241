"""Batches of so many records that to look at all of them would hold the event loop: they are looked at in turns."""

import struct

import pytest

from barnabas.protocol.batch import Codec, InvalidRecord, read_header, seal, verify_crc
from barnabas.protocol.compression import compress
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import Record, build_batch, walk_records
from barnabas.storage.append import AppendOrigin, AppendRejected, LongConversion
from barnabas.storage.append_conversion import LONG_WALK_RECORDS
from barnabas.storage.log_config import LogConfig, RecordValidation, TimestampType
from tests.unit.storage.logs import NOW, append, make_log, read_bytes

MANY = LONG_WALK_RECORDS + 1
COMPACTED = LogConfig(compact=True, delete=False)
FULL = LogConfig(record_validation=RecordValidation.FULL)


def long_batch(codec: Codec = Codec.NONE, *, keyless: int | None = None) -> bytearray:
    records = [Record(i, NOW + i % 7, None if i == keyless else b"%d" % i, b"v") for i in range(MANY)]
    return bytearray(build_batch(records, codec=codec))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_a_long_batch_is_stored_as_it_was_sent_but_for_its_place(tmp_path, codec):
    log = make_log(tmp_path, COMPACTED)
    append(log, memoryview(bytearray(build_batch([Record(0, NOW, b"k", b"first")]))), leader_epoch=3)
    sent = long_batch(codec)
    expected = bytearray(sent)
    struct.pack_into(">qii", expected, 0, 1, len(sent) - 12, 4)
    info = append(log, memoryview(sent), leader_epoch=4)
    assert (info.first_offset, info.last_offset, info.max_timestamp) == (1, MANY, NOW + 6)
    assert info.rebuilt_records == 0
    assert read_bytes(log, 1) == bytes(expected)


@pytest.mark.parametrize(("config", "waits"), [(COMPACTED, True), (FULL, True), (LogConfig(), False)])
def test_only_what_has_to_be_looked_at_is_put_off(tmp_path, config, waits):
    log = make_log(tmp_path, config)
    asked = {"leader_epoch": 0, "origin": AppendOrigin.CLIENT, "now_ms": NOW}
    if waits:
        with pytest.raises(LongConversion):
            log.prepare_append(memoryview(long_batch()), **asked)
    else:
        assert log.prepare_append(memoryview(long_batch()), **asked).first_offset == 0


def test_a_bad_record_is_told_by_its_place(tmp_path):
    log = make_log(tmp_path, COMPACTED)
    with pytest.raises(AppendRejected, match="one or more records have been rejected") as raised:
        append(log, memoryview(long_batch(Codec.GZIP, keyless=MANY - 2)))
    assert raised.value.error is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [MANY - 2]
    assert log.log_end_offset == 0


def test_records_that_do_not_count_from_zero_are_refused(tmp_path):
    log = make_log(tmp_path, FULL)
    data = long_batch()
    # The last record says that it is the one after the next.
    assert data[-10:-8] == b"\x90N"
    data[-10] = 0x94
    seal(data, 0)
    with pytest.raises(AppendRejected, match="offset delta") as raised:
        append(log, memoryview(data))
    assert raised.value.error is ErrorCode.INVALID_RECORD


def test_a_header_that_lies_about_the_greatest_timestamp_is_put_right(tmp_path):
    log = make_log(tmp_path, FULL)
    data = long_batch()
    struct.pack_into(">q", data, 35, NOW + 99)
    seal(data, 0)
    assert append(log, memoryview(data)).max_timestamp == NOW + 6
    stored = read_bytes(log, 0)
    header = read_header(stored)
    verify_crc(stored, 0, header)
    assert header.max_timestamp == NOW + 6


def test_the_brokers_time_is_that_of_all_records(tmp_path):
    config = LogConfig(record_validation=RecordValidation.FULL, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = make_log(tmp_path, config)
    info = append(log, memoryview(long_batch()), now_ms=NOW + 1000)
    assert (info.log_append_time_ms, info.max_timestamp) == (NOW + 1000, NOW + 1000)
    stored = read_bytes(log, 0)
    header = read_header(stored)
    verify_crc(stored, 0, header)
    assert header.uses_log_append_time


def test_what_follows_the_last_record_is_not_inflated_to_the_end():
    one = build_batch([Record(0, NOW, None, b"v")])
    inflated = one[61:] + bytes(64 * 1024 * 1024)
    payload = compress(Codec.GZIP, inflated)
    header = read_header(one)
    header.attributes |= Codec.GZIP
    with pytest.raises(InvalidRecord, match=r"^\d{1,7} bytes follow"):
        walk_records(memoryview(payload), header, 512 * 1024 * 1024, None)
