"""A cleaning over files: which records, tombstones and batches stay, and what they look like then."""

import tracemalloc
from dataclasses import replace

import pytest

from barnabas.protocol.batch import Codec
from barnabas.storage.cleaning.clean_job import CorruptSource
from barnabas.storage.index import OffsetIndex, TimeIndex
from tests.support.clock import ManualClock
from tests.unit.storage.cleaning.segment_world import LIMITS, NOW, SegmentWorld, run

ALL_CODECS = pytest.mark.parametrize("codec", list(Codec))


@pytest.fixture
def log(tmp_path) -> SegmentWorld:
    return SegmentWorld(str(tmp_path))


def test_the_newest_record_of_each_key_stays_at_its_offset(log: SegmentWorld) -> None:
    log.put(("a", "1"), ("b", "1"), ("a", "2"))
    log.put(("c", "1"), ("b", "2"))
    log.roll()
    log.put(("a", "3"))
    cleaned = log.clean()
    assert log.pairs() == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert cleaned.result.first_dirty_offset == 5
    assert (cleaned.result.records_read, cleaned.result.records_kept, cleaned.result.map_entries) == (5, 3, 3)


def test_the_dirty_part_supersedes_records_of_the_clean_one(log: SegmentWorld) -> None:
    log.put(("a", "1"), ("b", "1"))
    log.roll()
    log.clean()
    log.put(("a", "2"))
    log.roll()
    assert log.clean().result.map_entries == 1
    assert log.pairs() == [(1, "b", "1"), (2, "a", "2")]


@ALL_CODECS
def test_a_batch_that_loses_records_keeps_its_place_codec_and_the_other_records_whole(
    log: SegmentWorld, codec: Codec
) -> None:
    log.put(("a", "1"), ("b", "x" * 300), ("c", "1"), ("d", "1"), codec=codec, producer=(7, 2, 40))
    log.put(("a", "2"), ("d", "2"))
    log.roll()
    before = {record.offset: record for record in log.records()}
    header = log.batches()[0][0]
    log.clean()
    (kept, _), _ = log.batches()
    assert log.records() == [before[offset] for offset in (1, 2, 4, 5)]
    assert (kept.base_offset, kept.last_offset, kept.record_count, kept.codec) == (0, 3, 2, codec)
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence) == (7, 2, 40)
    assert (kept.leader_epoch, kept.attributes) == (header.leader_epoch, header.attributes)
    assert kept.max_timestamp == NOW + 2


def test_a_batch_that_keeps_all_of_its_records_keeps_all_of_its_bytes(log: SegmentWorld) -> None:
    log.put(("a", "1"))
    for codec in Codec:
        log.put((f"{codec}", "1"), (f"{codec}x", "y" * 100), codec=codec)
    log.put(("a", "2"))
    log.roll()
    before = [data for _, data in log.batches()]
    log.clean()
    assert [data for _, data in log.batches()] == before[1:]


def test_a_batch_with_the_brokers_time_keeps_it(log: SegmentWorld) -> None:
    log.put(("a", "1"), ("b", "1"), append_time=NOW + 500)
    log.put(("b", "2"))
    log.roll()
    log.clean()
    header, _ = log.batches()[0]
    assert header.uses_log_append_time
    assert header.max_timestamp == NOW + 500
    assert log.records()[0].timestamp == NOW + 500


def test_records_without_a_key_go(log: SegmentWorld) -> None:
    log.put((None, "1"), ("a", "1"), (None, None))
    log.roll()
    log.put((None, "2"))
    assert log.clean().result.records_without_key == 2
    assert log.pairs() == [(1, "a", "1"), (3, None, "2")]


def test_an_empty_key_is_a_key(log: SegmentWorld) -> None:
    log.put(("", "1"), ("", "2"))
    log.roll()
    log.clean()
    assert log.pairs() == [(1, "", "2")]


def test_keys_of_all_lengths_are_told_apart(log: SegmentWorld) -> None:
    keys = ["k" * length for length in (*range(40), *range(250, 262), 300, 1000)]
    log.put(*((key, "1") for key in keys))
    log.put(*((key, "2") for key in keys))
    log.roll()
    log.clean()
    assert [(key, value) for _, key, value in log.pairs()] == [(key, "2") for key in keys]


def test_a_tombstone_stays_for_its_time_and_takes_older_records_at_once(log: SegmentWorld) -> None:
    # KAFKA-4529
    log.put(("a", "1"), ("b", "1"), ("a", None))
    log.roll(modified_ms=NOW)
    log.clean(retention_ms=0)
    assert log.pairs() == [(1, "b", "1"), (2, "a", None)]
    log.put(("c", "1"))
    log.roll(modified_ms=NOW + 1000)
    # The tombstone is part of the clean part since NOW: that is the age of its segment.
    log.clean(retention_ms=1)
    assert log.pairs() == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    log.put(("d", "1"))
    log.roll(modified_ms=NOW + 2000)
    log.clean(retention_ms=0)
    assert log.pairs() == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_a_tombstone_outlives_delete_retention_only_by_segments_that_joined_its_own(log: SegmentWorld) -> None:
    limits = replace(LIMITS, segment_bytes=1)
    log.put(("a", None))
    log.roll(modified_ms=NOW)
    log.clean(log.job(limits=limits))
    log.put(("b", "1"))
    log.roll(modified_ms=NOW + 5000)
    log.clean(log.job(limits=limits))
    log.put(("c", "1"))
    log.roll(modified_ms=NOW + 9000)
    log.clean(log.job(limits=limits, retention_ms=5000))
    assert log.pairs() == [(1, "b", "1"), (2, "c", "1")]


