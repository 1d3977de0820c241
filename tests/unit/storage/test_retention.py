"""Which segments retention takes, and that it never reaches the high watermark."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.log_config import LogConfig
from barnabas.storage.retention import DeletionReason, SegmentFacts, decide_retention

NOW = 1_000_000


def segments(*sizes_and_ages, end=None):
    """Segments of ten offsets each: (size, age in ms)."""
    count = len(sizes_and_ages)
    return [
        SegmentFacts(place * 10, (place + 1) * 10 if place + 1 < count else None, size, NOW - age)
        for place, (size, age) in enumerate(sizes_and_ages)
    ]


def decide(facts, *, high_watermark=None, log_start_offset=0, **config):
    end = len(facts) * 10
    return [
        (deletion.base_offset, deletion.reason)
        for deletion in decide_retention(
            facts,
            LogConfig(**({"retention_ms": -1} | config)),
            now_ms=NOW,
            high_watermark=end if high_watermark is None else high_watermark,
            log_start_offset=log_start_offset,
            log_end_offset=end,
        )
    ]


def test_old_segments_go_until_the_first_that_is_young_enough():
    facts = segments((100, 50), (100, 11), (100, 10), (100, 50))
    assert decide(facts, retention_ms=10) == [(0, DeletionReason.RETENTION_TIME), (10, DeletionReason.RETENTION_TIME)]
    assert decide(facts, retention_ms=60) == []
    assert decide(facts) == []


def test_all_may_go_when_all_are_old():
    assert len(decide(segments((100, 50), (100, 50)), retention_ms=10)) == 2


def test_an_empty_active_segment_stays():
    assert decide(segments((100, 50), (0, 50)), retention_ms=10) == [(0, DeletionReason.RETENTION_TIME)]


def test_nothing_at_or_over_the_high_watermark_goes():
    facts = segments((100, 50), (100, 50), (100, 50))
    assert [base for base, _ in decide(facts, retention_ms=10, high_watermark=19)] == [0]
    assert [base for base, _ in decide(facts, retention_ms=10, high_watermark=20)] == [0, 10]
    assert decide(facts, retention_ms=10, high_watermark=0) == []


def test_size_takes_segments_while_the_rest_is_still_as_great_as_the_bound():
    facts = segments((100, 0), (100, 0), (100, 0))
    assert decide(facts, retention_bytes=200) == [(0, DeletionReason.RETENTION_SIZE)]
    assert decide(facts, retention_bytes=199) == [(0, DeletionReason.RETENTION_SIZE)]
    assert decide(facts, retention_bytes=201) == []
    assert len(decide(facts, retention_bytes=0)) == 3


def test_what_lies_below_the_start_offset_goes_whatever_the_policy():
    facts = segments((100, 0), (100, 0), (100, 0))
    for policy in ({}, {"delete": False, "compact": True}):
        assert decide(facts, log_start_offset=20, **policy) == [
            (0, DeletionReason.START_OFFSET),
            (10, DeletionReason.START_OFFSET),
        ]
    assert [base for base, _ in decide(facts, log_start_offset=19)] == [0]


def test_a_compacted_log_knows_neither_time_nor_size():
    facts = segments((100, 50), (100, 50))
    assert decide(facts, retention_ms=10, retention_bytes=0, delete=False, compact=True) == []
    assert len(decide(facts, retention_ms=10, delete=True, compact=True)) == 2


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100)), min_size=1, max_size=8),
    st.integers(-1, 1000),
    st.integers(-1, 100),
    st.integers(0, 80),
    st.integers(0, 80),
)
def test_what_goes_is_a_prefix_below_the_high_watermark(described, size, age, high_watermark, start):
    facts = segments(*described)
    gone = decide(facts, retention_bytes=size, retention_ms=age, high_watermark=high_watermark, log_start_offset=start)
    assert [base for base, _ in gone] == [fact.base_offset for fact in facts[: len(gone)]]
    for fact in facts[: len(gone)]:
        assert (fact.next_base_offset or len(facts) * 10) <= high_watermark
