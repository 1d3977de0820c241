"""What is cleaned next: ranges, ratios, the choice, groups, and when tombstones may go."""

from dataclasses import replace

import pytest

from barnabas.storage.cleaning.clean_plan import (
    CleanRange,
    LogFacts,
    SegmentFacts,
    SourceSegment,
    decide_filthiest,
    decide_groups,
    decide_range,
    delete_horizon_ms,
    is_due,
    keeps_deletes,
)
from barnabas.storage.log_config import MAX_INT32, MAX_INT64

NOW = 1_000_000


def segment(base: int, *, size: int = 100, largest: int = 500, first: int | None = 400) -> SegmentFacts:
    return SegmentFacts(base, size, largest, first)


def facts(**changes: object) -> LogFacts:
    log = LogFacts([segment(base) for base in (0, 10, 20, 30)], 0, 35, None, None, 0, MAX_INT64)
    return replace(log, **changes)  # type: ignore[arg-type]


def source(base: int, end: int, *, size: int = 100, index: int = 8, modified: int = 0) -> SourceSegment:
    return SourceSegment(base, end, size, index, index, modified, has_txn_index=False)


def test_a_log_that_was_never_cleaned_is_dirty_up_to_its_active_segment() -> None:
    found = decide_range(facts(), now_ms=NOW)
    assert (found.first_dirty_offset, found.uncleanable_offset) == (0, 30)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (0, 300, 1.0)
    assert not found.checkpoint_was_reset


def test_what_is_below_the_checkpoint_is_clean() -> None:
    found = decide_range(facts(checkpoint=10), now_ms=NOW)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (10, 100, 200)
    assert found.dirty_ratio == pytest.approx(2 / 3)


def test_a_segment_that_is_clean_in_part_counts_as_dirty() -> None:
    found = decide_range(facts(checkpoint=15), now_ms=NOW)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (15, 100, 200)


@pytest.mark.parametrize("checkpoint", [4, 36])
def test_a_checkpoint_outside_of_the_log_goes_back_to_its_start(checkpoint: int) -> None:
    found = decide_range(facts(checkpoint=checkpoint, log_start_offset=5), now_ms=NOW)
    assert (found.first_dirty_offset, found.checkpoint_was_reset) == (5, True)


def test_a_checkpoint_at_the_end_of_the_log_holds() -> None:
    found = decide_range(facts(checkpoint=35), now_ms=NOW)
    assert (found.first_dirty_offset, found.checkpoint_was_reset, found.cleanable_bytes) == (35, False, 0)


def test_the_segment_with_the_first_unstable_offset_is_not_cleaned() -> None:
    found = decide_range(facts(first_unstable_offset=15), now_ms=NOW)
    assert (found.uncleanable_offset, found.cleanable_bytes) == (10, 100)


def test_a_segment_that_begins_at_the_first_unstable_offset_is_not_cleaned_and_those_before_it_are() -> None:
    found = decide_range(facts(first_unstable_offset=20), now_ms=NOW)
    assert (found.uncleanable_offset, found.cleanable_bytes) == (20, 200)


def test_a_young_segment_and_all_after_it_wait_for_min_compaction_lag() -> None:
    segments = [segment(0), segment(10, largest=NOW - 50), segment(20), segment(30)]
    assert decide_range(facts(segments=segments, min_compaction_lag_ms=51), now_ms=NOW).uncleanable_offset == 10
    assert decide_range(facts(segments=segments, min_compaction_lag_ms=50), now_ms=NOW).uncleanable_offset == 30


def test_min_compaction_lag_does_not_ask_clean_segments() -> None:
    segments = [segment(0, largest=NOW), segment(10), segment(20), segment(30)]
    found = decide_range(facts(segments=segments, checkpoint=10, min_compaction_lag_ms=60), now_ms=NOW)
    assert found.uncleanable_offset == 30


def test_nothing_is_cleanable_where_the_bound_lies_in_the_segment_with_the_checkpoint() -> None:
    found = decide_range(facts(checkpoint=15, first_unstable_offset=17), now_ms=NOW)
    assert (found.uncleanable_offset, found.cleanable_bytes, found.dirty_ratio) == (15, 0, 0.0)


def test_a_log_that_starts_inside_its_active_segment_has_nothing_to_clean() -> None:
    found = decide_range(facts(log_start_offset=33, checkpoint=10), now_ms=NOW)
    assert (found.first_dirty_offset, found.uncleanable_offset, found.cleanable_bytes) == (33, 33, 0)
    assert not is_due(found, min_cleanable_dirty_ratio=0.0)


