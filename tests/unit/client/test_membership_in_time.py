"""Members of groups in virtual time: what a refusal, a lost answer or news during a join costs, and until when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from barnabas.client.assignors.assignor import Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions, OffsetReset
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.protocol.records import Record, build_batch
from tests.support.virtual_time import virtual_time
from tests.unit.client.memory_wire import MemoryWire
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster
from tests.unit.client.small_groups import refusal
from tests.unit.client.test_consumer_groups import Reader, asked_of, eventually

PARTS = [TopicPartition("t", index) for index in range(4)]
CALM = ConsumerOptions(
    group_id="g",
    offset_reset=OffsetReset.EARLIEST,
    session_timeout_ms=6_000,
    auto_commit_interval_ms=None,
    metadata_max_age_ms=1_000_000,
)
"""Everything else as it is by default: a heartbeat every 3 seconds."""


@asynccontextmanager
async def member(
    options: ConsumerOptions = CALM, *, small: SmallCluster | None = None
) -> AsyncIterator[tuple[SmallCluster, Reader]]:
    """The one member of its group, which has every partition of the topic."""
    small = small or SmallCluster()
    small.add_topic("t", 4)
    wire = MemoryWire(small)
    async with wire.cluster() as cluster, Reader(cluster, options) as reader:
        await eventually(lambda: reader.consumer.assignment == PARTS)
        yield small, reader


def expel_once(small: SmallCluster, error: ErrorCode) -> None:
    """The next heartbeat is answered so."""

    def expel(asked: Asked) -> HeartbeatResponse | None:
        if asked.key is ApiKey.HEARTBEAT:
            small.on_request = lambda _: None
            return HeartbeatResponse(error_code=error)
        return None

    small.on_request = expel


def hold_syncs(small: SmallCluster) -> asyncio.Event:
    """No member is given an assignment until the event is set."""
    release = asyncio.Event()

    async def hold(asked: Asked) -> None:
        if asked.key is ApiKey.SYNC_GROUP:
            await release.wait()

    small.on_request = hold
    return release


@virtual_time
async def test_a_commit_that_is_refused_while_the_member_joins_asks_for_no_further_generation() -> None:
    async with member() as (small, reader):
        release = hold_syncs(small)
        await reader.consumer.subscribe(["t"])
        await eventually(lambda: asked_of(small, ApiKey.SYNC_GROUP) == 2)
        with pytest.raises(CommitFailed, match="ILLEGAL_GENERATION"):
            await reader.consumer.commit({PARTS[0]: OffsetAndMetadata(1)})
        joins = asked_of(small, ApiKey.JOIN_GROUP)
        release.set()
        await asyncio.sleep(7)
        assert reader.consumer.assignment == PARTS
        assert asked_of(small, ApiKey.JOIN_GROUP) == joins


@virtual_time
async def test_a_member_commits_as_who_was_given_its_partitions_until_it_is_given_others() -> None:
    """The number of a generation that was joined is given again by a coordinator that has not heard of it."""
    async with member(replace(CALM, assignors=(CooperativeStickyAssignor(),))) as (small, reader):
        release, before = hold_syncs(small), reader.consumer.group_metadata
        await reader.consumer.subscribe(["t"])
        await eventually(lambda: asked_of(small, ApiKey.SYNC_GROUP) == 2)
        assert reader.consumer.assignment == PARTS, "they are kept meanwhile"
        assert reader.consumer.group_metadata == before
        release.set()
        await eventually(lambda: reader.consumer.group_metadata != before)
        assert reader.consumer.group_metadata.generation_id == before.generation_id + 1


@virtual_time
async def test_a_join_that_was_lost_is_tried_again_by_a_member_whom_the_group_still_counts() -> None:
    """Its heartbeats are fine, so nothing else would tell that it has given its partitions up."""
    async with member() as (small, reader):
        lost = False

        def lose(asked: Asked) -> None:
            nonlocal lost
            if asked.key is ApiKey.JOIN_GROUP and not lost:
                lost = True
                raise Hangup

        small.on_request = lose
        await reader.consumer.subscribe(["t"])
        await eventually(lambda: lost and reader.consumer.assignment == PARTS)
        assert reader.told == [("assigned", PARTS), ("revoked", PARTS), ("assigned", PARTS)]


@virtual_time
async def test_partitions_that_are_added_during_a_join_are_asked_for_behind_it() -> None:
    async with member(replace(CALM, session_timeout_ms=30_000, metadata_max_age_ms=10_000)) as (small, reader):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10 - loop.time() % 10 + 1)  # topics were looked at a second ago
        release = hold_syncs(small)
        await reader.consumer.subscribe(["t"])
        await eventually(lambda: asked_of(small, ApiKey.SYNC_GROUP) == 2)
        small.add_topic("t", 5)
        await asyncio.sleep(10)
        release.set()
        # Without waiting for the next look.
        await asyncio.sleep(2)
        assert len(reader.consumer.assignment) == 5


@pytest.mark.parametrize("assignor", [RangeAssignor(), CooperativeStickyAssignor()], ids=lambda each: str(each.name))
@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_lost_its_generation_gives_everything_up_whatever_its_assignor(
    assignor: Assignor, error: ErrorCode
) -> None:
    @virtual_time
    async def play() -> None:
        async with member(replace(CALM, assignors=[assignor])) as (small, reader):
            former = reader.consumer.group_metadata

            expel_once(small, error)
            await eventually(lambda: len(reader.told) == 3 and reader.consumer.assignment == PARTS)
            assert reader.told == [("assigned", PARTS), ("lost", PARTS), ("assigned", PARTS)]
            member_id = reader.consumer.group_metadata.member_id
            assert (member_id == former.member_id) == (error is ErrorCode.ILLEGAL_GENERATION)

    play()


@virtual_time
async def test_who_loses_its_generation_while_it_gives_some_partitions_up_loses_the_others_too() -> None:
    small, other = SmallCluster(), TopicPartition("u", 0)
    small.add_topic("t", 4)
    small.add_topic("u", 1)
    options = replace(CALM, assignors=[CooperativeStickyAssignor()])
    async with MemoryWire(small).cluster() as cluster, Reader(cluster, options, topics=("t", "u")) as reader:
        await eventually(lambda: reader.consumer.assignment == [*PARTS, other])
        reader.hold.clear()
        small.logs[other].append(build_batch([Record(0, 0, None, b"")]))
        await eventually(lambda: reader.count == 1)
        await reader.consumer.subscribe(["t"])
        heartbeats = asked_of(small, ApiKey.HEARTBEAT)
        expel_once(small, ErrorCode.ILLEGAL_GENERATION)
        await eventually(lambda: asked_of(small, ApiKey.HEARTBEAT) > heartbeats)
        reader.hold.set()
        await eventually(lambda: len(reader.told) == 4)
        assert reader.told[1:] == [("revoked", [other]), ("lost", PARTS), ("assigned", PARTS)]


@virtual_time
async def test_a_refused_commit_tells_before_the_next_heartbeat_that_the_group_went_on() -> None:
    async with member() as (small, reader):

        def refuse(asked: Asked) -> object:
            if asked.key is ApiKey.OFFSET_COMMIT:
                small.on_request = lambda _: None
                return refusal(asked.key, asked.request, ErrorCode.UNKNOWN_MEMBER_ID)
            return None

        small.on_request = refuse
        heartbeats = asked_of(small, ApiKey.HEARTBEAT)
        with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
            await reader.consumer.commit({PARTS[0]: OffsetAndMetadata(1)})
        await eventually(lambda: reader.gained("lost") == PARTS)
        assert asked_of(small, ApiKey.HEARTBEAT) == heartbeats
        await eventually(lambda: reader.consumer.assignment == PARTS)


@virtual_time
async def test_what_waits_of_partitions_that_were_lost_is_dropped() -> None:
    async with member(replace(CALM, partition_max_bytes=1)) as (small, reader):
        reader.hold.clear()
        for _ in range(3):
            small.logs[PARTS[0]].append(build_batch([Record(0, 0, None, b"")]))
        await asyncio.sleep(2)
        assert reader.seen == {PARTS[0]: [0]}
        expel_once(small, ErrorCode.ILLEGAL_GENERATION)
        await eventually(lambda: len(reader.told) == 3)
        reader.hold.set()
        await asyncio.sleep(2)
        # Nothing was committed: it begins anew with what it was given anew.
        assert reader.seen == {PARTS[0]: [0, 0, 1, 2]}
        assert not reader.consumer._fetcher._ready, "nor is it kept"


@virtual_time
async def test_who_waits_for_records_is_not_too_slow_however_long_none_come() -> None:
    async with member(replace(CALM, max_poll_interval_ms=10_000)) as (small, reader):
        await asyncio.sleep(100)
        assert reader.told == [("assigned", PARTS)]
        assert ApiKey.LEAVE_GROUP not in small.keys_asked()


@virtual_time
async def test_who_asks_for_records_while_the_member_leaves_is_back_at_once() -> None:
    async with member(replace(CALM, max_poll_interval_ms=10_000)) as (small, reader):
        leaving = asyncio.Event()

        async def hold(asked: Asked) -> None:
            if asked.key is ApiKey.LEAVE_GROUP:
                await leaving.wait()

        small.on_request = hold
        reader.hold.clear()
        small.logs[PARTS[0]].append(build_batch([Record(0, 0, None, b"")]))
        await asyncio.sleep(15)
        assert asked_of(small, ApiKey.LEAVE_GROUP) == 1
        reader.hold.set()
        await eventually(lambda: reader.consumer._fetcher.waiting == 1)
        leaving.set()
        await eventually(lambda: reader.told[1:] == [("lost", PARTS), ("assigned", PARTS)])


@virtual_time
async def test_an_offset_is_committed_by_itself_once() -> None:
    async with member(replace(CALM, auto_commit_interval_ms=1_000)) as (small, reader):
        await asyncio.sleep(5)
        assert asked_of(small, ApiKey.OFFSET_COMMIT) == 1, "where reading begins"
        small.logs[PARTS[0]].append(build_batch([Record(0, 0, None, b"")]))
        await asyncio.sleep(60)
        assert reader.count == 1
        assert asked_of(small, ApiKey.OFFSET_COMMIT) == 2


@virtual_time
async def test_a_heartbeat_that_was_not_answered_is_sent_again_long_before_the_next_one() -> None:
    async with member() as (small, reader):
        lost = False

        def lose(asked: Asked) -> None:
            nonlocal lost
            if asked.key is ApiKey.HEARTBEAT and not lost:
                lost = True
                raise Hangup

        small.on_request = lose
        await eventually(lambda: lost)
        heartbeats = asked_of(small, ApiKey.HEARTBEAT)
        await asyncio.sleep(0.5)
        assert asked_of(small, ApiKey.HEARTBEAT) == heartbeats + 1
        assert reader.told == [("assigned", PARTS)]


@virtual_time
async def test_another_coordinator_is_looked_for_where_the_known_one_is_not_there() -> None:
    small = SmallCluster(brokers=2)
    small.add_topic("t", 4)
    wire = MemoryWire(small)
    async with wire.cluster() as cluster, Reader(cluster, CALM) as reader:
        await eventually(lambda: reader.consumer.assignment == PARTS)
        wire.unreachable.add(1)

        def hang_up(asked: Asked) -> None:
            if asked.node_id == 1:
                raise Hangup

        small.on_request = hang_up
        small.groups.move_to(2)
        await asyncio.sleep(20)
        assert reader.told == [("assigned", PARTS)]
        assert {each.node_id for each in small.asked[-20:] if each.key is ApiKey.HEARTBEAT} == {2}


@virtual_time
async def test_a_member_that_its_leader_left_out_has_nothing_and_stays() -> None:
    small = SmallCluster()
    small.add_topic("t", 4)
    small.on_request = lambda asked: SyncGroupResponse() if asked.key is ApiKey.SYNC_GROUP else None
    async with MemoryWire(small).cluster() as cluster, Reader(cluster, CALM) as reader:
        await eventually(lambda: asked_of(small, ApiKey.HEARTBEAT) == 2)
        assert reader.consumer.assignment == []
        assert not reader.reading.done()


@virtual_time
async def test_brokers_that_know_no_stable_offsets_tell_the_committed_ones() -> None:
    async with member(small=SmallCluster(newest={ApiKey.OFFSET_FETCH: 5})) as (_, reader):
        await reader.consumer.commit({PARTS[0]: OffsetAndMetadata(7)})
        assert (await reader.consumer.committed(PARTS))[PARTS[0]].offset == 7
