"""What the consumer asks of brokers: fetch sessions (KIP-227), followers that are nearer (KIP-392)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions, OffsetReset
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchableTopicResponse, FetchResponse
from tests.unit.client.conftest import OpenCluster
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster
from tests.unit.client.test_consumer import fill, read, reading

EVERY = [TopicPartition("t", number) for number in range(4)]
T0, _, T2, _ = EVERY  # broker 1 leads 0 and 2
EARLY = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=20)
NEAR = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=20, client_rack="r2")


def fetches(small: SmallCluster, node_id: int = 1) -> list[Asked]:
    return [each for each in small.asked if each.key is ApiKey.FETCH and each.node_id == node_id]


def named(asked: Asked) -> list[TopicPartition]:
    return [TopicPartition(t.topic, part.partition) for t in asked.request.topics for part in t.partitions]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def test_a_request_names_what_changed_since_the_one_before(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 4)
    async with reading(cluster, *EVERY) as consumer:
        assert await consumer.position(T0) == await consumer.position(T2) == 0
        await until(lambda: len(fetches(small)) > 4)
        first, *rest = fetches(small)
        assert (first.request.session_id, first.request.session_epoch) == (0, 0)
        assert [each.request.session_epoch for each in rest] == list(range(1, len(rest) + 1))
        assert sorted({partition for each in fetches(small)[:3] for partition in named(each)}) == [T0, T2]
        assert [named(each) for each in rest[2:]] == [[]] * len(rest[2:])
        count = len(fetches(small))
        fill(small, T2, 3)
        assert await read(consumer, 3) == {T2: [0, 1, 2]}
        await until(lambda: len(fetches(small)) > count + 3)
        assert {partition for each in fetches(small)[count:] for partition in named(each)} == {T2}


async def test_partitions_without_room_are_forgotten_until_there_is_some(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 4)
    for _ in range(12):
        fill(small, T0, 1)
    options = ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=20, partition_max_bytes=1)
    async with reading(cluster, T0, T2, options=options) as consumer:
        await until(lambda: any(each.request.forgotten_topics_data for each in fetches(small)))
        (session,) = small.fetch_sessions[1].sessions.values()
        assert list(session.wanted) == [T2]
        assert await read(consumer, 12) == {T0: list(range(12))}


@pytest.mark.parametrize("error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
async def test_a_session_that_is_lost_begins_anew_without_asking_for_metadata(
    small: SmallCluster, cluster: Cluster, error: ErrorCode
) -> None:
    small.add_topic("t", 4)
    async with reading(cluster, T0, T2) as consumer:
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
        asked_for_metadata = small.keys_asked().count(ApiKey.METADATA)
        sessions = small.fetch_sessions[1].sessions
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            sessions.clear()
        else:
            for each in sessions.values():
                each.epoch += 7
        fill(small, T2, 3)
        assert await read(consumer, 3) == {T2: [0, 1, 2]}
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [3, 4, 5]}
        assert small.keys_asked().count(ApiKey.METADATA) == asked_for_metadata
        assert len(sessions) == 1


@pytest.mark.parametrize(("slots", "newest"), [(0, 12), (100, 6), (100, 4), (100, 7), (100, 10)])
async def test_brokers_without_room_for_sessions_and_old_ones_are_told_everything(
    slots: int, newest: int, open_cluster: OpenCluster
) -> None:
    async with SmallCluster(newest={ApiKey.FETCH: newest}) as small:
        small.fetch_sessions[1].slots = slots
        small.add_topic("t", 2)
        async with reading(open_cluster(small), *EVERY[:2], options=NEAR) as consumer:
            for number in range(3):
                for each in EVERY[:2]:
                    fill(small, each, 1)
                    assert await read(consumer, 1) == {each: [number]}
        if newest < 7 or not slots:
            assert all(sorted(named(each)) == EVERY[:2] for each in fetches(small)[2:])


async def test_what_was_fetched_and_dropped_comes_again_where_the_position_goes_back_to_it(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    fill(small, T0, 3)
    async with reading(cluster, T0) as consumer:
        for _ in range(3):
            assert await read(consumer, 3) == {T0: [0, 1, 2]}
            consumer.seek(T0, 0)


async def test_what_was_asked_before_a_seek_to_the_same_place_comes_again(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    async with reading(cluster, T0) as consumer:
        assert await consumer.position(T0) == 0
        await until(lambda: len(fetches(small)) > 2)

        async def move_meanwhile(asked: Asked) -> None:
            if asked.key is ApiKey.FETCH:
                small.on_request = lambda _: None
                fill(small, T0, 3)
                consumer.seek(T0, 0)

        small.on_request = move_meanwhile
        assert await read(consumer, 3) == {T0: [0, 1, 2]}


async def test_a_consumer_reads_from_the_follower_that_its_leader_names(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("t", 4)
    small.nearer = {T0: 2}
    async with reading(cluster, T0, T2, options=NEAR) as consumer:
        for each in (T0, T2):
            fill(small, each, 3)
            assert await read(consumer, 3) == {each: [0, 1, 2]}
        assert {each.request.rack_id for each in fetches(small, 2)} == {"r2"}
        fill(small, T0, 3)
        count = len(small.asked)
        assert await read(consumer, 3) == {T0: [3, 4, 5]}
        await until(lambda: len(small.asked) > count + 4)
        (session,) = small.fetch_sessions[1].sessions.values()
        assert list(session.wanted) == [T2]


@pytest.mark.parametrize("way", ["out of range", "not follower", "gone"])
async def test_the_leader_is_read_again_where_the_follower_cannot_serve(
    small: SmallCluster, cluster: Cluster, way: str
) -> None:
    small.add_topic("t")
    small.nearer = {T0: 2}
    fill(small, T0, 3)
    errors = {"out of range": ErrorCode.OFFSET_OUT_OF_RANGE, "not follower": ErrorCode.NOT_LEADER_OR_FOLLOWER}

    def fail(asked: Asked) -> Any:
        if asked.key is not ApiKey.FETCH or asked.node_id != 2:
            return None
        small.nearer = {}
        if way == "gone":
            raise Hangup
        answer = FetchablePartitionResponse(0, errors[way], record_set=b"")
        return FetchResponse(responses=[FetchableTopicResponse("t", [answer])])

    options = ConsumerOptions(offset_reset=OffsetReset.NONE, max_wait_ms=20, client_rack="r2")
    async with reading(cluster, T0, options=options) as consumer:
        consumer.seek(T0, 0)
        assert await read(consumer, 3) == {T0: [0, 1, 2]}
        small.nearer = {T0: 2}
        small.on_request = fail
        fill(small, T0, 3)
        assert await read(consumer, 3) == {T0: [3, 4, 5]}
        assert small.nearer == {}


async def test_the_leader_is_asked_again_who_is_nearer_when_what_it_said_is_old(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    small.nearer = {T0: 2}
    options = ConsumerOptions(
        offset_reset=OffsetReset.EARLIEST, max_wait_ms=20, client_rack="r2", metadata_max_age_ms=300
    )
    async with reading(cluster, T0, options=options) as consumer:
        fill(small, T0, 1)
        assert await read(consumer, 1) == {T0: [0]}
        count = len(fetches(small, 1))
        await until(lambda: len(fetches(small, 1)) >= count + 2)
        assert len(fetches(small, 2)) > len(fetches(small, 1))


async def test_a_follower_that_nobody_knows_is_asked_for_and_not_at_once_again(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.add_topic("t")
    small.nearer = {T0: 9}
    async with reading(cluster, T0, options=NEAR) as consumer:
        assert await consumer.position(T0) == 0
        await asyncio.sleep(0.4)
        assert 1 < small.keys_asked().count(ApiKey.METADATA) < 8
        assert len(fetches(small, 1)) < 8
