"""Offsets by timestamp are exact, whatever the order of the times, the codec and the segment."""

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.batch import HEADER_BYTES, Codec, frame, read_header
from barnabas.protocol.records import Record, build_batch, encode_record
from barnabas.storage.log_config import LogConfig, TimestampType
from tests.support.crash_disk import CrashDisk
from tests.unit.storage.logs import NOW, Owner, append, make_log, make_ports, offset_for_timestamp, replicate


def records_of(timestamps):
    return [Record(0, timestamp, b"k", b"v" * 9) for timestamp in timestamps]


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.sampled_from([Codec.NONE, Codec.GZIP])),
        min_size=1,
        max_size=15,
    ),
    st.booleans(),
    st.integers(0, 20),
)
def test_the_first_record_at_or_after_a_time_is_found(batches, closed, start):
    owner = Owner()
    disk = CrashDisk()
    config = LogConfig(segment_bytes=500, index_interval_bytes=100)
    log = make_log("", config, make_ports(disk, owner=owner))
    for timestamps, codec in batches:
        data = build_batch(records_of(timestamps), codec=codec)
        append(log, memoryview(bytearray(data)))
    if closed:
        owner.work()
    log.set_high_watermark(log.log_end_offset)
    log.advance_log_start_offset(min(start, log.log_end_offset))
    flat = [timestamp for timestamps, _ in batches for timestamp in timestamps]
    for wanted in range(32):
        expected = next(
            (
                (offset, timestamp)
                for offset, timestamp in enumerate(flat)
                if timestamp >= wanted and offset >= log.log_start_offset
            ),
            None,
        )
        found = offset_for_timestamp(log, wanted)
        assert (None if found is None else (found.offset, found.timestamp)) == expected


def test_of_a_batch_with_one_time_for_all_the_first_record_that_is_still_there_is_found(tmp_path):
    log = make_log(str(tmp_path), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    append(log, memoryview(bytearray(build_batch(records_of([1, 2, 3])))), now_ms=NOW)
    log.set_high_watermark(3)
    log.advance_log_start_offset(1)
    assert offset_for_timestamp(log, NOW).offset == 1


def test_a_record_is_found_with_the_epoch_it_was_written_in(tmp_path):
    log = make_log(str(tmp_path))
    replicate(log, build_batch(records_of([NOW]), base_offset=5, leader_epoch=3))
    found = offset_for_timestamp(log, NOW)
    assert (found.offset, found.leader_epoch) == (5, 3)


def test_records_without_timestamps_are_never_found(tmp_path):
    log = make_log(str(tmp_path))
    append(log, memoryview(bytearray(build_batch(records_of([-1, -1])))))
    assert offset_for_timestamp(log, 0) is None
    append(log, memoryview(bytearray(build_batch(records_of([0])))))
    assert offset_for_timestamp(log, 0).offset == 2


def test_with_log_append_time_all_records_of_a_batch_have_its_time(tmp_path):
    log = make_log(str(tmp_path))
    replicate(log, build_batch(records_of([1, 2]), log_append_time_ms=NOW))
    found = offset_for_timestamp(log, NOW)
    assert (found.offset, found.timestamp) == (0, NOW)


def test_a_batch_of_which_compaction_left_its_header_holds_no_record(tmp_path):
    log = make_log(str(tmp_path))
    empty = read_header(build_batch(records_of([NOW, NOW]), producer_id=7, producer_epoch=0, base_sequence=0))
    empty.record_count = 0
    replicate(log, frame(empty, b""))
    assert offset_for_timestamp(log, NOW) is None
    replicate(log, build_batch(records_of([NOW]), base_offset=2))
    assert offset_for_timestamp(log, NOW).offset == 2


def test_with_log_append_time_a_record_that_compaction_removed_is_not_found(tmp_path):
    log = make_log(str(tmp_path))
    removed, stays = (Record(offset, NOW, b"k", b"v") for offset in (0, 1))
    batch = build_batch([removed, stays], log_append_time_ms=NOW)
    header = read_header(batch)
    header.record_count = 1
    replicate(
        log, frame(header, batch[HEADER_BYTES + len(encode_record(removed, timestamp_delta=0, offset_delta=0)) :])
    )
    found = offset_for_timestamp(log, NOW - 5)
    assert (found.offset, found.timestamp) == (1, NOW)
