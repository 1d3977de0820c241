"""Rolling, deletion, open files and slices that outlive their segment."""

import os

import pytest

from barnabas.runtime.disk import SystemDisk
from barnabas.storage.log_config import LogConfig
from barnabas.storage.open_files import OpenFiles
from tests.support.clock import ManualClock
from tests.unit.storage.logs import (
    NOW,
    Owner,
    append,
    batch,
    make_log,
    make_ports,
    offset_for_timestamp,
    read_bytes,
    replicate,
)

ONE = len(batch(b"v" * 20))
MINUTE = 60_000


def add(log, number, *, timestamp=None, now_ms=NOW):
    append(log, batch(b"v" * 20, timestamp=NOW + number if timestamp is None else timestamp), now_ms=now_ms)


def bases(log):
    return [segment.base_offset for segment in log.segments]


def test_a_segment_is_rolled_before_it_would_grow_too_great(tmp_path):
    log = make_log(str(tmp_path), LogConfig(segment_bytes=2 * ONE))
    for number in range(5):
        add(log, number)
    assert bases(log) == [0, 2, 4]
    assert max(segment.size_bytes for segment in log.segments) == 2 * ONE


def test_a_segment_is_rolled_by_the_age_of_its_records(tmp_path):
    log = make_log(str(tmp_path), LogConfig(segment_ms=MINUTE))
    for timestamp in (0, MINUTE, MINUTE + 1, 2 * MINUTE + 1, 2 * MINUTE + 2, 5):
        add(log, 0, timestamp=timestamp)
    assert bases(log) == [0, 2, 4]


