"""Groups in ZooKeeper: shares, offsets, claims that others hold, sessions that end."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions, OffsetReset
from barnabas.client.zookeeper_consumer import ZooKeeperConsumer, ZooKeeperConsumerOptions
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.small_cluster import SmallCluster
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Set, Znode, ZooKeeperUnreachable
from zk_schema.payloads import SubscriptionPattern, TopicAssignment

PARTS = [TopicPartition("t", number) for number in range(4)]


@dataclass
class World:
    """Brokers, and the ZooKeeper that tells of them."""

    small: SmallCluster
    cluster: Cluster
    server: MemoryZooKeeper
    zookeeper: MemorySession

    async def add_topic(self, name: str, partitions: int) -> None:
        self.small.add_topic(name, partitions)
        assignment = TopicAssignment({number: (BrokerId(1),) for number in range(partitions)}).encode()
        if await self.zookeeper.exists(paths.topic(name)):
            await self.zookeeper.write(Set(paths.topic(name), assignment))
        else:
            await self.zookeeper.write(Create(paths.topic(name), assignment))

    def fill(self, count: int = 3) -> None:
        for log in self.small.logs.values():
            log.append(build_batch([Record(0, 0, None, b"")] * count))
        self.small.appended.set()

    async def offsets(self) -> list[int | None]:
        found = [
            await self.zookeeper.get(paths.consumer_offset(group="g", topic_name="t", partition_number=each.partition))
            for each in PARTS
        ]
        return [None if each is None else int(each.data) for each in found]

    async def owner(self, each: TopicPartition) -> bytes | None:
        path = paths.consumer_owner(group="g", topic_name=each.topic, partition_number=each.partition)
        found = await self.zookeeper.get(path)
        return None if found is None else found.data


@dataclass
class Member:
    consumer: ZooKeeperConsumer
    session: MemorySession
    seen: dict[TopicPartition, list[int]] = field(default_factory=dict)

    async def read(self) -> None:
        async with aclosing(self.consumer.batches()) as batches:
            async for batch in batches:
                self.seen.setdefault(batch.topic_partition, []).extend(each.offset for each in batch.records)

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))


@pytest.fixture
async def world(small: SmallCluster, cluster: Cluster) -> AsyncIterator[World]:
    server = MemoryZooKeeper()
    session = MemorySession(server)
    await session.open()
    for path in ("/brokers", "/consumers", paths.BROKER_IDS, paths.BROKER_TOPICS):
        await session.write(Create(path))
    world = World(small, cluster, server, session)
    await world.add_topic("t", 4)
    yield world
    await session.close()


@asynccontextmanager
async def member(
    world: World,
    name: str,
    *,
    streams: int = 1,
    pattern: str | None = None,
    auto: int | None = 10,
    session: MemorySession | None = None,
) -> AsyncIterator[Member]:
    session = session or MemorySession(world.server)
    await session.open()
    options = ZooKeeperConsumerOptions(
        group_id="g",
        consumer_id=name,
        auto_commit_interval_ms=auto,
        rebalance_backoff_ms=50,
        reading=ConsumerOptions(offset_reset=OffsetReset.EARLIEST, max_wait_ms=20),
    )
    async with ZooKeeperConsumer(world.cluster, session, options, random=random.Random(0)) as consumer:
        if pattern is None:
            consumer.subscribe({"t": streams})
        else:
            consumer.subscribe({pattern: streams}, pattern=SubscriptionPattern.WHITE_LIST)
        member = Member(consumer, session)
        reading = asyncio.ensure_future(member.read())
        try:
            yield member
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    await session.close()


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def test_one_member_reads_all_and_leaves_its_offsets_for_the_next_one(world: World) -> None:
    world.fill()
    async with member(world, "a") as first:
        await eventually(lambda: first.count == 12)
        assert first.consumer.assignment == PARTS
        assert await world.owner(PARTS[3]) == b"a-0"
    assert await world.offsets() == [3, 3, 3, 3]
    assert await world.owner(PARTS[3]) is None
    assert await world.zookeeper.children(paths.consumer_ids("g")) == []
    world.fill(1)
    async with member(world, "b") as second:
        await eventually(lambda: second.count == 4)
        assert second.seen == {each: [3] for each in PARTS}


async def test_members_share_by_streams_and_hand_over_without_reading_twice(world: World) -> None:
    world.fill()
    async with member(world, "a") as first:
        await eventually(lambda: first.count == 12)
        async with member(world, "b", streams=3) as second:
            await eventually(lambda: second.consumer.assignment == PARTS[1:])
            assert first.consumer.assignment == PARTS[:1]
            assert [await world.owner(each) for each in PARTS] == [b"a-0", b"b-0", b"b-1", b"b-2"]
            world.fill()
            await eventually(lambda: first.count + second.count == 24)
        await eventually(lambda: first.consumer.assignment == PARTS)
        world.fill()
        await eventually(lambda: first.count + second.count == 36)
    assert all(sorted(first.seen[each] + second.seen.get(each, [])) == list(range(9)) for each in PARTS)


async def test_a_claim_that_another_holds_waits_for_it(world: World) -> None:
    for path in ("/consumers/g", "/consumers/g/owners", "/consumers/g/owners/t"):
        await world.zookeeper.write(Create(path))
    other = MemorySession(world.server)
    await other.open()
    held = paths.consumer_owner(group="g", topic_name="t", partition_number=2)
    await other.write(Create(held, b"old-0", ephemeral=True))
    async with member(world, "a") as first:
        await eventually(lambda: first.consumer.assignment == [PARTS[0], PARTS[1], PARTS[3]])
        await other.close()
        await eventually(lambda: first.consumer.assignment == PARTS)


async def test_when_the_session_ends_all_is_claimed_anew_from_what_was_committed(world: World) -> None:
    world.fill()
    async with member(world, "a") as first:
        await eventually(lambda: first.count == 12)
        await first.consumer.commit()
        world.server.expire(first.session)
        await eventually(lambda: first.consumer.assignment == [])
        await eventually(lambda: first.consumer.assignment == PARTS)
        world.fill(1)
        await eventually(lambda: first.count == 16)
        assert first.seen == {each: [0, 1, 2, 3] for each in PARTS}


async def test_a_lost_connection_changes_nothing(world: World) -> None:
    world.fill()
    async with member(world, "a") as first:
        await eventually(lambda: first.count == 12)
        world.server.disconnect(first.session)
        world.fill(1)
        await eventually(lambda: first.count == 16)
        assert first.consumer.assignment == PARTS


async def test_partitions_and_topics_that_come_are_read(world: World) -> None:
    async with member(world, "a", pattern="t.*") as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        await world.add_topic("t", 5)
        await world.add_topic("t2", 1)
        await world.add_topic("other", 1)
        await eventually(lambda: len(first.consumer.assignment) == 6)
        assert first.consumer.assignment[-2:] == [TopicPartition("t", 4), TopicPartition("t2", 0)]


async def test_without_automatic_commits_only_the_caller_commits(world: World) -> None:
    world.fill()
    async with member(world, "a", auto=None) as first:
        await eventually(lambda: first.count == 12)
    assert await world.offsets() == [None] * 4
    async with member(world, "a", auto=None) as first:
        await eventually(lambda: first.count == 12)
        await asyncio.sleep(0)  # the reader has asked behind the last batch
        await first.consumer.commit()
    assert await world.offsets() == [3] * 4


async def test_what_was_worked_on_is_committed_before_others_may_claim_it(world: World) -> None:
    world.fill()
    async with member(world, "a", auto=60_000) as first:
        await eventually(lambda: first.count == 12)
        async with member(world, "b", streams=3, auto=60_000) as second:
            await eventually(lambda: second.consumer.assignment == PARTS[1:])
            world.fill(1)
            await eventually(lambda: second.count == 3)
            assert second.seen == {each: [3] for each in PARTS[1:]}


async def test_a_registration_of_a_former_session_is_waited_for_to_go(world: World) -> None:
    async with member(world, "a") as earlier:
        await eventually(lambda: earlier.consumer.assignment == PARTS)
        registration = await world.zookeeper.get(paths.consumer_id(group="g", name="a"))
        assert registration is not None
    former = MemorySession(world.server)
    await former.open()
    path = paths.consumer_id(group="g", name="a")
    await former.write(Create(path, registration.data, ephemeral=True))
    async with member(world, "a") as later:
        await asyncio.sleep(0.2)  # some attempts
        await former.close()
        await eventually(lambda: later.consumer.assignment == PARTS)
        await asyncio.sleep(0.2)
        found = await world.zookeeper.get(path)
        assert found is not None
        assert found.stat.ephemeral_owner == later.session.session_id
        assert later.consumer.assignment == PARTS


class Forgetful(MemorySession):
    """Its first question for a committed offset is not answered."""

    has_forgotten = False

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        if path.startswith("/consumers/g/offsets/") and not self.has_forgotten:
            self.has_forgotten = True
            raise ZooKeeperUnreachable("nobody answers")
        return await super().get(path, watch=watch)


async def test_offsets_that_cannot_be_read_now_are_read_later(world: World) -> None:
    world.fill()
    session = Forgetful(world.server)
    async with member(world, "a", session=session) as first:
        await eventually(lambda: first.count == 12)
        assert session.has_forgotten


async def test_partitions_that_come_to_a_topic_are_read(world: World) -> None:
    async with member(world, "a") as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        await world.add_topic("t", 5)
        await eventually(lambda: len(first.consumer.assignment) == 5)


async def test_who_leaves_is_registered_no_more_though_its_session_goes_on(world: World) -> None:
    options = ZooKeeperConsumerOptions(group_id="g", consumer_id="a")
    async with ZooKeeperConsumer(world.cluster, world.zookeeper, options, random=random.Random(0)) as consumer:
        consumer.subscribe({"t": 1})
        await eventually(lambda: consumer.assignment == PARTS)
        assert await world.zookeeper.children(paths.consumer_ids("g")) == ["a"]
    assert await world.zookeeper.children(paths.consumer_ids("g")) == []
    assert await world.owner(PARTS[0]) is None


async def test_claims_name_the_stream_that_they_are_for(world: World) -> None:
    async with member(world, "a") as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        first.consumer.subscribe({"t": 2})
        async with asyncio.timeout(10):
            while [await world.owner(each) for each in PARTS] != [b"a-0", b"a-0", b"a-1", b"a-1"]:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
        await eventually(lambda: first.consumer.assignment == PARTS)
