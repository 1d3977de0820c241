"""Holes in a log are told from batches that are not shown."""

import asyncio
from collections.abc import Iterable

import pytest

from barnabas.pipeline.audit.counting import HOLE, PARTIAL, hole_rows
from barnabas.pipeline.audit.topic_reading import Hole, TopicRead, join_holes
from barnabas.pipeline.source.options import parse_batch_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.range_task import PlannedRange
from barnabas.protocol.ids import TopicPartition
from tests.unit.client.small_cluster import SmallCluster
from tests.unit.pipeline.source.topics import T0, T1, fill, options_of


def read(small: SmallCluster, start: int, end: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The offsets that are read in another thread, which has a loop of its own, and the holes."""
    options = parse_batch_options(options_of(small, **{"kafka.max.partition.fetch.bytes": "200"}))
    reading = TopicRead(PlannedRange(TopicRange(T0, start, end)), options, ("offset",))
    offsets = [offset for batch in reading for offset in batch.column("offset").to_pylist()]
    return offsets, [(each.first, each.last) for each in reading.holes]


@pytest.fixture
def small_log(small: SmallCluster) -> SmallCluster:
    """Ten batches of five records, of which the third, the fourth and the last are gone."""
    small.add_topic("t")
    fill(small, T0, 10)
    for at in (9, 3, 2):
        del small.logs[T0].batches[at]
    return small


async def test_offsets_between_batches_are_holes(small_log: SmallCluster) -> None:
    offsets, holes = await asyncio.to_thread(read, small_log, 3, 45)
    assert offsets == [*range(3, 10), *range(20, 45)]
    assert holes == [(10, 19)]


async def test_a_range_may_begin_and_end_within_a_hole(small_log: SmallCluster) -> None:
    assert await asyncio.to_thread(read, small_log, 12, 22) == ([20, 21], [(12, 19)])
    assert await asyncio.to_thread(read, small_log, 7, 15) == ([7, 8, 9], [(10, 14)])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        ([(5, 9), (0, 4)], [(0, 9)]),
        ([(0, 4), (6, 9)], [(0, 4), (6, 9)]),
        ([(0, 9), (3, 4)], [(0, 9)]),
    ],
)
def test_holes_that_touch_are_one(given: Iterable[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    assert join_holes(Hole(T0, *each) for each in given) == [Hole(T0, *each) for each in wanted]


def test_holes_of_two_partitions_do_not_touch() -> None:
    assert len(join_holes([Hole(T0, 0, 4), Hole(T1, 5, 9)])) == 2


def test_a_hole_is_named_by_its_offsets() -> None:
    assert str(Hole(TopicPartition("t", 0), 3, 3)) == "3"
    assert str(Hole(TopicPartition("t", 0), 3, 7)) == "3 to 7"


def test_holes_go_to_the_driver_as_rows() -> None:
    (batch,) = hole_rows("t", 1, [(3, 7), (9, 9)])
    assert batch.schema.equals(PARTIAL)
    rows = [(row["topic"], row["partition"], row["part"], row["least"], row["most"]) for row in batch.to_pylist()]
    assert rows == [("t", 1, HOLE, 3, 7), ("t", 1, HOLE, 9, 9)]
    assert list(hole_rows("t", 1, [])) == []