def test_without_timestamps_a_segment_is_rolled_by_the_clock(tmp_path):
    clock = ManualClock(NOW)
    log = make_log(str(tmp_path), LogConfig(segment_ms=MINUTE), make_ports(clock=clock))
    for age in (0, MINUTE, MINUTE + 1):
        add(log, 0, timestamp=-1, now_ms=NOW + age)
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier_but_not_later(tmp_path):
    log = make_log(str(tmp_path), LogConfig(segment_ms=MINUTE, segment_jitter_ms=MINUTE // 2))
    jitter = log.segments.active.roll_jitter_ms
    assert 0 < jitter < MINUTE // 2
    for timestamp in (0, MINUTE - jitter, MINUTE - jitter + 1):
        add(log, 0, timestamp=timestamp)
    assert bases(log) == [0, 2]


def test_a_full_index_rolls(tmp_path):
    log = make_log(str(tmp_path), LogConfig(segment_index_bytes=24, index_interval_bytes=1))
    for number in range(9):
        add(log, number, timestamp=-1)
    # Three entries fill the index; the first batch of a segment gets none.
    assert bases(log) == [0, 4, 8]
    rising = make_log(str(tmp_path / "rising"), LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    for number in range(9):
        add(rising, number)
    assert bases(rising) == [0, 4, 8], "the time index keeps a slot for its last entry"


def test_offsets_too_far_from_the_base_roll(tmp_path):
    log = make_log(str(tmp_path))
    replicate(log, batch(b"a", base_offset=0))
    replicate(log, batch(b"a", base_offset=2**31 - 1))
    assert bases(log) == [0]
    replicate(log, batch(b"a", base_offset=2**31))
    replicate(log, batch(b"a", base_offset=2**40))
    assert bases(log) == [0, 2**31, 2**40]
    for offset in (0, 2**31 - 1, 2**31, 2**40):
        assert len(read_bytes(log, offset)) > 0


def retained(tmp_path, config, count=6):
    owner = Owner()
    log = make_log(str(tmp_path), config, make_ports(owner=owner))
    for number in range(count):
        add(log, number)
    log.advance_high_watermark(count)
    return log, owner


def test_retention_renames_at_once_and_removes_after_the_delay(tmp_path):
    log, owner = retained(tmp_path, LogConfig(segment_bytes=2 * ONE, retention_bytes=3 * ONE))
    assert log.delete_old_segments(NOW) == 1
    assert (log.log_start_offset, bases(log)) == (2, [2, 4])
    assert owner.doomed[0][1] == 60_000
    names = os.listdir(tmp_path / "topic-0")
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.log" not in names
    owner.work()
    assert not [name for name in os.listdir(tmp_path / "topic-0") if name.startswith("00000000000000000000")]


def test_when_all_is_old_a_new_segment_is_rolled_and_offsets_go_on(tmp_path):
    log, _ = retained(tmp_path, LogConfig(segment_bytes=2 * ONE, retention_ms=1000), 5)
    assert log.delete_old_segments(NOW + 10_000) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([5], 5, 5)
    assert log.delete_old_segments(NOW + 10_000) == 0
    add(log, 0)
    assert log.log_end_offset == 6


def test_retention_waits_for_the_high_watermark(tmp_path):
    log, _ = retained(tmp_path, LogConfig(segment_bytes=2 * ONE, retention_ms=0), 0)
    for number in range(4):
        add(log, number)
    assert log.delete_old_segments(NOW + 10_000) == 0
    log.advance_high_watermark(2)
    assert log.delete_old_segments(NOW + 10_000) == 1


def test_a_segment_without_timestamps_ages_by_its_file(tmp_path):
    log = make_log(str(tmp_path), LogConfig(retention_ms=1000))
    add(log, 0, timestamp=-1)
    log.advance_high_watermark(1)
    changed = SystemDisk().modified_ms(str(tmp_path / "topic-0/00000000000000000000.log"))
    assert log.delete_old_segments(changed + 1000) == 0
    assert log.delete_old_segments(changed + 1001) == 1


def test_a_slice_reads_on_after_its_segment_was_deleted(tmp_path):
    log, owner = retained(tmp_path, LogConfig(segment_bytes=2 * ONE, retention_bytes=0))
    read = log.read(0, max_bytes=1000, upper_bound_offset=6, min_one_batch=True)
    log.delete_old_segments(NOW)
    owner.work()
    assert len(read.slice.read()) == 2 * ONE
    file = read.slice.file
    read.slice.release()
    with pytest.raises(OSError, match="descriptor"):
        file.pread(1, 0)


def open_descriptors(path):
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
        except FileNotFoundError:
            continue
    return found


def test_closed_segments_share_a_bounded_number_of_descriptors(tmp_path):
    owner = Owner()
    log = make_log(str(tmp_path), LogConfig(segment_bytes=2 * ONE), make_ports(owner=owner))
    for number in range(60):
        add(log, number)
    owner.work()
    assert len(log.segments) == 30
    for offset in [*range(60), *range(59, -1, -1)]:
        assert len(read_bytes(log, offset)) >= ONE
        assert offset_for_timestamp(log, NOW + offset).offset == offset
    # Eight segments of three files, and the active one.
    assert open_descriptors(tmp_path) <= 8 * 3 + 1


def test_pinned_files_stay_open_beyond_the_bound(tmp_path):
    owner = Owner()
    log = make_log(str(tmp_path), LogConfig(segment_bytes=2 * ONE), make_ports(owner=owner))
    for number in range(60):
        add(log, number)
    owner.work()
    reads = [log.read(offset, max_bytes=9999, upper_bound_offset=60, min_one_batch=True) for offset in range(0, 58, 2)]
    assert [len(read.slice.read()) for read in reads] == [2 * ONE] * len(reads)
    for read in reads:
        read.slice.release()


def test_the_least_recently_used_is_closed_first():
    class Holder:
        is_pinned = False

        def __init__(self):
            self.closed = 0

        def close_files(self):
            self.closed += 1

    files, holders = OpenFiles(2), [Holder() for _ in range(3)]
    files.touch(holders[0])
    files.touch(holders[1])
    files.touch(holders[0])
    files.touch(holders[2])
    assert [holder.closed for holder in holders] == [0, 1, 0]
    holders[0].is_pinned = True
    files.touch(holders[1])
    assert [holder.closed for holder in holders] == [0, 1, 1]
    files.forget(holders[0])
    assert len(files) == 1


def test_sequential_reads_do_not_scan_again(tmp_path, monkeypatch):
    log = make_log(str(tmp_path))
    for number in range(40):
        add(log, number)
    monkeypatch.setattr("barnabas.storage.segment.iterate_file_headers", None)
    assert len(read_bytes(log, 38, upper=39)) == ONE
    for number in range(40, 60):
        add(log, number)
        assert len(read_bytes(log, number)) == ONE


def test_the_high_watermark_stays_within_the_log(tmp_path):
    log, _ = retained(tmp_path, LogConfig())
    assert not log.advance_high_watermark(3)
    with pytest.raises(AssertionError):
        log.advance_high_watermark(7)
    assert log.set_high_watermark(99) == 6
    assert log.set_high_watermark(-5) == 0
    log.advance_high_watermark(4)
    assert log.advance_log_start_offset(4)
    assert not log.advance_log_start_offset(3)
    assert log.set_high_watermark(1) == 4
    assert log.leader_epochs.earliest.start_offset == 4


def test_list_offsets_version_0_names_segments_by_their_files_time(tmp_path):
    log, _ = retained(tmp_path, LogConfig(segment_bytes=2 * ONE))
    for place in range(3):
        os.utime(tmp_path / f"topic-0/{place * 2:020d}.log", (1000 + place, 1000 + place))
    assert log.offsets_before(-1, max_count=10) == [6, 4, 2, 0]
    assert log.offsets_before(-1, max_count=2) == [6, 4]
    assert log.offsets_before(-2, max_count=10) == [0]
    assert log.offsets_before(1_001_000, max_count=10) == [2, 0]
    assert log.offsets_before(999_000, max_count=10) == []
    log.set_high_watermark(6)
    log.advance_log_start_offset(1)
    assert log.offsets_before(-2, max_count=10) == [1], "the oldest that is still there"


def test_an_entry_that_lies_in_a_closed_segments_index_is_not_believed(tmp_path, caplog):
    owner = Owner()
    config = LogConfig(segment_bytes=30 * ONE, index_interval_bytes=1)
    log = make_log(str(tmp_path), config, make_ports(owner=owner))
    for number in range(31):
        add(log, number)
    owner.work()
    path = tmp_path / "topic-0/00000000000000000000.index"
    entries = bytearray(path.read_bytes())
    for place, position in ((3, 9 * ONE), (6, 5 * ONE + 7)):
        entries[8 * place + 4 : 8 * place + 8] = position.to_bytes(4, "big")
    path.write_bytes(entries)
    assert [len(read_bytes(log, offset)) // ONE for offset in range(30)] == [30 - offset for offset in range(30)]
    assert [offset_for_timestamp(log, NOW + number).offset for number in range(31)] == list(range(31))
    assert "goes unused: the entry for offset 4 points behind it" in caplog.text
    assert log.truncate_to(4)
    assert [len(read_bytes(log, offset)) // ONE for offset in range(4)] == [4, 3, 2, 1]
