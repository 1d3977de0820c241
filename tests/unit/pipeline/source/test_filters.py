"""Predicates that the source takes over from Spark, and those it leaves."""

import datetime as dt
import pickle

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from barnabas.pipeline.source.filters import push
from barnabas.protocol.ids import TopicPartition

OFFSET, PARTITION, TOPIC, TIMESTAMP = ("offset",), ("partition",), ("topic",), ("timestamp",)
PARTS = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)]


def chosen(*filters: Filter) -> list[TopicPartition]:
    pushed, left = push(filters)
    assert left == []
    return [each for each in PARTS if pickle.loads(pickle.dumps(pushed)).wants(each)]


def test_topics_and_partitions_are_chosen() -> None:
    assert chosen(EqualTo(TOPIC, "b"), GreaterThan(PARTITION, 0)) == PARTS[4:]
    assert chosen(In(PARTITION, (0, 7)), Not(StringStartsWith(TOPIC, "b"))) == PARTS[:1]
    assert chosen(IsNotNull(TOPIC), EqualNullSafe(PARTITION, 2), LessThanOrEqual(TOPIC, "a")) == [PARTS[2]]
    assert chosen(IsNull(PARTITION)) == []


@pytest.mark.parametrize("each", [EqualTo(PARTITION, None), Not(EqualTo(TOPIC, None)), In(PARTITION, (1, None))])
def test_null_is_left_to_spark(each: Filter) -> None:
    assert push([each])[1] == [each]


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([EqualTo(OFFSET, 7)], (7, 8)),
        ([GreaterThan(OFFSET, 7), LessThan(OFFSET, 20)], (8, 20)),
        ([GreaterThanOrEqual(OFFSET, 7), GreaterThan(OFFSET, 8), LessThanOrEqual(OFFSET, 20)], (9, 21)),
        ([LessThan(OFFSET, 20), LessThanOrEqual(OFFSET, 18), LessThan(OFFSET, 30)], (None, 19)),
        ([IsNotNull(OFFSET)], (None, None)),
    ],
)
def test_offsets_are_cut(filters: list[Filter], bounds: tuple[int | None, int | None]) -> None:
    pushed, left = push(filters)
    assert ((pushed.least_offset, pushed.end_offset), left) == (bounds, [])


def test_a_bound_of_time_moves_the_start_and_is_looked_at_again() -> None:
    time = dt.datetime(1970, 1, 1, 0, 0, 1, 500_900, tzinfo=dt.UTC)
    bound = GreaterThan(TIMESTAMP, time)
    pushed, left = push([bound, LessThan(TIMESTAMP, time)])
    assert pushed.since_ms == 1500
    assert left[0] is bound
    assert len(left) == 2
    assert push([bound, GreaterThan(TIMESTAMP, time.replace(second=0))])[0].since_ms == 1500
    assert push([GreaterThan(TIMESTAMP, time.replace(tzinfo=None))])[0].since_ms is None


def test_a_bound_before_1970_moves_nothing_as_records_without_a_time_count_as_of_then() -> None:
    pushed, left = push([GreaterThan(TIMESTAMP, dt.datetime(1960, 1, 1, tzinfo=dt.UTC))])
    assert pushed.since_ms is None
    assert len(left) == 1


def test_all_else_is_left_to_spark() -> None:
    filters: list[Filter] = [
        In(OFFSET, (1, 5)),
        Not(EqualTo(OFFSET, 1)),
        EqualTo(("value",), b"x"),
        IsNotNull(("key",)),
        EqualTo(("headers", "offset"), 1),
        IsNull(OFFSET),
    ]
    assert push(filters)[1] == filters
