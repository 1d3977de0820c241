"""Deleted records stay deleted: a start counts, here and for the leader, when it outlives a power cut."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.file_names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from replication.partition import PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.following import caught_up
from tests.unit.replication.replica_world import TP, append_now, leading, refusal


@virtual_time
async def test_a_leader_answers_when_its_start_is_durable() -> None:
    world, partition = await leading()
    append_now(partition, b"a", b"b", b"c")
    world.offload.hold("flush")
    first = partition.deletion.delete(1)
    await turns()
    second, third = partition.deletion.delete(2), partition.deletion.delete(2)
    assert first is not None
    assert second is not None
    assert third is not None
    await turns()
    assert world.offload.waiting("flush") == 1
    assert (first.done(), partition.deletion.low_watermark, partition.log.log_start_offset) == (False, 0, 2)
    world.offload.step("flush")
    await turns()
    assert world.offload.waiting("flush") == 1, "the others share one"
    assert (first.done(), second.done(), third.done(), partition.deletion.low_watermark) == (True, False, False, 1)
    world.offload.release("flush")
    await asyncio.gather(second, third)
    world.disk.power_cut()
    world.disk.restart()
    assert world.directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) == {TP: 2}
    assert partition.deletion.delete(1) is None


@virtual_time
async def test_a_start_that_cannot_be_kept_is_not_acknowledged() -> None:
    world, partition = await leading()
    append_now(partition)
    world.disk.fail("pwrite", LOG_START_OFFSET_CHECKPOINT)
    wait = partition.deletion.delete(1)
    await turns()
    assert refusal(wait) is ErrorCode.KAFKA_STORAGE_ERROR


@virtual_time
async def test_a_follower_tells_its_start_when_it_is_durable_and_fetches_meanwhile() -> None:
    following, its, partition = await caught_up()
    world = following.world
    world.offload.hold("flush")
    its.delete_before(2)
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(2)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 4)
    assert its.follower_start == 0
    world.offload.release("flush")
    await asyncio.sleep(0.1)
    assert its.follower_start == 2
    assert world.directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) == {TP: 2}
    await following.stop()


@virtual_time
async def test_a_start_that_moves_again_while_it_is_written_is_written_again() -> None:
    following, its, partition = await caught_up()
    world = following.world
    world.offload.hold("flush")
    its.delete_before(1)
    its.write(b"d")
    following.leader.wake()
    await asyncio.sleep(1)
    its.delete_before(2)
    its.write(b"e")
    following.leader.wake()
    await asyncio.sleep(1)
    assert (partition.log.log_start_offset, world.offload.waiting("flush")) == (2, 1)
    world.offload.release("flush")
    await asyncio.sleep(1)
    assert not world.failed
    assert its.follower_start == 2
    assert world.directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) == {TP: 2}
    await following.stop()


@virtual_time
async def test_a_follower_that_cannot_remove_what_is_below_its_start_fails_its_directory() -> None:
    following, its, partition = await caught_up()
    world = following.world
    partition.log.snapshots.write(partition.log.producers)
    world.disk.fail("remove")
    its.write(b"d")
    its.delete_before(4)
    its.write(b"e")
    following.leader.wake()
    await asyncio.sleep(1)
    assert world.directory.is_offline
    assert partition.is_offline
    assert world.failed == []
    await following.stop()


@virtual_time
async def test_a_leader_that_cannot_remove_what_is_below_its_start_refuses_and_fails_its_directory() -> None:
    world, partition = await leading()
    append_now(partition, b"a", b"b")
    partition.log.snapshots.write(partition.log.producers)
    append_now(partition, b"c")
    world.disk.fail("remove")
    with pytest.raises(PartitionRefused) as raised:
        partition.deletion.delete(3)
    assert raised.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.directory.is_offline
    assert partition.is_offline


@virtual_time
async def test_a_checkpoint_that_cannot_remove_old_snapshots_fails_its_directory_and_nothing_else() -> None:
    world, partition = await leading()
    for _ in range(5):
        append_now(partition)
        partition.log.snapshots.write(partition.log.producers)
        partition.log.roll("a test")
    await world.directory.flush(partition.log, partition.log.log_end_offset)
    world.disk.fail("remove")
    await world.directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
    assert world.directory.is_offline
    assert partition.is_offline
