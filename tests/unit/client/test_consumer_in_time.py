"""The consumer in virtual time: what was fetched or asked for before a seek or a pause, and aborted transactions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from barnabas.client.consumer import EARLIEST, Consumer
from barnabas.client.consumer_options import ConsumerOptions, IsolationLevel, LogTruncated, OffsetReset
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import AbortedTransaction
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster
from tests.unit.client.test_consumer import fill, next_batch, read, truncate
from tests.unit.client.test_consumer_groups import eventually

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EARLY = ConsumerOptions(offset_reset=OffsetReset.EARLIEST)
BATCH_BY_BATCH = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, partition_max_bytes=1)


def small_of(partitions: int = 1) -> SmallCluster:
    small = SmallCluster()
    small.add_topic("t", partitions)
    return small


@asynccontextmanager
async def reading(
    small: SmallCluster, *partitions: TopicPartition, options: ConsumerOptions = EARLY
) -> AsyncIterator[Consumer]:
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, options) as consumer:
        consumer.assign(partitions)
        yield consumer


def fetched_from(small: SmallCluster) -> list[int]:
    """The offsets that fetches named, of all partitions in the order of coming."""
    asked = [each.request for each in small.asked if each.key is ApiKey.FETCH]
    return [part.fetch_offset for request in asked for topic in request.topics for part in topic.partitions]


def hold_fetches_of(small: SmallCluster, offset: int) -> tuple[Callable[[], bool], asyncio.Event]:
    """Fetches that name `offset` wait for the event; the function says whether one does."""
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.FETCH and not release.is_set() and fetched_from(small)[-1:] == [offset]:
            held.set()
            await release.wait()

    small.on_request = hold
    return held.is_set, release


@virtual_time
async def test_answers_that_wait_for_a_reader_at_a_seek_are_dropped() -> None:
    small = small_of()
    for _ in range(4):
        fill(small, T0, 10)
    async with reading(small, T0, options=BATCH_BY_BATCH) as consumer:
        assert await read(consumer, 1) == {T0: list(range(10))}
        await eventually(lambda: fetched_from(small)[-1:] == [40])
        consumer.seek(T0, 25)
        assert await read(consumer, 15) == {T0: list(range(25, 40))}


@virtual_time
async def test_an_answer_that_is_under_way_at_a_seek_is_dropped() -> None:
    small = small_of()
    for _ in range(4):
        fill(small, T0, 10)
    is_held, release = hold_fetches_of(small, 30)
    async with reading(small, T0, options=BATCH_BY_BATCH) as consumer:
        consumer.seek(T0, 30)
        await eventually(is_held)
        consumer.seek(T0, 5)
        release.set()
        assert await read(consumer, 35) == {T0: list(range(5, 40))}


@virtual_time
async def test_a_seek_that_names_a_leader_epoch_is_checked_though_that_offset_was_asked_for_already() -> None:
    small = SmallCluster(brokers=2)
    small.add_topic("t", 2)
    fill(small, T0, 3)
    small.logs[T0].leader_epoch = 1
    fill(small, T0, 9)
    is_held, release_fetch = hold_fetches_of(small, 6)
    hold_fetch, release_offsets = small.on_request, asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.LIST_OFFSETS:
            await release_offsets.wait()
        await hold_fetch(asked)

    small.on_request = hold
    async with reading(small, T0, T1, options=ConsumerOptions(offset_reset=OffsetReset.NONE)) as consumer:
        # No position is checked while another one is looked up.
        looking = asyncio.ensure_future(consumer.seek_to_times({T1: EARLIEST}))
        consumer.seek(T0, 6)
        await eventually(is_held)
        # Epoch 0 ends at 3 in this log: what the caller has read before 6 is not there any more.
        consumer.seek(T0, 6, leader_epoch=0)
        release_fetch.set()
        await asyncio.sleep(0.1)
        release_offsets.set()
        await looking
        with pytest.raises(LogTruncated) as caught:
            await read(consumer, 1)
        assert (caught.value.offset, caught.value.divergence) == (6, 3)


def hold_all(small: SmallCluster, key: ApiKey) -> tuple[Callable[[], bool], asyncio.Event]:
    """Requests of this API wait for the event; the function says whether one does."""
    held, release = asyncio.Event(), asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is key:
            held.set()
            await release.wait()

    small.on_request = hold
    return held.is_set, release


@virtual_time
async def test_a_seek_stands_while_the_first_position_is_looked_up() -> None:
    small = small_of()
    fill(small, T0, 10)
    fill(small, T0, 10)
    is_held, release = hold_all(small, ApiKey.LIST_OFFSETS)
    async with reading(small, T0) as consumer:
        await eventually(is_held)
        consumer.seek(T0, 10)
        await asyncio.sleep(0.1)
        release.set()
        await asyncio.sleep(1)
        assert consumer.positions() == {T0: 10}
        assert await read(consumer, 10) == {T0: list(range(10, 20))}


@virtual_time
async def test_a_seek_stands_while_the_committed_offset_is_looked_up() -> None:
    small = small_of()
    fill(small, T0, 10)
    is_held, release = hold_all(small, ApiKey.OFFSET_FETCH)
    options = ConsumerOptions(group_id="g", offset_reset=OffsetReset.EARLIEST)
    async with reading(small, T0, options=options) as consumer:
        await eventually(is_held)
        consumer.seek(T0, 5)
        await asyncio.sleep(0.1)
        release.set()
        await asyncio.sleep(1)
        assert consumer.positions() == {T0: 5}


@virtual_time
async def test_what_is_found_of_the_place_before_a_seek_says_nothing_of_the_place_behind_it() -> None:
    small = small_of()
    fill(small, T0, 3)
    small.logs[T0].leader_epoch = 1
    fill(small, T0, 9)
    is_held, release = hold_all(small, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    async with reading(small, T0, options=ConsumerOptions(offset_reset=OffsetReset.NONE)) as consumer:
        consumer.seek(T0, 2, leader_epoch=0)
        await eventually(is_held)
        # No epoch is named: the caller has read nothing that could be gone.
        consumer.seek(T0, 8)
        await asyncio.sleep(0.1)
        release.set()
        assert await read(consumer, 4) == {T0: [8, 9, 10, 11]}


@virtual_time
async def test_a_seek_while_another_leader_is_asked_leaves_nothing_to_be_checked() -> None:
    small = SmallCluster(brokers=2)
    small.add_topic("t", 2)
    for each in (T0, T1):
        fill(small, each, 9)
        small.logs[each].leader_epoch = 1
    is_held, release = hold_all(small, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    async with reading(small, T0, T1, options=ConsumerOptions(offset_reset=OffsetReset.NONE)) as consumer:
        consumer.seek(T0, 3, leader_epoch=0)
        consumer.seek(T1, 3, leader_epoch=0)
        await eventually(is_held)
        (held,) = (each.node_id for each in small.asked if each.key is ApiKey.OFFSET_FOR_LEADER_EPOCH)
        # The other leader's turn has not come. Behind the seek nothing was read yet that could be gone.
        stays, moved = (T0, T1) if small.logs[T0].leader == held else (T1, T0)
        consumer.seek(moved, 9)
        await asyncio.sleep(0.1)
        release.set()
        assert await read(consumer, 6) == {stays: list(range(3, 9))}
        await asyncio.sleep(1)
        fill(small, moved, 2)
        assert await read(consumer, 2) == {moved: [9, 10]}


@virtual_time
async def test_what_was_fetched_while_a_position_was_checked_is_checked_by_itself() -> None:
    small = SmallCluster(brokers=2)
    small.add_topic("t")
    fill(small, T0, 3)
    is_answered, is_checking, release_fetch, release_check = (asyncio.Event() for _ in range(4))

    async def hold(asked: Asked) -> Any:
        if asked.key is ApiKey.OFFSET_FOR_LEADER_EPOCH:
            is_checking.set()
            await release_check.wait()
        if asked.key is not ApiKey.FETCH or fetched_from(small)[-1:] != [3]:
            return None
        answer = await small._fetch(asked)
        is_answered.set()
        await release_fetch.wait()
        return answer

    small.on_request = hold
    async with asyncio.timeout(60), MemoryWire(small).cluster() as cluster, Consumer(cluster, EARLY) as consumer:
        consumer.assign([T0])
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
        await eventually(lambda: fetched_from(small)[-1:] == [3])
        small.logs[T0].leader_epoch = 1
        fill(small, T0, 3)
        await is_answered.wait()
        small.logs[T0].leader, small.logs[T0].leader_epoch = 2, 2
        cluster.forget("t")
        consumer._fetcher.changed()
        await is_checking.wait()
        # The check asks where epoch 0 ends, and what comes from the old leader now is of epoch 1.
        release_fetch.set()
        assert await read(consumer, 3) == {T0: [3, 4, 5]}
        release_check.set()
        await asyncio.sleep(1)
        fill(small, T0, 2)
        assert await read(consumer, 2) == {T0: [6, 7]}


@virtual_time
async def test_where_only_what_was_fetched_ahead_is_gone_reading_goes_on_without_a_word() -> None:
    small = SmallCluster(brokers=2)
    small.add_topic("t")
    fill(small, T0, 3)
    fill(small, T0, 3)
    options = ConsumerOptions(offset_reset=OffsetReset.NONE, partition_max_bytes=1)
    async with reading(small, T0, options=options) as consumer:
        consumer.seek(T0, 0)
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
        await eventually(lambda: 6 in fetched_from(small))
        truncate(small, 3)
        fill(small, T0, 4, timestamp=77)
        await eventually(lambda: ApiKey.OFFSET_FOR_LEADER_EPOCH in small.keys_asked())
        await asyncio.sleep(1)
        batch = await next_batch(consumer)
        assert [(each.offset, each.timestamp) for each in batch.records] == [(each, 77) for each in range(3, 7)]


@virtual_time
async def test_fetches_name_the_leader_epoch_that_is_known() -> None:
    """KIP-320: a leader that was replaced, or that has not heard of its epoch, refuses."""
    small = small_of()
    small.logs[T0].leader_epoch = 4
    fill(small, T0, 3)
    async with reading(small, T0) as consumer:
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
    asked = [each.request for each in small.asked if each.key is ApiKey.FETCH]
    named = [part.current_leader_epoch for each in asked for topic in each.topics for part in topic.partitions]
    assert set(named) == {4}


@virtual_time
async def test_what_was_fetched_before_a_pause_waits_for_its_end() -> None:
    small = small_of(partitions=2)
    fill(small, T0, 3)
    async with reading(small, T0, T1) as consumer:
        await eventually(lambda: 3 in fetched_from(small))
        consumer.pause([T0])
        fill(small, T1, 3)
        assert await read(consumer, 3) == {T1: [0, 1, 2]}
        consumer.resume([T0])
        assert await read(consumer, 3) == {T0: [0, 1, 2]}


@virtual_time
async def test_room_for_a_partition_is_used_soon_though_others_of_its_broker_are_idle() -> None:
    small = small_of(partitions=2)
    for _ in range(10):
        fill(small, T0, 1)
    options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, partition_max_bytes=1, max_wait_ms=30_000)
    async with reading(small, T0, T1, options=options) as consumer:
        await asyncio.sleep(10)
        assert await asyncio.wait_for(read(consumer, 10), 1) == {T0: list(range(10))}


@virtual_time
async def test_leaders_are_looked_for_when_what_is_known_is_old() -> None:
    small = small_of()
    options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, metadata_max_age_ms=1_000)
    async with reading(small, T0, options=options):
        await asyncio.sleep(10.5)
        assert 9 <= small.keys_asked().count(ApiKey.METADATA) <= 12


@virtual_time
async def test_a_session_that_may_be_a_request_ahead_is_begun_anew() -> None:
    small = small_of()
    epochs: list[int] = []
    async with reading(small, T0):
        await asyncio.sleep(2)

        def lose_first(asked: Asked) -> None:
            if asked.key is ApiKey.FETCH:
                epochs.append(asked.request.session_epoch)
                if len(epochs) == 1:
                    raise Hangup

        small.on_request = lose_first
        await asyncio.sleep(2)
    assert epochs[0] > 1
    assert epochs[1:3] == [0, 1]


@virtual_time
async def test_a_pause_that_ends_is_noticed_at_once() -> None:
    small = small_of()
    async with reading(small, T0) as consumer:
        assert await consumer.position(T0) == 0
        consumer.pause([T0])
        await asyncio.sleep(5)
        fill(small, T0, 3)
        waiting = asyncio.ensure_future(read(consumer, 3))
        await asyncio.sleep(5)
        assert not waiting.done()
        consumer.resume([T0])
        assert await asyncio.wait_for(waiting, 0.1) == {T0: [0, 1, 2]}


def transactions() -> SmallCluster:
    """Producer 7 aborts offsets 0 to 2, producer 8 commits 3 to 5 and producer 7 again 8 to 10."""
    small = small_of()
    log = small.logs[T0]

    def write(batch: bytes, count: int) -> None:
        log.batches.append(bytearray(batch))
        log.end_offset += count

    def data(producer_id: int, sequence: int) -> None:
        first = log.end_offset
        records = [Record(0, 0, None, b"%d" % (first + each)) for each in range(3)]
        identity = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        write(build_batch(records, base_offset=first, transactional=True, **identity), 3)

    def marker(producer_id: int, kind: ControlRecordType) -> None:
        identity = {"producer_id": producer_id, "producer_epoch": 0}
        write(build_end_txn_marker(EndTxnMarker(kind, 0), timestamp=0, base_offset=log.end_offset, **identity), 1)

    data(7, 0)
    data(8, 0)
    marker(7, ControlRecordType.ABORT)
    marker(8, ControlRecordType.COMMIT)
    data(7, 3)
    marker(7, ControlRecordType.COMMIT)
    return small


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        (IsolationLevel.READ_COMMITTED, [3, 4, 5, 8, 9, 10]),
        (IsolationLevel.READ_UNCOMMITTED, [0, 1, 2, 3, 4, 5, 8, 9, 10]),
    ],
)
def test_who_reads_what_is_committed_sees_nothing_that_was_aborted(level: IsolationLevel, seen: list[int]) -> None:
    @virtual_time
    async def play() -> None:
        small = transactions()

        async def name_what_was_aborted(asked: Asked) -> Any:
            if asked.key is not ApiKey.FETCH:
                return None
            assert asked.request.isolation_level == level
            response = await small._fetch(asked)
            for topic in response.responses:
                for answer in topic.partition_responses:
                    answer.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
            return response

        small.on_request = name_what_was_aborted
        options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, isolation_level=level)
        async with reading(small, T0, options=options) as consumer:
            assert await read(consumer, len(seen)) == {T0: seen}
            assert consumer.positions() == {T0: 12}

    play()
