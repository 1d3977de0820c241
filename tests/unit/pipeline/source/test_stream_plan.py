"""What a stream reads next: growth, limits, new partitions, losses, and the same batch again after a crash."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.source.cluster_view import ClusterView
from barnabas.pipeline.source.data_loss import DataLost, WrongCluster
from barnabas.pipeline.source.offsets import StreamOffset, read_stream_offset
from barnabas.pipeline.source.options import parse_stream_options
from barnabas.pipeline.source.planning import TopicRange
from barnabas.pipeline.source.stream_plan import StreamPlanner
from barnabas.protocol.ids import ApiKey, TopicPartition
from tests.unit.client.small_cluster import Asked, SmallCluster
from tests.unit.pipeline.source.topics import T0, T1, delete_records, fill, make_anew, options_of

NewPlanner = Callable[..., StreamPlanner]


@pytest.fixture
async def new_planner(small: SmallCluster) -> AsyncIterator[NewPlanner]:
    async with AsyncExitStack() as stack:

        def make(**given: str) -> StreamPlanner:
            options = parse_stream_options(options_of(small, **{"fetchOffset.retryIntervalMs": "1", **given}))
            view = ClusterView(options)
            stack.push_async_exit(view)
            return StreamPlanner(view, options)

        yield make


async def next_of(
    planner: StreamPlanner, start: StreamOffset, *, limit: int | None = None, now_ms: int = 0
) -> StreamOffset:
    return await planner.next_offset(start, limit=limit, may_wait=True, now_ms=now_ms)


async def ranges_of(planner: StreamPlanner, start: StreamOffset, end: StreamOffset) -> list[TopicRange]:
    # As Spark keeps them in between.
    start, end = read_stream_offset(start.to_json()), read_stream_offset(end.to_json())
    return [planned.range for planned in await planner.ranges(start, end)]


async def test_a_stream_reads_what_comes_and_stands_still_where_nothing_does(
    small: SmallCluster, new_planner: NewPlanner
) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 2)
    planner = new_planner()
    start = await planner.initial_offset()
    assert start.offsets == {T0: 10, T1: 0}
    assert await next_of(planner, start) is start
    fill(small, T0, 1)
    fill(small, T1, 1)
    end = await next_of(planner, start)
    assert await ranges_of(planner, start, end) == [TopicRange(T0, 10, 15), TopicRange(T1, 0, 5)]
    assert await next_of(planner, end) is end


async def test_a_limit_holds_for_each_batch_until_all_is_read(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t", 2)
    fill(small, T0, 18)
    fill(small, T1, 2)
    planner = new_planner(startingOffsets="earliest")
    ends = [await planner.initial_offset()]
    while (end := await next_of(planner, ends[-1], limit=30)) is not ends[-1]:
        ends.append(end)
    sizes = [sum(end.offsets.values()) - sum(start.offsets.values()) for start, end in itertools.pairwise(ends)]
    assert max(sizes) <= 31
    assert ends[-1].offsets == {T0: 90, T1: 10}
    assert len(sizes) == 4


async def test_a_batch_waits_for_enough_records_or_long_enough(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t")
    planner = new_planner(startingOffsets="earliest", minOffsetsPerTrigger="10", maxTriggerDelay="1s")
    start = await planner.initial_offset()
    assert await next_of(planner, start, now_ms=0) is start, "the first one is not delayed, and has nothing"
    fill(small, T0, 1)
    assert await next_of(planner, start, now_ms=999) is start
    assert (await next_of(planner, start, now_ms=1000)).offsets == {T0: 5}


async def test_targets_that_are_fixed_are_reached_and_not_passed(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t", 1)
    fill(small, T0, 2)
    planner = new_planner(startingOffsets="earliest", minOffsetsPerTrigger="1000")
    start = await planner.initial_offset()
    await planner.fix_targets()
    fill(small, T0, 2)
    small.logs[T1] = type(small.logs[T0])(leader=1)
    fill(small, T1, 1)
    middle = await next_of(planner, start, limit=6)
    assert middle.offsets == {T0: 6}
    end = await next_of(planner, middle, limit=6)
    assert end.offsets == {T0: 10}
    assert await next_of(planner, end, limit=6) is end


async def test_a_new_partition_is_read_from_its_start_also_when_it_is_planned_again(
    small: SmallCluster, new_planner: NewPlanner
) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    planner = new_planner()
    start = await planner.initial_offset()
    small.logs[T1] = type(small.logs[T0])(leader=2)
    fill(small, T1, 3)
    end = await next_of(planner, start)
    expected = [TopicRange(T1, 0, 15)]
    assert await ranges_of(planner, start, end) == expected
    assert await ranges_of(new_planner(), start, end) == expected
    fill(small, T1, 1)
    later = await next_of(planner, end)
    assert await ranges_of(planner, end, later) == [TopicRange(T1, 15, 20)]


async def test_topics_that_match_a_pattern_join_while_the_query_runs(
    small: SmallCluster, new_planner: NewPlanner
) -> None:
    for name in ("pages-1", "other", "__pages"):
        small.add_topic(name)
    planner = new_planner(subscribePattern=".*pages.*", startingOffsets="earliest")
    start = await planner.initial_offset()
    small.add_topic("pages-2")
    fill(small, TopicPartition("pages-2", 0), 1)
    assert (await next_of(planner, start)).offsets == {TopicPartition("pages-1", 0): 0, TopicPartition("pages-2", 0): 5}


async def test_a_topic_that_is_not_there_is_told_at_the_start(small: SmallCluster, new_planner: NewPlanner) -> None:
    with pytest.raises(OptionError, match="option subscribe: there is no topic t; create it first"):
        await new_planner().initial_offset()
    small.add_topic("t")
    with pytest.raises(OptionError, match="option assign: there is no partition t-1"):
        await new_planner(assign='{"t":[0,1]}').initial_offset()


@pytest.mark.parametrize(
    ("harm", "said", "goes_on"),
    [
        ("made anew, and longer", "t-0 at offset 10: the log is another one; the topic was deleted", (0, 20)),
        ("made anew, and shorter", "t-0 at offset 10: the log ends at 5", (0, 5)),
        ("records deleted", "t-0 at offset 10: the log starts at 15", (15, 20)),
    ],
)
async def test_a_loss_ends_the_query_or_is_gone_on_from(
    small: SmallCluster, new_planner: NewPlanner, harm: str, said: str, goes_on: tuple[int, int]
) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    start = await new_planner().initial_offset()
    if harm == "records deleted":
        fill(small, T0, 2)
        delete_records(small, T0, 15)
    else:
        make_anew(small, T0, 4 if harm.endswith("longer") else 1)
    with pytest.raises(DataLost) as loss:
        await next_of(new_planner(), start)
    assert said in str(loss.value)
    bearing = new_planner(failOnDataLoss="false")
    end = await next_of(bearing, start)
    assert await ranges_of(bearing, start, end) == [TopicRange(T0, *goes_on)]
    fill(small, T0, 1)
    assert await ranges_of(bearing, end, await next_of(bearing, end)) == [TopicRange(T0, goes_on[1], goes_on[1] + 5)]


async def test_a_topic_that_is_gone_ends_the_query_or_is_left_out(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t")
    small.add_topic("u")
    fill(small, T0, 1)
    start = await new_planner(subscribe="t,u", startingOffsets="earliest").initial_offset()
    del small.configs["t"], small.logs[T0]
    with pytest.raises(DataLost, match="t-0 at offset 0: the partition is gone"):
        await next_of(new_planner(subscribe="t,u"), start)
    end = await next_of(new_planner(subscribe="t,u", failOnDataLoss="false"), start)
    assert end.offsets == {TopicPartition("u", 0): 0}


async def test_a_batch_that_was_planned_is_not_read_from_a_log_that_was_made_anew(
    small: SmallCluster, new_planner: NewPlanner
) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    planner = new_planner(startingOffsets="earliest")
    start = await planner.initial_offset()
    end = await next_of(planner, start)
    make_anew(small, T0, 4)
    with pytest.raises(DataLost, match="the log is another one"):
        await ranges_of(new_planner(), start, end)


async def test_compaction_of_what_was_read_is_no_loss(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t", **{"cleanup.policy": "compact"})
    fill(small, T0, 2)
    start = await new_planner().initial_offset()
    make_anew(small, T0, 2, mark="rewritten")
    fill(small, T0, 1)
    assert (await next_of(new_planner(), start)).offsets == {T0: 15}


async def test_a_broker_that_knows_nothing_for_a_moment_is_asked_again(
    small: SmallCluster, new_planner: NewPlanner
) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    planner = new_planner()
    start = await planner.initial_offset()
    assert planner.latest_ends() is None
    known, small.configs = small.configs, {}

    def remember(asked: Asked) -> None:
        if small.keys_asked().count(ApiKey.METADATA) == before + 2:
            small.configs = known

    before = small.keys_asked().count(ApiKey.METADATA)
    small.on_request = remember
    assert await next_of(planner, start) is start
    assert small.keys_asked().count(ApiKey.METADATA) == before + 2
    assert planner.latest_ends() == StreamOffset("small", {T0: 10})


async def test_another_cluster_is_no_data_loss(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t")
    start = StreamOffset("elsewhere", {T0: 0})
    with pytest.raises(WrongCluster, match="checkpoint is of cluster elsewhere"):
        await next_of(new_planner(failOnDataLoss="false"), start)


async def test_the_task_with_the_last_record_knows_its_batch(small: SmallCluster, new_planner: NewPlanner) -> None:
    small.add_topic("t")
    fill(small, T0, 2)
    planner = new_planner(startingOffsets="earliest", maxRecordsPerPartition="4")
    start = await planner.initial_offset()
    end = await next_of(planner, start)
    planned = await planner.ranges(start, end)
    assert [each.range.end for each in planned] == [3, 6, 10]
    assert [each.stamp for each in planned] == [None, None, end.stamps[T0]]
    assert end.stamps[T0].base_offset == 5