def test_a_log_must_be_cleaned_when_its_oldest_dirty_batch_is_older_than_max_compaction_lag() -> None:
    # KAFKA-9133
    segments = [segment(0, first=1), segment(10, first=NOW - 70), segment(20, first=NOW - 90), segment(30)]
    late = decide_range(facts(segments=segments, checkpoint=10, max_compaction_lag_ms=60), now_ms=NOW)
    assert late.compaction_delay_ms == 30
    assert is_due(late, min_cleanable_dirty_ratio=1.0)
    in_time = decide_range(facts(segments=segments, checkpoint=10, max_compaction_lag_ms=90), now_ms=NOW)
    assert in_time.compaction_delay_ms == 0
    assert not is_due(in_time, min_cleanable_dirty_ratio=1.0)


def test_segments_without_a_timestamp_make_nothing_late() -> None:
    segments = [segment(base, first=first) for base, first in ((0, None), (10, -1), (20, 0), (30, 1))]
    assert decide_range(facts(segments=segments, max_compaction_lag_ms=0), now_ms=NOW).compaction_delay_ms == 0


def test_a_log_is_due_above_its_dirty_ratio_and_not_at_it() -> None:
    half = CleanRange(10, 20, 100, 100, 0, checkpoint_was_reset=False)
    assert not is_due(half, min_cleanable_dirty_ratio=0.5)
    assert is_due(half, min_cleanable_dirty_ratio=0.49)


def test_a_log_without_dirty_bytes_is_never_due() -> None:
    clean = CleanRange(10, 10, 100, 0, 5, checkpoint_was_reset=False)
    assert not is_due(clean, min_cleanable_dirty_ratio=0.0)


def test_the_filthiest_log_is_chosen() -> None:
    ranges = {
        name: CleanRange(0, 9, 100, dirty, 0, checkpoint_was_reset=False)
        for name, dirty in zip("abc", (50, 90, 70), strict=True)
    }
    assert decide_filthiest(ranges.items()) == "b"
    assert decide_filthiest([]) is None


def test_tombstones_are_kept_for_their_time_after_the_last_clean_segment() -> None:
    sources = [source(0, 10, modified=1000), source(10, 20, modified=5000), source(20, 30, modified=9000)]
    horizon = delete_horizon_ms(sources, first_dirty_offset=20, delete_retention_ms=4000)
    assert horizon == 1000
    kept = [keeps_deletes(each, first_dirty_offset=20, horizon_ms=horizon) for each in sources]
    assert kept == [False, True, True]


def test_a_log_without_a_clean_part_loses_no_tombstone() -> None:
    sources = [source(0, 10), source(10, 20)]
    horizon = delete_horizon_ms(sources, first_dirty_offset=0, delete_retention_ms=0)
    assert horizon is None
    assert keeps_deletes(sources[0], first_dirty_offset=0, horizon_ms=horizon)


def test_dirty_segments_keep_their_tombstones_whatever_their_age() -> None:
    old_copy = source(10, 20, modified=1)
    assert keeps_deletes(old_copy, first_dirty_offset=10, horizon_ms=10**6)
    assert keeps_deletes(old_copy, first_dirty_offset=19, horizon_ms=10**6)
    assert not keeps_deletes(old_copy, first_dirty_offset=20, horizon_ms=10**6)


def groups(sources: list[SourceSegment], *, segment_bytes: int = 10**6, index_bytes: int = 10**6) -> list[list[int]]:
    found = decide_groups(sources, segment_bytes=segment_bytes, segment_index_bytes=index_bytes)
    return [[each.base_offset for each in group] for group in found]


def test_segments_are_joined_up_to_the_size_of_a_segment() -> None:
    sources = [source(base, base + 10, size=40) for base in range(0, 50, 10)]
    assert groups(sources, segment_bytes=80) == [[0, 10], [20, 30], [40]]
    assert groups(sources, segment_bytes=79) == [[0], [10], [20], [30], [40]]


def test_segments_are_joined_up_to_the_size_of_an_index() -> None:
    sources = [source(base, base + 10, index=16) for base in range(0, 40, 10)]
    assert groups(sources, index_bytes=32) == [[0, 10], [20, 30]]
    by_time = [replace(each, index_bytes=0) for each in sources]
    assert groups(by_time, index_bytes=31) == [[0], [10], [20], [30]]


def test_offsets_of_a_group_fit_relative_ones() -> None:
    assert groups([source(0, 10), source(10, MAX_INT32 + 1)]) == [[0, 10]]
    assert groups([source(0, 10), source(10, MAX_INT32 + 2)]) == [[0], [10]]


def test_an_empty_segment_joins_over_any_span() -> None:
    # KAFKA-5413
    far = 3 * MAX_INT32
    assert groups([source(0, 10), source(far, far + 10, size=0), source(far + 10, far + 20)]) == [[0, far], [far + 10]]


def test_no_group_comes_of_no_segments() -> None:
    assert groups([]) == []
