"""Appending: who may, in which order, at what pace, and what is left when the one who asked has gone."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.storage.append import AppendRejected
from barnabas.storage.log_config import LogConfig
from replication.partition import PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, ReplicaWorld, append_later, append_now, leading
from tests.unit.storage.logs import batch, read_bytes


def refused(raised: "pytest.ExceptionInfo[PartitionRefused]") -> ErrorCode:
    return raised.value.error


@virtual_time
async def test_a_leader_alone_has_committed_what_it_appended() -> None:
    _, partition = await leading()
    info = append_now(partition, b"a", b"b")
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert partition.log.high_watermark == 2
    for acks in (-1, 0, 1):
        assert partition.when_acknowledged(info, acks=acks) is None


@virtual_time
async def test_batches_are_stamped_with_their_offset_and_the_leaders_epoch() -> None:
    world, partition = await leading()
    append_now(partition, b"a")
    assert await world.assign(7) is ErrorCode.NONE
    append_now(partition, b"b")
    expected = bytes(batch(b"a", leader_epoch=0)) + bytes(batch(b"b", base_offset=1, leader_epoch=7))
    assert read_bytes(partition.log, 0) == expected


@virtual_time
async def test_only_a_leader_takes_records() -> None:
    world, partition = await leading()
    assert await world.assign(1, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    with pytest.raises(PartitionRefused) as inline:
        partition.try_append(batch(b"a"), acks=1)
    with pytest.raises(PartitionRefused) as threaded:
        await partition.append(batch(b"a"), acks=1)
    assert refused(inline) is refused(threaded) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 0


@virtual_time
async def test_acks_of_all_need_enough_replicas_in_sync_and_fewer_acks_do_not() -> None:
    world = await ReplicaWorld().open()
    partition = await world.lead(min_in_sync_replicas=2)
    with pytest.raises(PartitionRefused, match=r"min\.isr requirement of 2") as raised:
        partition.try_append(batch(b"a"), acks=-1)
    assert refused(raised) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    assert append_now(partition, acks=1).last_offset == 0
    assert append_now(partition, acks=0).last_offset == 1


@virtual_time
async def test_a_batch_that_is_rejected_leaves_the_partition_as_it_was() -> None:
    _, partition = await leading()
    broken = batch(b"a")
    broken[-1] ^= 1
    with pytest.raises(AppendRejected) as raised:
        partition.try_append(broken, acks=1)
    assert raised.value.error is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(AppendRejected):
        await partition.append(broken, acks=1)
    assert append_now(partition).first_offset == 0


@virtual_time
async def test_a_duplicate_is_answered_with_the_place_of_its_original_without_touching_the_disk() -> None:
    world, partition = await leading()
    original = partition.try_append(batch(b"a", b"b", producer=(5, 0, 0)), acks=-1)
    append_now(partition)
    changes, calls = world.disk.operations, len(world.offload.calls)
    again = partition.try_append(batch(b"a", b"b", producer=(5, 0, 0)), acks=-1)
    late = await partition.append(batch(b"a", b"b", producer=(5, 0, 0)), acks=-1)
    assert original is not None
    assert again is not None
    for duplicate in (again, late):
        assert (duplicate.first_offset, duplicate.last_offset, duplicate.duplicate) == (0, 1, True)
    assert (world.disk.operations, len(world.offload.calls)) == (changes, calls)
    assert partition.log.log_end_offset == 3
    assert append_now(partition).first_offset == 3


# Slow directories.


@virtual_time
async def test_after_a_slow_write_appends_go_through_the_thread_and_the_loop_goes_on() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    assert partition.try_append(batch(b"a"), acks=1) is None
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    assert not appending.done()
    assert partition.log.log_end_offset == 1
    world.offload.release("write")
    assert (await appending).first_offset == 1


@virtual_time
async def test_appends_through_the_thread_are_published_one_by_one_in_the_order_of_the_calls() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = [append_later(partition, batch(b"%d" % number)) for number in range(5)]
    await turns()
    for done in range(5):
        assert world.offload.waiting("write") == 1, "more than one is between its preparation and its publication"
        assert partition.log.log_end_offset == 1 + done
        world.offload.step("write")
        await turns()
    assert [(await each).first_offset for each in appending] == [1, 2, 3, 4, 5]
    expected = b"".join(bytes(batch(b"%d" % number, base_offset=1 + number, leader_epoch=0)) for number in range(5))
    assert read_bytes(partition.log, 1) == expected


@virtual_time
async def test_while_one_append_is_in_the_thread_another_does_not_overtake_it_inline() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    # However quick the disk has become, this one's place is not known yet.
    world.directory.pace.slowest_us = 0
    assert partition.try_append(batch(b"b"), acks=1) is None
    world.offload.release("write")
    await appending
    assert append_now(partition).first_offset == 2


@virtual_time
async def test_what_was_written_in_the_thread_is_published_before_anything_else_is_appended() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    world.directory.pace.slowest_us = 0
    world.offload.release("write")
    # In each turn of the loop from the end of the write to its publication, and after that.
    offsets = []
    for _ in range(10):
        if (info := partition.try_append(batch(b"b"), acks=1)) is not None:
            offsets.append(info.first_offset)
        await turns(1)
    assert (await appending).first_offset == 1
    assert offsets == list(range(2, 2 + len(offsets)))
    assert offsets


@virtual_time
async def test_other_partitions_of_a_slow_directory_keep_its_order_and_those_of_another_do_not_wait() -> None:
    world = await ReplicaWorld(directories=2).open()
    slow, quick = await world.lead(), await world.lead(at=TopicPartition("t", 1))
    assert slow.directory is not quick.directory
    world.make_slow(slow)
    world.offload.hold("write")
    appending = append_later(slow, batch(b"a"))
    await turns()
    assert append_now(quick).first_offset == 0
    world.offload.release("write")
    await appending


@virtual_time
async def test_a_slow_directory_that_is_quick_again_writes_inline_again() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    for _ in range(20):
        await partition.append(batch(b"a"), acks=1)
    assert world.directory.writes_inline
    append_now(partition)


@virtual_time
async def test_a_crowd_that_always_waits_does_not_keep_a_quick_directory_out_of_the_loop() -> None:
    world, partition = await leading()
    second = await world.lead(at=TopicPartition("t", 1))
    world.make_slow(partition)
    crowd = [append_later(each, batch(b"a")) for _ in range(100) for each in (partition, second)]
    await asyncio.gather(*crowd)
    assert 5 < len(world.offload.calls) < 40
    assert (partition.log.log_end_offset, second.log.log_end_offset) == (101, 100)


# Those who asked may leave, and directories may fail.


@virtual_time
async def test_an_append_whose_client_left_while_it_was_written_is_finished() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    appending.cancel()
    await turns()
    assert partition.try_append(batch(b"b"), acks=1) is None, "its bytes may be written at any time"
    world.offload.release("write")
    with pytest.raises(asyncio.CancelledError):
        await appending
    assert partition.log.log_end_offset == 2
    assert (await partition.append(batch(b"b"), acks=1)).first_offset == 2
    assert read_bytes(partition.log, 2) == bytes(batch(b"b", base_offset=2, leader_epoch=0))


@virtual_time
async def test_a_client_that_left_costs_nothing_more_when_its_write_fails() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.disk.fail("pwrite", ".log", times=1)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    for _ in range(2):
        appending.cancel()
        await turns()
    world.offload.release("write")
    with pytest.raises(asyncio.CancelledError):
        await appending
    assert world.directory.is_offline
    assert partition.log.log_end_offset == 1


@virtual_time
async def test_an_append_whose_client_left_while_it_waited_its_turn_is_not_done() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    first, second, third = (append_later(partition, batch(value)) for value in (b"a", b"b", b"c"))
    await turns()
    second.cancel()
    world.offload.release("write")
    assert [(await first).first_offset, (await third).first_offset] == [1, 2]
    assert partition.log.log_end_offset == 3


@virtual_time
async def test_a_failed_write_takes_the_directory_offline_and_publishes_nothing() -> None:
    world, partition = await leading()
    append_now(partition)
    world.disk.fail("pwrite", ".log")
    with pytest.raises(PartitionRefused) as raised:
        partition.try_append(batch(b"a"), acks=1)
    assert refused(raised) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.is_offline
    assert not partition.is_leader
    assert partition.log.log_end_offset == 1
    world.disk.heal()
    with pytest.raises(PartitionRefused) as later:
        partition.try_append(batch(b"a"), acks=1)
    assert refused(later) is ErrorCode.KAFKA_STORAGE_ERROR


@virtual_time
async def test_a_failed_write_in_the_thread_fails_it_and_those_behind_it() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.disk.fail("pwrite", ".log", times=1)
    world.offload.hold("write")
    appending = [append_later(partition, batch(b"a")) for _ in range(2)]
    await turns()
    world.offload.release("write")
    results = await asyncio.gather(*appending, return_exceptions=True)
    assert [result.error for result in results if isinstance(result, PartitionRefused)] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]
    assert partition.log.log_end_offset == 1


@virtual_time
async def test_a_write_that_succeeds_after_its_directory_failed_is_not_acknowledged() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    appending = append_later(partition, batch(b"a"))
    await turns()
    world.directory.fail(OSError(5, "elsewhere"))
    world.offload.release("write")
    with pytest.raises(PartitionRefused) as raised:
        await appending
    assert refused(raised) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.log_end_offset == 1


@virtual_time
async def test_a_segment_that_cannot_be_made_takes_the_directory_offline() -> None:
    world, partition = await leading(config=LogConfig(segment_bytes=200))
    append_now(partition, b"x" * 100)
    world.disk.fail("open", ".log")
    with pytest.raises(PartitionRefused) as raised:
        partition.try_append(batch(b"x" * 100), acks=1)
    assert refused(raised) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.directory.is_offline
    assert world.failed == []
