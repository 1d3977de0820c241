"""Fetch that waits: for how many bytes, how long, what ends it, and what it costs while it waits."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from replication.partition import Partition
from tests.support.virtual_time import timers, turns, virtual_time
from tests.unit.broker.data_broker import (
    CountedReads,
    DataBroker,
    fetch_now,
    fetch_request,
    fetched,
    pins,
    start_fetch,
    start_waiting,
)
from tests.unit.replication.replica_world import FLUSH_EACH, ME, OTHER, append_now
from tests.unit.storage.logs import batch, read_bytes

T0, T1 = ("t", 0), ("t", 1)
SIZE = len(batch(b"v" * 100))


async def leading(partitions: int = 1) -> tuple[DataBroker, list[Partition]]:
    broker = await DataBroker().open()
    return broker, await broker.lead(count=partitions)


def watchers(partition: Partition) -> int:
    return len(partition._watchers)


@virtual_time
async def test_who_waits_for_nothing_is_answered_at_once() -> None:
    broker, _ = await leading()
    for request in (
        fetch_request({T0: 0}, max_wait_ms=0, min_bytes=1),
        fetch_request({T0: 0}, max_wait_ms=-1, min_bytes=1),
        fetch_request({T0: 0}, max_wait_ms=500, min_bytes=0),
        fetch_request({}, max_wait_ms=500, min_bytes=1),
    ):
        assert fetch_now(broker, request).size_bytes == 0


@virtual_time
async def test_an_append_ends_the_wait_in_the_same_moment() -> None:
    broker, (first, second) = await leading(2)
    loop = asyncio.get_running_loop()
    waiting = start_waiting(broker, fetch_request({T0: 0, T1: 0}, max_wait_ms=500))
    append_now(second, b"a")
    answer = await fetched(waiting)
    await turns()
    assert (loop.time(), timers()) == (0, 0)
    assert [answer.records[T0], answer.records[T1]] == [b"", read_bytes(second.log, 0)]
    assert (watchers(first), watchers(second), pins(second)) == (0, 0, 0)


@virtual_time
async def test_the_time_that_the_client_gave_ends_the_wait() -> None:
    broker, (partition,) = await leading()
    append_now(partition, b"v" * 100)
    waiting = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500, min_bytes=2 * SIZE))
    answer = await fetched(waiting)
    assert asyncio.get_running_loop().time() == pytest.approx(0.5)
    assert answer.size_bytes == SIZE
    assert watchers(partition) == 0


@virtual_time
async def test_a_wait_for_more_bytes_goes_on_until_they_are_there() -> None:
    broker, (first, second) = await leading(2)
    waiting = start_waiting(broker, fetch_request({T0: 0, T1: 0}, max_wait_ms=500, min_bytes=3 * SIZE))
    for partition in (first, second):
        append_now(partition, b"v" * 100)
        await turns()
        assert not waiting.done()
        assert pins(first, second) == 0, "a fetch that waits holds nothing"
    append_now(first, b"v" * 100)
    assert (await fetched(waiting)).size_bytes == 3 * SIZE


@pytest.mark.interpreted
@virtual_time
async def test_many_appends_of_one_turn_are_looked_at_once() -> None:
    broker, (partition,) = await leading()
    waiting = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500, min_bytes=1000 * SIZE))
    reads = CountedReads(partition)
    for _ in range(20):
        append_now(partition, b"v" * 100)
    await turns()
    assert reads.count == 1
    assert not waiting.done()
    waiting.cancel()


@virtual_time
async def test_a_wait_for_records_that_are_not_durable_ends_with_their_fsync() -> None:
    broker = await DataBroker().open()
    (partition,) = await broker.lead(config=FLUSH_EACH)
    await turns()
    broker.world.offload.hold("flush")
    append_now(partition, b"a")
    waiting = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500))
    await turns()
    assert not waiting.done()
    broker.world.offload.release("flush")
    assert (await fetched(waiting)).size_bytes > 0


Change = Callable[[DataBroker], Awaitable[None]]


async def lose_leadership(broker: DataBroker) -> None:
    await broker.world.assign(1, leader=OTHER, replicas=(OTHER, ME))


async def be_deleted(broker: DataBroker) -> None:
    await broker.world.stop(-2)


async def lose_the_directory(broker: DataBroker) -> None:
    broker.world.directory.fail(OSError(5, "gone"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lose_leadership, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (be_deleted, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lose_the_directory, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_partition_that_goes_ends_the_wait_with_its_error(change: Change, expected: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        broker, partitions = await leading(2)
        waiting = start_waiting(broker, fetch_request({T1: 0, T0: 0}, max_wait_ms=500), version=10)
        await change(broker)
        answer = await fetched(waiting)
        assert asyncio.get_running_loop().time() == 0
        assert answer.errors()[T0] is expected
        assert [watchers(partition) for partition in partitions] == [0, 0]

    run()


@virtual_time
async def test_a_new_epoch_of_the_same_leader_fences_who_named_the_old_one_and_nobody_else() -> None:
    broker, _ = await leading()
    named = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500, leader_epoch=0))
    unnamed = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500))
    await broker.world.assign(1)
    assert (await fetched(named)).errors()[T0] is ErrorCode.FENCED_LEADER_EPOCH
    assert not unnamed.done()
    append_now(broker.world.partition())
    assert (await fetched(unnamed)).size_bytes > 0


@virtual_time
async def test_an_error_ends_the_wait_of_the_other_partitions_at_once() -> None:
    broker, (first, _) = await leading(2)
    append_now(first, b"a")
    answer = fetch_now(broker, fetch_request({T1: 7, T0: 0}, max_wait_ms=500, min_bytes=1 << 20))
    assert answer.errors()[T1] is ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.records[T0] != b""


@virtual_time
async def test_a_partition_that_nobody_knows_does_not_end_the_wait_of_the_others() -> None:
    broker, (first, _) = await leading(2)
    waiting = start_waiting(broker, fetch_request({("t", 9): 0, T0: 0}, max_wait_ms=500))
    append_now(first, b"a")
    answer = await fetched(waiting)
    assert asyncio.get_running_loop().time() == 0
    assert answer.errors()[("t", 9)] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.records[T0] != b""
    alone = fetch_now(broker, fetch_request({("t", 9): 0}, max_wait_ms=500))
    assert alone.errors()[("t", 9)] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@virtual_time
async def test_who_leaves_while_it_waits_is_forgotten() -> None:
    broker, (partition,) = await leading()
    waiting = start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500))
    assert watchers(partition) == 1
    append_now(partition, b"a")
    waiting.cancel()
    await turns()
    assert (watchers(partition), pins(partition)) == (0, 0)
    await asyncio.sleep(1)
    assert pins(partition) == 0


@pytest.mark.interpreted
@virtual_time
async def test_what_fails_in_the_broker_while_a_fetch_waits_fails_that_fetch_alone() -> None:
    broker, (first, second) = await leading(2)
    waiting = start_waiting(broker, fetch_request({T0: 0, T1: 0}, max_wait_ms=500))

    class Broken:
        high_watermark = property(lambda self: 1 // 0)

    append_now(first, b"a")
    second.log, log = Broken(), second.log  # type: ignore[assignment]
    with pytest.raises(ZeroDivisionError):
        await waiting
    assert pins(first) == 0
    second.log = log
    waiting = start_waiting(broker, fetch_request({T1: 0}, max_wait_ms=500))
    broker.services.metrics = None
    append_now(second, b"a")
    with pytest.raises(AttributeError):
        await waiting
    assert pins(second) == 0
    # Nothing reached the loop's exception handler, which ends a broker: the decorator would say so.


@virtual_time
async def test_a_partition_that_is_named_twice_is_served_and_watched_once() -> None:
    broker, (partition,) = await leading()
    request = fetch_request({T0: 0}, max_wait_ms=500)
    request.topics.append(request.topics[0])
    waiting = start_fetch(broker, request)
    assert watchers(partition) == 1
    append_now(partition, b"a")
    response = await waiting
    records = [topic.partition_responses for topic in response.responses]
    for entries in records:
        for entry in entries:
            entry.record_set.release()
    assert sum(map(len, records)) == 1
    assert (watchers(partition), pins(partition)) == (0, 0)


@virtual_time
async def test_a_hundred_fetches_that_wait_are_all_woken() -> None:
    broker, (partition,) = await leading()
    waiting = [start_waiting(broker, fetch_request({T0: 0}, max_wait_ms=500)) for _ in range(100)]
    append_now(partition, b"a")
    answers = [await fetched(each) for each in waiting]
    assert {answer.records[T0] for answer in answers} == {read_bytes(partition.log, 0)}
    await turns()
    assert (watchers(partition), pins(partition)) == (0, 0)
    assert broker.world.partition(TopicPartition(*T0)) is partition
