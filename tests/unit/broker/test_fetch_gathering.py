"""Fetches of followers that wait a moment for more."""

import asyncio

from barnabas.protocol.ids import TopicPartition
from broker.fetch_gathering import MAX_TICKS, TICK_MS, Gathering
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker, fetched
from tests.unit.broker.test_fetch_from_followers import EPOCH, Follower, leading
from tests.unit.replication.replica_world import OTHER, append_now

KB = 1 << 10
LARGE = b"v" * (300 * KB)
SMALL = b"v"


def test_what_gains_nothing_is_left_for_a_number_of_fetches_that_doubles() -> None:
    gathering = Gathering()
    pauses = []
    for _ in range(12):
        assert gathering.begins(1)
        gathering.on_end(256 * KB - 1)
        pauses.append(0)
        while not gathering.begins(1):
            pauses[-1] += 1
    assert pauses == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096, 4096]


def test_what_gains_goes_on_and_begins_again_with_the_least_pause() -> None:
    gathering = Gathering()
    gathering.on_end(0)
    while not gathering.begins(1):
        pass
    for _ in range(3):
        gathering.on_end(256 * KB)
        assert gathering.begins(1)
    gathering.on_end(0)
    assert [gathering.begins(1) for _ in range(17)] == [False] * 16 + [True]


def test_who_has_much_does_not_wait() -> None:
    gathering = Gathering()
    assert not gathering.begins(512 * KB)
    assert gathering.begins(512 * KB - 1)


async def waiting_follower() -> tuple[DataBroker, Partition, Follower]:
    broker, (partition,) = await leading()
    follower = Follower(broker, 1)
    follower.poll()
    return broker, partition, follower


def now_ms() -> float:
    return round(asyncio.get_running_loop().time() * 1000)


@virtual_time
async def test_records_that_keep_coming_travel_together() -> None:
    _, partition, follower = await waiting_follower()
    waiting = follower.wait()
    for _ in range(3):
        append_now(partition, LARGE)
        await asyncio.sleep(TICK_MS / 2500)
    answer = follower.heard(await fetched(waiting))
    assert answer.size_bytes > 3 * len(LARGE)
    assert now_ms() == 2 * TICK_MS, "a tick without a record ends it"


@virtual_time
async def test_the_wait_ends_though_records_keep_coming() -> None:
    _, partition, follower = await waiting_follower()
    waiting = follower.wait()

    async def write() -> None:
        while not waiting.done():
            append_now(partition, SMALL)
            await asyncio.sleep(TICK_MS / 2000)

    writing = asyncio.ensure_future(write())
    answer = follower.heard(await fetched(waiting))
    assert now_ms() == MAX_TICKS * TICK_MS
    assert answer.size_bytes
    await writing


@virtual_time
async def test_a_fetch_that_finds_records_waits_too_and_is_counted_at_once() -> None:
    _, partition, follower = await waiting_follower()
    append_now(partition, LARGE)
    follower.moved = {("t", 0): 0}
    follower.poll()
    assert follower.moved == {("t", 0): 1}
    append_now(partition, SMALL)
    waiting = follower.wait()
    assert partition.log.high_watermark == 1, "what it has counts before the wait"
    append_now(partition, LARGE)
    answer = follower.heard(await fetched(waiting))
    assert answer.size_bytes > len(LARGE)


@virtual_time
async def test_a_wait_in_vain_delays_one_fetch_and_not_the_next_ones() -> None:
    _, partition, follower = await waiting_follower()
    for number in range(4):
        waiting = follower.wait()
        append_now(partition, SMALL)
        await turns()
        assert waiting.done() is (number > 0)
        follower.heard(await fetched(waiting))
    assert now_ms() == TICK_MS


@virtual_time
async def test_what_was_there_before_the_wait_is_no_gain() -> None:
    _, partition, follower = await waiting_follower()
    for number in range(2):
        waiting = follower.wait()
        append_now(partition, LARGE)
        await turns()
        assert waiting.done() is (number > 0)
        follower.heard(await fetched(waiting))


@virtual_time
async def test_a_new_epoch_is_told_within_a_tick() -> None:
    broker, partition, follower = await waiting_follower()
    waiting = follower.wait()
    append_now(partition, SMALL)
    await broker.world.assign(EPOCH + 1, replicas=(partition.replicas[0], OTHER), at=TopicPartition("t", 0))
    answer = follower.heard(await fetched(waiting))
    assert answer.errors()
    assert now_ms() <= 2 * TICK_MS
