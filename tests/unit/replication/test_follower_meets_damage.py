"""A follower that has to cut its log and meets damage: it waits until that is known or mended, and goes on."""

import asyncio

import pytest

from barnabas.storage.damage import DamagedRange
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.following import Following, caught_up
from tests.unit.replication.small_leader import LeaderLog
from tests.unit.storage.logs import read_bytes


async def ahead_of_its_leader() -> tuple[Following, LeaderLog, Partition]:
    """It has offsets 0 to 6, 0 to 2 are committed, and the new leader, in epoch 1, has others from offset 5 on."""
    following, its, partition = await caught_up(b"a", b"b", b"c")
    for value in (b"d", b"e", b"f", b"g"):
        its.write(value, committed=False)
    following.leader.wake()
    await turns(30)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (7, 3)
    its.cut(5)
    its.begin_epoch(1)
    its.write(b"x", b"y", b"z")
    return following, its, partition


def ruin(partition: Partition, offset: int, end: int) -> DamagedRange:
    """Let no batch be where those of the offsets from `offset` to below `end` are."""
    segment = partition.log.segments.active
    position, end_position = segment.position_of(offset), segment.position_of(end) or segment.size_bytes
    assert position is not None
    segment.log_file.pwrite(b"\xff" * (end_position - position), position)
    segment._places.clear()
    return DamagedRange(segment.base_offset, position, end_position, offset, end, "ruined")


@virtual_time
async def test_uncommitted_damage_is_cut_away_and_what_the_leader_has_there_is_fetched() -> None:
    following, _, partition = await ahead_of_its_leader()
    partition.log.damage.add(ruin(partition, 3, 5))
    await following.follow(epoch=1)
    await asyncio.sleep(1)
    assert following.has_all()
    assert not partition.log.damage
    await following.stop()


@virtual_time
async def test_damage_that_nobody_knew_is_told_and_cut_away_once_it_is_known() -> None:
    following, _, partition = await ahead_of_its_leader()
    found = ruin(partition, 4, 6)
    await following.follow(epoch=1)
    await asyncio.sleep(5)
    assert partition.log.log_end_offset == 7
    assert partition.directory.suspects == {partition.log: 5}
    assert following.fetchers.figures().stopped_partitions == 0
    partition.log.damage.add(found)
    await asyncio.sleep(2)
    assert following.has_all()
    assert not partition.log.damage
    await following.stop()


@virtual_time
async def test_a_cut_that_meets_committed_damage_waits_until_it_is_mended() -> None:
    following, its, partition = await ahead_of_its_leader()
    good = its.read(0, 1 << 30)
    found = ruin(partition, 1, 3)
    partition.log.damage.add(found)
    await following.follow(epoch=1)
    await asyncio.sleep(5)
    assert (partition.log.log_end_offset, list(partition.log.damage)) == (7, [found])
    partition.log.segments.active.log_file.pwrite(good[found.position : found.end_position], found.position)
    partition.log.damage.remove(found)
    await asyncio.sleep(2)
    assert following.has_all()
    await following.stop()


@pytest.mark.parametrize("kept", [3, 4])
@virtual_time
async def test_a_log_that_ends_in_damage_and_within_a_batch_of_the_leader_goes_on_with_that_batch(kept: int) -> None:
    following, its, partition = await caught_up(b"a", b"b", b"c")
    its.write(b"d")
    its.write(b"e", b"f", b"g")
    following.leader.wake()
    await turns(30)
    log = partition.log
    assert log.log_end_offset == 7
    found = ruin(partition, kept, 7)
    # As a start leaves it that knows of offset 5 only that it was synced.
    log.damage.add(DamagedRange(0, found.position, found.end_position, kept, 6, "ruined"))
    log.log_end_offset = log.producers.end_offset = log.high_watermark = 6
    its.begin_epoch(1)
    await following.follow(epoch=1)
    await asyncio.sleep(2)
    assert (log.log_end_offset, log.high_watermark) == (7, 7)
    assert [(each.start_offset, each.end_offset) for each in log.damage] == ([(3, 4)] if kept == 3 else [])
    assert read_bytes(log, 4) == its.read(4, 1 << 30)
    await following.stop()
