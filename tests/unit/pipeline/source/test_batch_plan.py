"""The tasks of a batch query."""

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

from barnabas.pipeline.source.batch_plan import plan_batch
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.data_loss import DataLost
from barnabas.pipeline.source.filters import Pushed, push
from barnabas.pipeline.source.options import parse_batch_options
from barnabas.pipeline.source.planning import EdgeError, TopicRange
from tests.unit.client.small_cluster import SmallCluster
from tests.unit.pipeline.source.topics import T0, T1, delete_records, fill, options_of


async def plan(small: SmallCluster, pushed: Pushed | None = None, **given: str) -> list[TopicRange]:
    options = parse_batch_options(options_of(small, **given))
    async with ClusterView(options) as view:
        return await plan_batch(view, options, pushed or Pushed())


@pytest.fixture(autouse=True)
def topic(small: SmallCluster) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 4)
    fill(small, T1, 2)


async def test_all_is_read_unless_something_is_asked_for(small: SmallCluster) -> None:
    assert await plan(small) == [TopicRange(T0, 0, 20), TopicRange(T1, 0, 10)]


async def test_offsets_are_asked_for(small: SmallCluster) -> None:
    starts, ends = '{"t":{"0":3,"1":-2}}', '{"t":{"0":-1,"1":4}}'
    assert await plan(small, startingOffsets=starts, endingOffsets=ends) == [
        TopicRange(T0, 3, 20),
        TopicRange(T1, 0, 4),
    ]


async def test_times_are_asked_for(small: SmallCluster) -> None:
    # The timestamps of these records are their offsets.
    assert await plan(small, startingTimestamp="7", endingTimestamp="15") == [
        TopicRange(T0, 7, 15),
        TopicRange(T1, 7, 10),
    ]
    with pytest.raises(EdgeError, match="t-1 has no record at or after"):
        await plan(small, startingTimestamp="12")
    later = await plan(small, startingTimestamp="12", startingOffsetsByTimestampStrategy="latest")
    assert later == [TopicRange(T0, 12, 20)]


async def test_predicates_choose_partitions_and_cut_ranges(small: SmallCluster) -> None:
    pushed, _ = push([EqualTo(("partition",), 0), GreaterThanOrEqual(("offset",), 5)])
    assert await plan(small, pushed) == [TopicRange(T0, 5, 20)]
    assert await plan(small, Pushed(since_ms=12)) == [TopicRange(T0, 12, 20)]


async def test_predicates_widen_no_range_that_the_options_say(small: SmallCluster) -> None:
    edges = {"startingOffsets": '{"t":{"0":8,"1":2}}', "endingOffsets": '{"t":{"0":15,"1":6}}'}
    wanted = [TopicRange(T0, 8, 15), TopicRange(T1, 2, 6)]
    for pushed in (Pushed(since_ms=1), Pushed(least_offset=1), Pushed(end_offset=18)):
        assert await plan(small, pushed, **edges) == wanted
    both = Pushed(since_ms=9, least_offset=10)
    assert await plan(small, both, **edges) == [TopicRange(T0, 10, 15)]


async def test_large_ranges_are_split(small: SmallCluster) -> None:
    split = await plan(small, minPartitions="3")
    assert split == [TopicRange(T0, 0, 10), TopicRange(T0, 10, 20), TopicRange(T1, 0, 10)]


async def test_offsets_that_are_gone_end_the_query_or_are_left_out(small: SmallCluster) -> None:
    delete_records(small, T0, 10)
    starts = '{"t":{"0":3,"1":0}}'
    with pytest.raises(DataLost, match=r"t-0 at offset 3: the log starts at 10\. Set failOnDataLoss=false"):
        await plan(small, startingOffsets=starts)
    borne = await plan(small, startingOffsets=starts, failOnDataLoss="false")
    assert borne == [TopicRange(T0, 10, 20), TopicRange(T1, 0, 10)]
