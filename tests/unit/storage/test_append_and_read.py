"""Appending and reading back: offsets, bounds, rolling."""

import struct

import pytest
from crc32c import crc32c

from barnabas.protocol.batch import read_header, verify_crc
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.append import AppendOrigin, AppendRejected, UnexpectedOffset
from barnabas.storage.log import LogOffline
from barnabas.storage.log_config import LogConfig, TimestampType
from barnabas.storage.read import OffsetOutOfRange
from tests.unit.storage.logs import NOW, append, batch, make_log, make_ports, read_bytes, replicate


def test_batches_get_consecutive_offsets_and_come_back_as_sent(tmp_path):
    log = make_log(str(tmp_path))
    first = append(log, batch(b"a", b"b"), leader_epoch=3)
    second = append(log, batch(b"c"), leader_epoch=3)
    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    data = read_bytes(log, 0)
    header = read_header(data)
    assert (header.base_offset, header.leader_epoch) == (0, 3)
    verify_crc(data, 0, header)
    later = read_header(data, header.size_bytes)
    assert later.base_offset == 2
    verify_crc(data, header.size_bytes, later)


def test_a_read_from_inside_a_batch_starts_with_that_batch(tmp_path):
    log = make_log(str(tmp_path))
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c", b"d"))
    assert read_header(read_bytes(log, 3)).base_offset == 1


def test_a_read_ends_below_the_upper_bound(tmp_path):
    log = make_log(str(tmp_path))
    one = len(batch(b"a"))
    for _ in range(5):
        append(log, batch(b"a"))
    assert len(read_bytes(log, 0, upper=3)) == 3 * one
    assert read_bytes(log, 3, upper=3) == b""
    assert read_bytes(log, 4, upper=3) == b""
    append(log, batch(b"a", b"b"))
    assert len(read_bytes(log, 0, upper=6)) == 5 * one, "the batch that holds the bound is not given"


def test_the_last_batch_may_be_cut_but_the_first_is_whole(tmp_path):
    log = make_log(str(tmp_path))
    one = len(batch(b"a" * 100))
    for _ in range(3):
        append(log, batch(b"a" * 100))
    assert len(read_bytes(log, 0, max_bytes=one + 10)) == one + 10
    assert len(read_bytes(log, 0, max_bytes=10)) == one
    read = log.read(0, max_bytes=10, upper_bound_offset=3, min_one_batch=False)
    assert (len(read), read.first_batch_incomplete) == (10, True)
    assert len(log.read(0, max_bytes=0, upper_bound_offset=3, min_one_batch=False)) == 0


def test_offsets_outside_of_the_log_are_refused(tmp_path):
    log = make_log(str(tmp_path))
    append(log, batch(b"a"))
    assert read_bytes(log, 1) == b""
    with pytest.raises(OffsetOutOfRange):
        read_bytes(log, 2)
    log.advance_high_watermark(1)
    log.advance_log_start_offset(1)
    with pytest.raises(OffsetOutOfRange):
        read_bytes(log, 0)


def test_a_slice_ends_where_its_segment_ends(tmp_path):
    one = len(batch(b"a" * 200))
    log = make_log(str(tmp_path), LogConfig(segment_bytes=3 * one))
    for _ in range(7):
        append(log, batch(b"a" * 200))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [read_header(read_bytes(log, offset)).base_offset for offset in range(7)] == list(range(7))
    assert [len(read_bytes(log, offset)) // one for offset in range(7)] == [3, 2, 1, 3, 2, 1, 1]


def test_a_follower_keeps_the_leaders_bytes_and_leaves_out_a_cut_batch(tmp_path):
    log = make_log(str(tmp_path))
    first = bytes(batch(b"a", b"b", base_offset=10, leader_epoch=4))
    second = bytes(batch(b"c", base_offset=15, leader_epoch=5))
    info = replicate(log, first + second + second[:30])
    assert (info.first_offset, info.last_offset, info.size_bytes) == (10, 15, len(first + second))
    log.segments.active.base_offset = 0
    assert read_bytes(log, 3) == first + second
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(4, 10), (5, 15)]


def test_a_follower_refuses_batches_that_go_back(tmp_path):
    log = make_log(str(tmp_path))
    replicate(log, batch(b"a", b"b", base_offset=10))
    with pytest.raises(UnexpectedOffset):
        replicate(log, batch(b"a", b"b", base_offset=11))
    with pytest.raises(AppendRejected):
        replicate(log, bytes(batch(b"a", base_offset=12)) + bytes(batch(b"a", base_offset=12)))
    damaged = bytearray(batch(b"a", base_offset=12))
    damaged[-1] ^= 1
    with pytest.raises(AppendRejected) as refused:
        replicate(log, damaged)
    assert refused.value.error is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 12


def with_last_offset_delta(data, delta):
    """The batch with another offset delta, and the checksum that fits."""
    changed = bytearray(data)
    struct.pack_into(">i", changed, 23, delta)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def test_a_follower_refuses_a_batch_that_ends_before_it_begins(tmp_path):
    log = make_log(str(tmp_path))
    good = bytes(batch(b"a", base_offset=10))
    bad = with_last_offset_delta(batch(b"a", base_offset=11), -1)
    with pytest.raises(UnexpectedOffset):
        replicate(log, bad)
    with pytest.raises(AppendRejected):
        replicate(log, good + bad)
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_a_follower_appends_at_once_no_more_than_a_segment_can_count(tmp_path):
    log = make_log(str(tmp_path))
    start, end = batch(b"a", base_offset=10), 10 + 2**31 - 1
    beyond = replicate(log, bytes(start) + bytes(batch(b"b", b"c", base_offset=end)))
    assert (beyond.first_offset, beyond.last_offset, beyond.size_bytes) == (10, 10, len(start))
    other = make_log(str(tmp_path / "other"))
    within = replicate(other, bytes(start) + bytes(batch(b"b", b"c", base_offset=end - 1)))
    assert (within.first_offset, within.last_offset) == (10, end)


def test_log_append_time_is_stamped_and_answered(tmp_path):
    log = make_log(str(tmp_path), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    info = append(log, batch(b"a", timestamp=5), now_ms=NOW + 1)
    data = read_bytes(log, 0)
    header = read_header(data)
    verify_crc(data, 0, header)
    assert (info.log_append_time_ms, header.max_timestamp, header.uses_log_append_time) == (NOW + 1, NOW + 1, True)


def test_a_log_whose_write_failed_takes_and_gives_nothing_more(tmp_path):
    log = make_log(str(tmp_path), ports=make_ports())
    append(log, batch(b"a"))
    prepared = log.prepare_append(batch(b"b"), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW)
    prepared.file.close()
    with pytest.raises(OSError, match="descriptor"):
        log.write(prepared)
    with pytest.raises(LogOffline):
        append(log, batch(b"c"))
    with pytest.raises(LogOffline):
        read_bytes(log, 0)
    assert log.log_end_offset == 1
