"""Members of groups: what they are given, what they commit, what they do when the coordinator or the group goes on."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

import pytest

from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions, OffsetReset
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.errors import KafkaError
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.records import Record, build_batch
from tests.unit.client.conftest import OpenCluster
from tests.unit.client.small_cluster import Asked, Hangup, SmallCluster

PARTS = [TopicPartition("t", index) for index in range(4)]
QUICK = ConsumerOptions(
    group_id="g",
    offset_reset=OffsetReset.EARLIEST,
    heartbeat_interval_ms=30,
    session_timeout_ms=3_000,
    max_poll_interval_ms=3_000,
    auto_commit_interval_ms=None,
    max_wait_ms=20,
)
AUTO = replace(QUICK, auto_commit_interval_ms=20)
ASSIGNORS = [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]


@dataclass
class Reader:
    """A consumer that reads all the time, with what happened to it."""

    cluster: Cluster
    options: ConsumerOptions = QUICK
    seen: dict[TopicPartition, list[int]] = field(default_factory=dict)
    told: list[tuple[str, list[TopicPartition]]] = field(default_factory=list)
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    topics: Sequence[str] = ("t",)
    pattern: re.Pattern[str] | None = None

    async def __aenter__(self) -> Self:
        self.hold.set()
        self.consumer = Consumer(
            self.cluster,
            self.options,
            on_assigned=self._teller("assigned"),
            on_revoked=self._teller("revoked"),
            on_lost=self._teller("lost"),
        )
        await self.consumer.__aenter__()
        await self.consumer.subscribe(() if self.pattern else self.topics, pattern=self.pattern)
        self.reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)
        await self.consumer.close()

    def _teller(self, what: str) -> Callable[[Sequence[TopicPartition]], Awaitable[None]]:
        async def tell(partitions: Sequence[TopicPartition]) -> None:
            self.told.append((what, list(partitions)))

        return tell

    async def _read(self) -> None:
        async with aclosing(self.consumer.batches()) as batches:
            async for batch in batches:
                self.seen.setdefault(batch.topic_partition, []).extend(each.offset for each in batch.records)
                await self.hold.wait()

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    def gained(self, what: str) -> list[TopicPartition]:
        return sorted(each for kind, partitions in self.told if kind == what for each in partitions)


def asked_of(small: SmallCluster, key: ApiKey) -> int:
    return sum(each.key is key for each in small.asked)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition is other tasks' doing
            await asyncio.sleep(0.005)


def fill(small: SmallCluster, count: int = 3, topic: str = "t") -> None:
    for part, log in small.logs.items():
        if part.topic == topic:
            log.append(build_batch([Record(0, 0, None, b"")] * count))
    small.appended.set()


@pytest.fixture
def small(small: SmallCluster) -> SmallCluster:
    small.add_topic("t", 4)
    return small


async def test_one_member_reads_everything_and_its_commits_are_where_the_next_one_begins(
    small: SmallCluster, cluster: Cluster
) -> None:
    fill(small)
    async with Reader(cluster) as reader:
        await eventually(lambda: reader.count == 12)
        await reader.consumer.commit()
        assert await reader.consumer.committed(PARTS) == dict.fromkeys(PARTS, OffsetAndMetadata(3, 0))
        await reader.consumer.commit({PARTS[0]: OffsetAndMetadata(1, -1, "note")})
        assert (await reader.consumer.committed(PARTS))[PARTS[0]] == OffsetAndMetadata(1, -1, "note")
    fill(small)
    async with Reader(cluster) as reader:
        await eventually(lambda: reader.count == 14)
        assert reader.seen[PARTS[0]] == [1, 2, 3, 4, 5]
        assert reader.seen[PARTS[1]] == [3, 4, 5]


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda each: str(each.name))
async def test_members_share_and_take_over_from_those_that_leave(
    small: SmallCluster, cluster: Cluster, assignor: RangeAssignor
) -> None:
    options = replace(AUTO, assignors=[assignor])
    fill(small)
    async with Reader(cluster, options) as stays:
        await eventually(lambda: stays.count == 12)
        async with Reader(cluster, options) as goes:
            await eventually(lambda: len(stays.consumer.assignment) == len(goes.consumer.assignment) == 2)
            assert sorted([*stays.consumer.assignment, *goes.consumer.assignment]) == PARTS
            fill(small)
            await eventually(lambda: stays.count + goes.count == 24)
        await eventually(lambda: stays.consumer.assignment == PARTS)
        fill(small)
        await eventually(lambda: stays.count + goes.count == 36)
    # What was worked on was committed before it changed hands.
    assert all(sorted(stays.seen[each] + goes.seen.get(each, [])) == list(range(9)) for each in PARTS)


async def test_cooperative_members_keep_reading_what_they_keep(small: SmallCluster, cluster: Cluster) -> None:
    options = replace(QUICK, assignors=[CooperativeStickyAssignor()])
    async with Reader(cluster, options) as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        async with Reader(cluster, options) as second:
            await eventually(lambda: len(second.consumer.assignment) == 2)
            assert first.gained("revoked") == second.consumer.assignment
            assert first.gained("assigned") == PARTS  # nothing came twice


async def test_a_group_agrees_on_an_assignor_that_all_members_have(small: SmallCluster, cluster: Cluster) -> None:
    options = replace(QUICK, assignors=[StickyAssignor(), RangeAssignor()])
    async with Reader(cluster, options) as first, Reader(cluster) as second:
        await eventually(lambda: len(first.consumer.assignment) == len(second.consumer.assignment) == 2)
        assert {tuple(first.consumer.assignment), tuple(second.consumer.assignment)} == {
            tuple(PARTS[:2]), tuple(PARTS[2:])
        }  # fmt: skip


async def test_a_rebalance_waits_for_the_batch_in_hand_and_commits_it(small: SmallCluster, cluster: Cluster) -> None:
    fill(small, 1)
    async with Reader(cluster, AUTO) as slow:
        slow.hold.clear()
        await eventually(lambda: slow.count == 1)
        async with Reader(cluster, AUTO) as second:
            before = asked_of(small, ApiKey.HEARTBEAT)
            # Who is slow must not be taken for dead.
            await eventually(lambda: asked_of(small, ApiKey.HEARTBEAT) > before + 10)
            assert second.told == []
            assert slow.gained("revoked") == []
            slow.hold.set()
            await eventually(lambda: len(second.consumer.assignment) == 2 and slow.count + second.count == 4)


async def test_a_batch_that_was_left_unfinished_is_not_committed_by_itself(
    small: SmallCluster, cluster: Cluster
) -> None:
    small.logs[PARTS[0]].append(build_batch([Record(0, 0, None, b"")] * 2))
    async with Reader(cluster, AUTO) as reader:
        reader.hold.clear()
        await eventually(lambda: reader.count == 2)
        await asyncio.sleep(0.1)  # five times the interval of commits
        assert (await reader.consumer.committed(PARTS))[PARTS[0]].offset == 0
    async with Reader(cluster, AUTO) as reader:
        await eventually(lambda: reader.count == 2)
    async with Consumer(cluster, QUICK) as consumer:
        assert (await consumer.committed(PARTS))[PARTS[0]].offset == 2


async def test_the_group_goes_on_when_its_coordinator_moves(small: SmallCluster, cluster: Cluster) -> None:
    fill(small)
    async with Reader(cluster) as reader:
        await eventually(lambda: reader.count == 12)
        await reader.consumer.commit()
        small.groups.move_to(2)
        await asyncio.sleep(0.1)  # some heartbeats
        await reader.consumer.commit()
        fill(small)
        await eventually(lambda: reader.count == 24)
        assert reader.told == [("assigned", PARTS)]
        assert {asked.node_id for asked in small.asked if asked.key is ApiKey.HEARTBEAT} == {1, 2}


@pytest.mark.parametrize(
    "key", [ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_FETCH]
)
async def test_what_is_lost_on_the_way_is_asked_again(small: SmallCluster, cluster: Cluster, key: ApiKey) -> None:
    left = 2

    def hang_up(asked: Asked) -> None:
        nonlocal left
        if asked.key is key and left:
            left -= 1
            raise Hangup

    small.on_request = hang_up
    fill(small)
    async with Reader(cluster, replace(QUICK, session_timeout_ms=300)) as reader:
        await eventually(lambda: reader.count >= 12 and not left)
        assert reader.consumer.assignment == PARTS


async def test_an_expelled_member_loses_its_partitions_and_joins_as_a_new_one(
    small: SmallCluster, cluster: Cluster
) -> None:
    async with Reader(cluster) as reader:
        await eventually(lambda: reader.consumer.assignment == PARTS)
        former = reader.consumer.group_metadata
        answered = False

        def expel(asked: Asked) -> HeartbeatResponse | None:
            nonlocal answered
            if asked.key is ApiKey.HEARTBEAT and not answered:
                answered = True
                return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
            return None

        small.on_request = expel
        await eventually(lambda: reader.gained("lost") == PARTS and reader.told[-1] == ("assigned", PARTS))
        assert reader.consumer.group_metadata.member_id != former.member_id


async def test_who_lost_what_it_works_on_commits_as_the_member_that_had_it(
    small: SmallCluster, cluster: Cluster
) -> None:
    """Another member may have copied the same records meanwhile: as the new member it would copy them twice."""
    fill(small)
    async with asyncio.timeout(10), Consumer(cluster, QUICK) as consumer:
        await consumer.subscribe(["t"])
        async with aclosing(consumer.batches()) as batches:
            batch = await anext(batches)
            former = consumer.group_metadata
            left = 1

            def expel(asked: Asked) -> HeartbeatResponse | None:
                nonlocal left
                if asked.key is ApiKey.HEARTBEAT and left:
                    left -= 1
                    return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
                return None

            small.on_request = expel
            await eventually(lambda: not left and not consumer.assignment)
            await eventually(lambda: consumer.assignment == PARTS)
            assert consumer.group_metadata == former
            with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
                await consumer.commit({batch.topic_partition: OffsetAndMetadata(batch.records[-1].offset + 1)})
            await consumer.commit()
            assert (await anext(batches)).records[0].offset == 0, "nothing was committed"
            assert consumer.group_metadata.member_id not in ("", former.member_id)


async def test_a_batch_that_was_committed_and_then_left_stays_committed(small: SmallCluster, cluster: Cluster) -> None:
    """What leaving commits by itself, and what the interval does, is not behind what the caller committed."""
    fill(small)
    async with asyncio.timeout(10), Consumer(cluster, AUTO) as consumer:
        await consumer.subscribe(["t"])
        async with aclosing(consumer.batches()) as batches:
            batch = await anext(batches)
            await consumer.commit()
        await asyncio.sleep(0.1)  # several intervals
        assert (await consumer.committed(PARTS))[batch.topic_partition].offset == 3
    async with asyncio.timeout(10), Consumer(cluster, QUICK) as consumer:
        assert (await consumer.committed(PARTS))[batch.topic_partition].offset == 3


async def test_a_commit_of_a_former_member_fails_and_nothing_is_committed(
    small: SmallCluster, cluster: Cluster
) -> None:
    async with Reader(cluster) as reader:
        await eventually(lambda: reader.consumer.assignment == PARTS)
        small.groups.records.clear()  # the coordinator has forgotten the group
        small.groups.move_to(1)
        with pytest.raises(CommitFailed):
            await reader.consumer.commit({PARTS[0]: OffsetAndMetadata(1)})
        await eventually(lambda: reader.gained("lost") == PARTS and reader.consumer.assignment == PARTS)
        assert await reader.consumer.committed(PARTS) == {}


async def test_a_static_member_comes_back_without_a_rebalance(
    small: SmallCluster, cluster: Cluster, open_cluster: OpenCluster
) -> None:
    options = [replace(QUICK, group_instance_id=f"i{index}", session_timeout_ms=30_000) for index in (0, 1)]
    async with Reader(cluster, options[0]) as first:
        async with Reader(cluster, options[1]) as second:
            await eventually(lambda: len(first.consumer.assignment) == len(second.consumer.assignment) == 2)
            had = second.consumer.assignment
        told = len(first.told)
        async with Reader(open_cluster(small), options[1]) as again:
            await eventually(lambda: again.consumer.assignment == had)
        assert len(first.told) == told
        assert ApiKey.LEAVE_GROUP not in [asked.key for asked in small.asked]


async def test_a_fenced_static_member_is_told(small: SmallCluster, cluster: Cluster, open_cluster: OpenCluster) -> None:
    options = replace(QUICK, group_instance_id="i")
    async with Reader(cluster, options) as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        async with Reader(open_cluster(small), options):
            with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
                await asyncio.wait_for(first.reading, 10)


async def test_a_member_that_asks_for_nothing_leaves_until_it_does(small: SmallCluster, cluster: Cluster) -> None:
    fill(small, 1)
    async with Reader(cluster, replace(QUICK, max_poll_interval_ms=200)) as slow, Reader(cluster) as other:
        await eventually(lambda: len(slow.consumer.assignment) == len(other.consumer.assignment) == 2)
        slow.hold.clear()
        fill(small, 1)
        await eventually(lambda: other.consumer.assignment == PARTS)
        assert slow.gained("lost") != []
        slow.hold.set()
        await eventually(lambda: len(slow.consumer.assignment) == len(other.consumer.assignment) == 2)


async def test_a_pattern_takes_topics_that_come(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("__internal", 1)
    small.add_topic("ta", 1)
    options = replace(QUICK, metadata_max_age_ms=50)
    async with Reader(cluster, options, pattern=re.compile("t.?")) as reader:
        await eventually(lambda: reader.consumer.assignment == [*PARTS, TopicPartition("ta", 0)])
        small.add_topic("tb", 1)
        small.add_topic("other", 1)
        await eventually(lambda: TopicPartition("tb", 0) in reader.consumer.assignment)
        assert len(reader.consumer.assignment) == 6


async def test_partitions_that_are_added_are_read(small: SmallCluster, cluster: Cluster) -> None:
    async with Reader(cluster, replace(QUICK, metadata_max_age_ms=50)) as reader:
        await eventually(lambda: reader.consumer.assignment == PARTS)
        small.add_topic("t", 5)
        await eventually(lambda: len(reader.consumer.assignment) == 5)


async def test_a_new_subscription_replaces_the_old_one(small: SmallCluster, cluster: Cluster) -> None:
    small.add_topic("u", 1)
    for assignor in (RangeAssignor(), CooperativeStickyAssignor()):
        async with Reader(cluster, replace(QUICK, group_id=assignor.name, assignors=[assignor])) as reader:
            await eventually(lambda: reader.consumer.assignment == PARTS)
            await reader.consumer.subscribe(["u"])
            await eventually(lambda: reader.consumer.assignment == [TopicPartition("u", 0)])


async def test_commits_are_carried_out_in_the_order_of_the_calls(small: SmallCluster, cluster: Cluster) -> None:
    refused = 0

    def refuse_twice(asked: Asked) -> None:
        nonlocal refused
        if asked.key is ApiKey.OFFSET_COMMIT and refused < 2:
            refused += 1
            raise Hangup

    small.on_request = refuse_twice
    async with Consumer(cluster, QUICK) as consumer:
        consumer.assign(PARTS)
        commits = [consumer.begin_commit({PARTS[0]: OffsetAndMetadata(offset)}) for offset in (1, 2, 3)]
        await asyncio.gather(*commits)
        assert refused == 2
        assert (await consumer.committed(PARTS))[PARTS[0]].offset == 3
        # Offsets of transactions that decide are waited for.
        assert all(each.request.require_stable for each in small.asked if each.key is ApiKey.OFFSET_FETCH)
        asked = [each.request for each in small.asked if each.key is ApiKey.OFFSET_COMMIT]
        offsets = [each.topics[0].partitions[0].committed_offset for each in asked]
        assert offsets == sorted(offsets)


async def test_a_commit_is_of_the_generation_it_was_called_in_however_late_it_arrives(
    small: SmallCluster, cluster: Cluster, open_cluster: OpenCluster
) -> None:
    hangs = True

    def hang_up(asked: Asked) -> None:
        if asked.key is ApiKey.OFFSET_COMMIT and hangs:
            raise Hangup

    async with Reader(cluster) as first:
        await eventually(lambda: first.consumer.assignment == PARTS)
        generation = first.consumer.group_metadata.generation_id
        small.on_request = hang_up
        commit = first.consumer.begin_commit({each: OffsetAndMetadata(1) for each in PARTS})
        async with Reader(open_cluster(small)) as second:
            await eventually(lambda: len(first.consumer.assignment) == len(second.consumer.assignment) > 0)
            hangs = False
            with pytest.raises(CommitFailed):
                await commit
            asked = [each.request.generation_id for each in small.asked if each.key is ApiKey.OFFSET_COMMIT]
            assert set(asked) == {generation}
            assert await first.consumer.committed(PARTS) == {}
            # What was refused was of a former generation: the present membership stands.
            assert first.consumer.group_metadata.generation_id > generation
            assert first.gained("lost") == []


async def test_what_trying_again_cannot_mend_reaches_the_reader(small: SmallCluster, cluster: Cluster) -> None:
    def refuse(asked: Asked) -> JoinGroupResponse | None:
        if asked.key is ApiKey.JOIN_GROUP:
            return JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return None

    small.on_request = refuse
    async with Reader(cluster) as reader:
        with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
            await asyncio.wait_for(reader.reading, 10)
