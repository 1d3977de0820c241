"""Fetchers under load: no partition and no disk holds up the others, and what waits is bounded."""

import asyncio
from collections.abc import Sequence

from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.storage.log_config import LogConfig
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.following import Following, open_following
from tests.unit.replication.replica_world import TP

FEW = [TopicPartition("t", number) for number in range(4)]
MANY = [TopicPartition("t", number) for number in range(200)]


async def caught_up_with_few(*, directories: int = 1) -> Following:
    following = await open_following(directories=directories)
    for at in FEW:
        following.leader.add(at).write(b"v")
        await following.follow(at)
    await asyncio.sleep(1)
    return following


async def check_that_these_get_all(following: Following, quick: Sequence[TopicPartition]) -> None:
    """What is written to all comes at once to these."""
    for round_ in range(5):
        for at in FEW:
            following.leader.logs[at].write(b"more %d" % round_)
        following.leader.wake()
        await asyncio.sleep(0.03)
        assert all(following.has_all(at) for at in quick), round_


@virtual_time
async def test_partitions_that_lag_do_not_starve_one_that_does_not() -> None:
    following = await open_following(response_max_bytes=40_000, partition_max_bytes=10_000)
    for at in MANY:
        its = following.leader.add(at)
        for _ in range(20):
            its.write(b"v" * 9_000)
    fresh = TopicPartition("fresh", 0)
    its = following.leader.add(fresh)
    for at in (*MANY, fresh):
        await following.follow(at)
    await turns(200)
    assert not all(following.has_all(at) for at in MANY)
    waited = []
    for _ in range(5):
        its.write(b"now")
        before = len(following.leader.fetches())
        while not following.has_all(fresh):
            await turns(1)
        waited.append(len(following.leader.fetches()) - before)
    # 200 lagging partitions, four to an answer: each is heard once in about fifty.
    assert max(waited) <= 60
    assert not all(following.has_all(at) for at in MANY)
    await following.stop()


@virtual_time
async def test_a_slow_directory_does_not_hold_up_the_others() -> None:
    following = await caught_up_with_few(directories=2)
    slow = [at for at in FEW if following.parts[at].directory.path == "/logs0"]
    quick = [at for at in FEW if at not in slow]
    assert slow
    assert quick
    following.world.offload.hold("write")
    following.world.directory.writes_inline = False
    await check_that_these_get_all(following, quick)
    assert not any(following.has_all(at) for at in slow)
    following.world.offload.release("write")
    await asyncio.sleep(0.1)
    assert all(following.has_all(at) for at in FEW)
    await following.stop()


@virtual_time
async def test_a_log_whose_files_are_being_changed_does_not_hold_up_the_others() -> None:
    following = await caught_up_with_few()
    held, *others = FEW
    done = asyncio.Event()

    async def mend() -> None:
        await done.wait()

    mending = asyncio.create_task(following.parts[held].change_files(mend, leader_epoch=LeaderEpoch(0)))
    await check_that_these_get_all(following, others)
    assert not following.has_all(held)
    done.set()
    await mending
    await asyncio.sleep(0.1)
    assert following.has_all(held)
    await following.stop()


@virtual_time
async def test_what_waits_for_a_slow_directory_is_bounded() -> None:
    following = await open_following(response_max_bytes=20_000, partition_max_bytes=10_000)
    for at in MANY[:20]:
        following.leader.add(at)
        await following.follow(at)
    await asyncio.sleep(1)
    following.world.offload.hold("write")
    following.world.directory.writes_inline = False
    for at in MANY[:20]:
        following.leader.logs[at].write(b"v" * 9_000)
    following.leader.wake()
    for _ in range(50):
        await asyncio.sleep(0.01)
        assert sum(fetcher._busy_bytes for fetcher, _ in following.fetchers._fetchers.values()) <= 20_000
    following.world.offload.release("write")
    await asyncio.sleep(2)
    assert all(following.has_all(at) for at in MANY[:20])
    await following.stop()


@virtual_time
async def test_with_a_flush_for_each_append_the_leader_hears_of_records_when_they_are_durable() -> None:
    following = await open_following()
    its = following.leader.add(TP)
    await following.follow(config=LogConfig(flush_messages=1))
    await asyncio.sleep(1)
    following.world.offload.hold("flush")
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(2)
    assert its.follower_end == 0
    following.world.offload.release("flush")
    await asyncio.sleep(0.1)
    assert its.follower_end == 1
    await following.stop()


@virtual_time
async def test_a_directory_that_fails_takes_only_its_partitions_out() -> None:
    following = await open_following(directories=2)
    for at in FEW:
        following.leader.add(at).write(b"v")
        await following.follow(at)
    await asyncio.sleep(1)
    failed = following.world.directory
    lost = [at for at in FEW if following.parts[at].directory is failed]
    failed.fail(OSError(5, "gone"))
    for at in FEW:
        following.leader.logs[at].write(b"more")
    following.leader.wake()
    await asyncio.sleep(1)
    assert lost
    assert [at for at in FEW if not following.has_all(at)] == lost
    assert following.fetchers.figures().stopped_partitions == len(lost)
    await following.stop()


@virtual_time
async def test_partitions_are_spread_over_the_fetchers_of_a_leader() -> None:
    following = await open_following(fetchers_per_leader=3)
    for at in MANY[:30]:
        following.leader.add(at).write(b"v")
        await following.follow(at)
    await asyncio.sleep(1)
    assert sorted(connection.name for connection in following.leader.connections) == [
        f"broker-1-fetcher-{index}" for index in range(3)
    ]
    assert len(following.fetchers) == 3
    await following.stop()


@virtual_time
async def test_a_large_answer_lets_others_have_their_turn() -> None:
    following = await open_following(partition_max_bytes=600_000)
    for at in FEW:
        following.leader.add(at).write(b"v" * 500_000)
        await following.follow(at)
    seen = set()
    while not all(following.has_all(at) for at in FEW):
        await asyncio.sleep(0)
        seen.add(sum(following.has_all(at) for at in FEW))
    # A MiB has a turn: after two or three of them, and at the end.
    assert len(seen - {0, 4}) >= 1
    await following.stop()
