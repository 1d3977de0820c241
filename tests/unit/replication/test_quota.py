"""The rate at which throttled replicas are copied, and who is held up by it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from replication.quota import ReplicationQuota, names_replica
from tests.support.virtual_time import virtual_time
from tests.unit.replication.following import Following, open_following
from tests.unit.replication.replica_world import TP, ReplicaWorld, append_now


def bounded(bound: int) -> ReplicationQuota:
    quota = ReplicationQuota()
    quota.bytes_per_second = bound
    return quota


def test_without_a_bound_nothing_is_exceeded() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0)
    assert not quota.is_exceeded(1)


def test_a_bound_is_exceeded_until_enough_time_has_passed() -> None:
    quota = bounded(1_000)
    assert not quota.is_exceeded(0)
    quota.record(3_000, 0)
    assert quota.is_exceeded(0)
    assert quota.is_exceeded(2_900)
    assert not quota.is_exceeded(3_000)


def test_less_than_a_sample_of_time_counts_as_one() -> None:
    quota = bounded(1_000)
    quota.record(900, 0)
    assert not quota.is_exceeded(1)


def test_what_is_older_than_all_samples_counts_no_more() -> None:
    quota = bounded(10)
    quota.record(1_000, 0)
    quota.record(50, 10_000)
    assert quota.is_exceeded(10_999)
    assert not quota.is_exceeded(11_000 + 5_000)


def test_a_bound_that_changes_acts_at_once() -> None:
    quota = bounded(10)
    quota.record(1_000, 0)
    quota.bytes_per_second = 100_000
    assert not quota.is_exceeded(1)


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 900)), max_size=30), st.integers(1, 5_000))
def test_who_waits_while_it_is_exceeded_copies_at_the_bound(pieces: list[tuple[int, int]], bound: int) -> None:
    quota = bounded(bound)
    now_ms = copied = 0
    for wanted, pause_ms in pieces:
        # A piece that takes longer than all samples would be forgotten before it has been waited for, as in Kafka.
        size = min(wanted, bound)
        now_ms += pause_ms
        while quota.is_exceeded(now_ms):
            now_ms += 50
        quota.record(size, now_ms)
        copied += size
    # But for one piece above it, and what may come before the first sample is over.
    assert copied <= bound * (now_ms + 1_000) / 1_000 + 2 * bound


@pytest.mark.parametrize(
    ("throttled", "expected"),
    [([], False), (["*"], True), (["3:1"], True), (["3:2", "2:1"], False), (["0:0", " 3:1"], True)],
)
def test_replicas_are_named_by_partition_and_broker(throttled: list[str], *, expected: bool) -> None:
    assert names_replica(throttled, partition=3, broker_id=1) is expected


# A follower.


async def lagging(size_bytes: int = 100_000, **settings: int) -> Following:
    """A follower of a throttled replica, which lags by that much, and of one that is not throttled."""
    following = await open_following(partition_max_bytes=10_000, **settings)
    for at in (TP, TopicPartition("free", 0)):
        its = following.leader.add(at)
        for _ in range(size_bytes // 10_000):
            its.write(b"v" * 9_900)
        (await following.follow(at)).throttled_as_follower = at == TP
    return following


@virtual_time
async def test_a_throttled_replica_that_lags_comes_at_the_bound_and_others_do_not() -> None:
    following = await lagging()
    following.leader.quota.bytes_per_second = 10_000
    await asyncio.sleep(1)
    assert following.has_all(TopicPartition("free", 0))
    assert following.parts[TP].log.log_end_offset <= 3
    await asyncio.sleep(4)
    assert 4 <= following.parts[TP].log.log_end_offset <= 7
    await asyncio.sleep(7)
    assert following.has_all(TP)
    await following.stop()


@virtual_time
async def test_a_throttled_replica_in_sync_is_not_held_up() -> None:
    following = await lagging(10_000)
    await asyncio.sleep(1)
    assert following.has_all(TP)
    following.leader.quota.bytes_per_second = 1
    following.leader.quota.record(1_000_000, 1_000)
    for _ in range(3):
        following.leader.logs[TP].write(b"v")
        following.leader.wake()
        await asyncio.sleep(0.05)
        assert following.has_all(TP)
    await following.stop()


# Moves.


@virtual_time
async def test_moves_between_directories_keep_to_their_bound() -> None:
    world = await ReplicaWorld(directories=2).open()
    partition = await world.lead()
    for _ in range(8):
        append_now(partition, b"v" * 200_000)
    world.ports.quotas.moves.bytes_per_second = 200_000
    assert world.replicas.move(TP, "/logs1", is_known=True) is ErrorCode.NONE
    waited = 0
    while len(world.moves):
        await asyncio.sleep(0.1)
        world.clock.advance(100)
        waited += 100
    assert partition.directory.path == "/logs1"
    assert 7_000 <= waited <= 11_000