def test_a_clean_log_stays_as_it_is(log: SegmentWorld) -> None:
    for n in range(30):
        log.put((f"{n % 7}", f"{n}"), (f"x{n % 3}", f"{n}"), codec=Codec.LZ4)
    log.roll()
    log.clean()
    before = log.content(0)
    log.first_dirty = 0
    log.clean()
    assert log.content(0) == before


def test_what_lies_above_the_map_stays_for_the_next_time(log: SegmentWorld) -> None:
    for n in range(100):
        log.put((f"{n % 60}", f"{n}"), (f"y{n}", "1"))
    log.roll()
    last = {key: (offset, value) for offset, key, value in log.pairs()}
    limits = replace(LIMITS, offset_map_bytes=24 * 48)
    rounds = 0
    while log.first_dirty < 200:
        before = log.first_dirty
        result = log.clean(log.job(limits=limits)).result
        assert before < result.first_dirty_offset
        assert result.map_entries <= result.map_capacity < 48
        kept = log.pairs()
        assert {key: (offset, value) for offset, key, value in kept} == last
        assert all(offset in (each[0] for each in kept) for offset in range(result.first_dirty_offset, 200))
        rounds += 1
    assert rounds > 3
    assert len(log.pairs()) == len(last)


def test_a_map_for_one_key_gets_on_by_a_record_at_least(log: SegmentWorld) -> None:
    # KAFKA-3587
    log.put(("a", "1"), ("b", "1"), ("b", "2"), ("a", "2"))
    log.roll()
    limits = replace(LIMITS, offset_map_bytes=1)
    ends = []
    while log.first_dirty < 4:
        ends.append(log.clean(log.job(limits=limits)).result.first_dirty_offset)
    assert ends[0] >= 1
    assert ends == sorted(set(ends))
    assert log.pairs() == [(2, "b", "2"), (3, "a", "2")]


def test_a_gap_at_the_end_of_a_segment_counts_as_cleaned(log: SegmentWorld) -> None:
    # KAFKA-8764: else it would be cleaned again and again.
    log.put(("a", "1"))
    log.next_offset = 50
    log.roll()
    assert log.clean().result.first_dirty_offset == 50


def test_a_batch_larger_than_the_buffer_is_read_whole(log: SegmentWorld) -> None:
    log.put(("a", "x" * 50_000), ("b", "y" * 20_000))
    log.put(("b", "z" * 9_000))
    log.put(("c", "1"))
    log.roll()
    log.clean(log.job(limits=replace(LIMITS, io_buffer_bytes=16)))
    assert [(offset, key) for offset, key, _ in log.pairs()] == [(0, "a"), (2, "b"), (3, "c")]


def test_segments_are_joined_and_the_result_has_the_time_of_the_last(log: SegmentWorld) -> None:
    for n in range(3):
        log.put((f"{n}", "1"), ("same", f"{n}"))
        log.roll(modified_ms=NOW + n)
    cleaned = log.clean()
    assert [segment.sources for segment in cleaned.segments] == [(0, 2, 4)]
    assert log.bases == [0, 6]
    assert log.modified_ms[0] == NOW + 2
    assert cleaned.segments[0].next_offset == 6


def test_a_group_of_which_nothing_is_left_becomes_an_empty_segment(log: SegmentWorld) -> None:
    log.put(("a", "1"))
    log.roll()
    log.put(("a", "2"))
    log.roll()
    cleaned = log.clean(log.job(limits=replace(LIMITS, segment_bytes=1)))
    first = cleaned.segments[0]
    assert (first.size_bytes, first.next_offset, first.first_timestamp, first.max_timestamp) == (0, 0, None, -1)
    assert log.pairs() == [(1, "a", "2")]


def test_segments_above_the_end_of_the_map_are_not_touched(log: SegmentWorld) -> None:
    for n in range(4):
        log.put(*((f"{n}.{m}", "1") for m in range(40)))
        log.roll()
    cleaned = log.clean(log.job(limits=replace(LIMITS, offset_map_bytes=24 * 60, segment_bytes=1)))
    touched = [base for segment in cleaned.segments for base in segment.sources]
    assert touched == [0, 40]
    assert 40 < cleaned.result.first_dirty_offset < 80


