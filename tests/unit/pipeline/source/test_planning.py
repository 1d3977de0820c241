"""From edges to ranges and from ranges to tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.source.planning import (
    EdgeError,
    LogSpan,
    TopicRange,
    TriggerDelay,
    limited_ends,
    questions,
    resolve_end,
    resolve_start,
    split_ranges,
)
from barnabas.pipeline.source.subscription import AtOffsets, AtTime, AtTimes, LogEdge
from barnabas.protocol.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SPANS = {T0: LogSpan(5, 100), T1: LogSpan(0, 10)}


def test_the_ends_of_logs_need_no_question() -> None:
    assert questions(LogEdge.EARLIEST, SPANS) == {}
    assert resolve_start(LogEdge.EARLIEST, SPANS, {}, latest_without_record=False) == {T0: 5, T1: 0}
    assert resolve_end(LogEdge.LATEST, SPANS, {}) == {T0: 100, T1: 10}


def test_offsets_may_name_the_ends_of_their_logs() -> None:
    assert resolve_end(AtOffsets({T0: -1, T1: 7}), SPANS, {}) == {T0: 100, T1: 7}
    start = AtOffsets({T0: -2, T1: 7})
    assert resolve_start(start, SPANS, {}, latest_without_record=False) == {T0: 5, T1: 7}


@pytest.mark.parametrize(
    "edge", [AtOffsets({T0: 1}), AtTimes({T0: 1}), AtOffsets({T0: 1, T1: 1, TopicPartition("u", 0): 1})]
)
def test_json_names_exactly_the_partitions_that_are_read(edge: AtOffsets | AtTimes) -> None:
    with pytest.raises(EdgeError, match=r"missing: t-1|not read: u-0"):
        questions(edge, SPANS)


def test_a_time_without_a_record_is_refused_at_the_start_unless_the_strategy_is_latest() -> None:
    edge = AtTime(700)
    assert questions(edge, SPANS) == {T0: 700, T1: 700}
    with pytest.raises(EdgeError, match="t-1 has no record at or after the time to start at, 700 ms"):
        resolve_start(edge, SPANS, {T0: 50, T1: -1}, latest_without_record=False)
    assert resolve_start(edge, SPANS, {T0: 50, T1: -1}, latest_without_record=True) == {T0: 50, T1: 10}


def test_a_time_without_a_record_ends_at_the_end_of_the_log() -> None:
    assert resolve_end(AtTimes({T0: 1, T1: 2}), SPANS, {T0: 50, T1: -1}) == {T0: 50, T1: 10}


def test_a_limit_is_shared_in_proportion_and_starves_nobody() -> None:
    begins, ends = {T0: 0, T1: 10}, {T0: 1000, T1: 11}
    assert limited_ends(begins, ends, 100) == {T0: 99, T1: 11}
    assert limited_ends(begins, ends, 5000) == ends
    assert limited_ends({T0: 7}, {T0: 7}, 1) == {T0: 7}


@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**40)), min_size=1, max_size=20), st.integers(1, 2**40)
)
def test_a_limit_never_goes_back_nor_past_an_end(spans: list[tuple[int, int]], limit: int) -> None:
    begins = {TopicPartition("t", at): begin for at, (begin, _) in enumerate(spans)}
    ends = {TopicPartition("t", at): begin + size for at, (begin, size) in enumerate(spans)}
    limited = limited_ends(begins, ends, limit)
    assert all(begins[each] <= limited[each] <= ends[each] for each in ends)
    assert all(limited[each] > begins[each] for each in ends if ends[each] > begins[each])
    assert sum(limited[each] - begins[each] for each in ends) <= limit + len(spans)


def test_ranges_without_records_make_no_task() -> None:
    assert split_ranges([TopicRange(T0, 3, 3)], min_partitions=4, max_records=None) == []


def test_the_largest_ranges_are_split_first() -> None:
    ranges = [TopicRange(T0, 0, 100), TopicRange(T1, 0, 10)]
    split = split_ranges(ranges, min_partitions=4, max_records=None)
    assert split == [TopicRange(T0, 0, 33), TopicRange(T0, 33, 66), TopicRange(T0, 66, 100), TopicRange(T1, 0, 10)]
    assert split_ranges(ranges, min_partitions=2, max_records=None) == ranges


def test_no_task_has_more_records_than_asked_for() -> None:
    split = split_ranges([TopicRange(T0, 5, 26)], min_partitions=None, max_records=10)
    assert split == [TopicRange(T0, 5, 12), TopicRange(T0, 12, 19), TopicRange(T0, 19, 26)]


@given(st.lists(st.integers(0, 50), max_size=10), st.none() | st.integers(1, 60), st.none() | st.integers(1, 60))
def test_tasks_cover_ranges_without_gap_or_overlap(sizes: list[int], least: int | None, most: int | None) -> None:
    ranges = [TopicRange(TopicPartition("t", at), 3, 3 + size) for at, size in enumerate(sizes)]
    split = split_ranges(ranges, min_partitions=least, max_records=most)
    assert [(each.topic_partition, offset) for each in split for offset in range(each.start, each.end)] == [
        (each.topic_partition, offset) for each in ranges for offset in range(each.start, each.end)
    ]
    assert all(0 < each.size <= (most or 50) for each in split)
    assert len(split) >= min(least or 0, sum(sizes))


def test_a_trigger_waits_for_enough_offsets_but_not_for_ever() -> None:
    delay = TriggerDelay(min_offsets=10, longest_ms=1000)
    assert delay.is_due(1, now_ms=500), "the first one"
    assert not delay.is_due(9, now_ms=1499)
    assert delay.is_due(10, now_ms=1499)
    assert not delay.is_due(9, now_ms=2498)
    assert delay.is_due(0, now_ms=2499)


def test_cuts_move_to_the_starts_of_segments_that_are_near() -> None:
    whole = [TopicRange(T0, 0, 100)]

    def cuts(starts: list[int], parts: int = 4, most: int | None = None) -> list[int]:
        split = split_ranges(whole, min_partitions=parts, max_records=most, segment_starts={T0: starts})
        return [each.start for each in split[1:]]

    assert cuts([]) == [25, 50, 75]
    assert cuts([0, 13, 30, 55, 100]) == [30, 55, 75]
    assert cuts([37, 38, 62]) == [37, 38, 75], "no part is longer than two"
    assert cuts([24, 26, 49, 51]) == [24, 49, 75], "the nearest, the lower one of two"
    assert cuts([50], parts=100) == list(range(1, 100))
    assert cuts([30], most=25) == [25, 50, 75], "no task may get more"
    assert split_ranges(whole, min_partitions=2, max_records=None, segment_starts={T1: [49]})[1].start == 50


@given(
    st.lists(st.integers(0, 50), max_size=10), st.integers(1, 60), st.lists(st.integers(0, 60), max_size=20).map(sorted)
)
def test_tasks_cut_at_segments_cover_ranges_too(sizes: list[int], least: int, starts: list[int]) -> None:
    ranges = [TopicRange(TopicPartition("t", at), 3, 3 + size) for at, size in enumerate(sizes)]
    told = dict.fromkeys((each.topic_partition for each in ranges), starts)
    split = split_ranges(ranges, min_partitions=least, max_records=None, segment_starts=told)
    assert [(each.topic_partition, offset) for each in split for offset in range(each.start, each.end)] == [
        (each.topic_partition, offset) for each in ranges for offset in range(each.start, each.end)
    ]
    assert len(split) == len(split_ranges(ranges, min_partitions=least, max_records=None))