def test_indexes_are_those_that_a_scan_would_build(log: SegmentWorld) -> None:
    for n in range(300):
        log.put((f"{n % 250}", "v" * (n % 17)), (f"{n * 7 % 90}", "w"))
    log.roll()
    cleaned = log.clean(log.job(limits=replace(LIMITS, io_buffer_bytes=700)))
    (segment,) = cleaned.segments
    index = OffsetIndex.decode(log.disk.read_bytes(log.path(0, ".index")), log_bytes=segment.size_bytes)
    times = TimeIndex.decode(log.disk.read_bytes(log.path(0, ".timeindex")))
    scan = log.scan(0)
    scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp)
    assert len(index) > 50
    assert index.encode() == scan.offset_index.encode()
    assert times.encode() == scan.time_index.encode()
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (
        scan.max_timestamp,
        scan.offset_of_max_timestamp,
    )
    assert (segment.first_timestamp, segment.next_offset) == (scan.first_timestamp, scan.next_offset)


def test_an_index_never_outgrows_its_file(log: SegmentWorld) -> None:
    for n in range(200):
        log.put((f"{n}", "1"))
    log.roll()
    log.clean(log.job(limits=replace(LIMITS, index_interval_bytes=0, segment_index_bytes=120)))
    assert log.disk.size(log.path(0, ".index")) == 120
    assert log.disk.size(log.path(0, ".timeindex")) == 120
    times = TimeIndex.decode(log.disk.read_bytes(log.path(0, ".timeindex")))
    assert times.last == (NOW + 199, 199)


def flip(log: SegmentWorld, base: int, at: int) -> None:
    file = log.disk.open(log.path(base, ".log"))
    byte = file.pread(1, at)[0]
    file.pwrite(bytes([byte ^ 1]), at)
    file.close()


@pytest.mark.parametrize("at", [8, 16, 21, 57, 80, 120])
def test_a_damaged_batch_ends_the_cleaning_and_leaves_no_files(log: SegmentWorld, at: int) -> None:
    log.put(("a", "1" * 50))
    log.put(("a", "2" * 50))
    log.roll()
    log.clean()
    log.first_dirty = 2
    log.put(("a", "3" * 50))
    log.roll()
    flip(log, 0, at)
    names = log.disk.list_directory(log.directory)
    with pytest.raises(CorruptSource):
        run(log.disk, log.job())
    assert log.disk.list_directory(log.directory) == names


def test_a_file_that_became_shorter_ends_the_cleaning(log: SegmentWorld) -> None:
    log.put(("a", "1"))
    log.roll()
    job = log.job()
    file = log.disk.open(log.path(0, ".log"))
    file.truncate(file.size() - 1)
    file.close()
    with pytest.raises(CorruptSource):
        run(log.disk, job)


def test_what_a_killed_worker_left_is_begun_anew(log: SegmentWorld) -> None:
    log.put(("a", "1"), ("a", "2"))
    log.roll()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        log.disk.write_durably(log.path(0, suffix) + ".cleaned", b"x" * 5000)
    log.clean()
    assert log.pairs() == [(1, "a", "2")]


def test_bytes_read_and_written_keep_to_the_rate(log: SegmentWorld) -> None:
    for n in range(100):
        log.put((f"{n}", "x" * 1000))
    log.roll()
    clock = ManualClock(NOW)
    cleaned = log.clean(log.job(limits=replace(LIMITS, max_bytes_per_second=100_000)), clock=clock)
    moved = cleaned.result.bytes_read + cleaned.result.bytes_written
    assert moved > 300_000
    assert clock.monotonic_ms() == pytest.approx(moved / 100, abs=200)


def test_progress_goes_over_the_dirty_bytes_and_then_over_all(log: SegmentWorld) -> None:
    for n in range(20):
        log.put((f"{n}", "x" * 5000))
        log.roll()
        if n == 4:
            log.clean(log.job(limits=replace(LIMITS, segment_bytes=1)))
    progress = log.clean().progress
    total = {each.phase: each.total_bytes for each in progress}
    assert total["mapping"] < total["cleaning"]
    for phase in ("mapping", "cleaning"):
        done = [each.done_bytes for each in progress if each.phase == phase]
        assert done == sorted(done)
        assert done[-1] == total[phase]
        assert len(done) > 5


def test_memory_is_told_and_bounded_by_map_and_buffer(log: SegmentWorld) -> None:
    for n in range(3000):
        log.put((f"{n}", "x" * 100))
    log.roll()
    limits = replace(LIMITS, offset_map_bytes=24 * 1000)
    result = log.clean(log.job(limits=limits)).result
    assert 24 * 900 < result.memory_bytes < 24 * 1000 + 20 * LIMITS.io_buffer_bytes


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_of_small_batches_that_inflate_to_much_one_is_held_once(log: SegmentWorld, codec: Codec) -> None:
    large = 8_000_000
    # The first record of each goes: what stays is written anew.
    for n in range(3):
        log.put(("a", "x"), (f"{n}", "x" * large), codec=codec)
    log.roll()
    log.last_put.clear()
    job = log.job()
    tracemalloc.start()
    try:
        cleaned = run(log.disk, job)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (cleaned.result.records_read, cleaned.result.records_kept) == (6, 4)
    assert large < cleaned.result.memory_bytes < 1.1 * large
    # Compressors set aside room for what cannot be compressed, which they do not touch.
    assert peak_bytes < (1.2 if codec is Codec.GZIP else 2.2) * large
