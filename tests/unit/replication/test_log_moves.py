"""Replicas that move to another log directory while they are written to, cut, stopped or restarted."""

import asyncio

import pytest

from barnabas.protocol.entries import iterate_entries
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition, PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import (
    FLUSH_EACH,
    ME,
    OTHER,
    TP,
    ReplicaWorld,
    acknowledged,
    append_later,
    append_now,
)
from tests.unit.storage.logs import batch, read_bytes

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=1)
HERE, THERE = "/logs0", "/logs1"


async def world_with(records: int, *, config: LogConfig | None = SMALL) -> tuple[ReplicaWorld, Partition]:
    """A leader's replica in the first of two directories."""
    world = await ReplicaWorld(directories=2).open()
    partition = await world.lead(config=config)
    for number in range(records):
        append_now(partition, b"value %d" % number)
    assert partition.directory.path == HERE
    return world, partition


def order(world: ReplicaWorld, path: str = THERE, *, at: TopicPartition = TP) -> ErrorCode:
    return world.replicas.move(at, path, is_known=True)


def content(log_: Log) -> bytes:
    data, offset = b"", log_.log_start_offset
    while offset < log_.log_end_offset:
        piece = read_bytes(log_, offset)
        data += piece
        offset = max(header.next_offset for _, header in iterate_entries(piece))
    return data


async def until_moved(world: ReplicaWorld) -> None:
    for _ in range(2_000):
        if not len(world.moves):
            return
        await asyncio.sleep(0)
    raise AssertionError("the move does not end")


def lies_in(world: ReplicaWorld, path: str) -> bool:
    return [
        (directory.path == path) == (TP in directory.logs) and TP not in directory.futures
        for directory in world.log_directories.directories
    ] == [True, True]


@virtual_time
async def test_a_replica_lies_elsewhere_with_all_its_records() -> None:
    world, partition = await world_with(200)
    before = content(partition.log)
    assert order(world) is ErrorCode.NONE
    assert len(world.moves) == 1
    await until_moved(world)
    assert lies_in(world, THERE)
    assert partition.directory.path == THERE
    assert content(partition.log) == before
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (200, 200)
    assert append_now(partition).first_offset == 200
    assert world.failed == []


@virtual_time
async def test_what_is_written_meanwhile_comes_along() -> None:
    world, partition = await world_with(100)
    order(world)
    written = 100
    while len(world.moves):
        info = partition.try_append(batch(b"meanwhile"), acks=1)
        written += info is not None
        await asyncio.sleep(0)
    assert written > 100
    assert lies_in(world, THERE)
    assert partition.log.log_end_offset == written


@virtual_time
async def test_who_waits_to_append_or_to_be_acknowledged_is_served_by_the_new_log() -> None:
    world, partition = await world_with(3, config=FLUSH_EACH)
    world.offload.hold("flush")
    await turns()
    waiting = acknowledged(partition, append_now(partition))
    order(world)
    await turns(50)
    appending = append_later(partition, batch(b"later"))
    await turns(50)
    world.offload.release("flush")
    await until_moved(world)
    await waiting
    later = await appending
    assert later.first_offset == 4
    if later.wait is not None:
        await later.wait
    assert lies_in(world, THERE)
    assert partition.log.recovery_point == 5


@virtual_time
async def test_a_followers_log_that_is_cut_meanwhile_is_cut_there_too() -> None:
    world = await ReplicaWorld(directories=2).open()
    await world.assign(5, leader=OTHER, replicas=(OTHER, ME), config=SMALL)
    partition = world.partition()
    for offset in range(60):
        epoch = offset // 20
        record = batch(b"value %d" % offset, base_offset=offset, leader_epoch=epoch)
        await partition.append_as_follower(record, leader_epoch=partition.leader_epoch)
    world.offload.hold("move")
    order(world)
    await turns(20)
    world.offload.step("move")
    await turns(20)
    await partition.truncate_to(30, leader_epoch=partition.leader_epoch)
    for offset in range(30, 50):
        record = batch(b"other %d" % offset, base_offset=offset, leader_epoch=4)
        await partition.append_as_follower(record, leader_epoch=partition.leader_epoch)
    expected = content(partition.log)
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert content(partition.log) == expected
    assert [tuple(entry) for entry in partition.log.leader_epochs.entries] == [(0, 0), (1, 20), (4, 30)]


@virtual_time
async def test_a_log_that_begins_again_meanwhile_does_there_too() -> None:
    world = await ReplicaWorld(directories=2).open()
    await world.assign(5, leader=OTHER, replicas=(OTHER, ME), config=SMALL)
    partition = world.partition()
    for offset in range(10):
        record = batch(b"value", base_offset=offset, leader_epoch=0)
        await partition.append_as_follower(record, leader_epoch=partition.leader_epoch)
    world.offload.hold("move")
    order(world)
    await turns(20)
    await partition.restart_at(100, leader_epoch=partition.leader_epoch)
    await partition.append_as_follower(
        batch(b"new", base_offset=100, leader_epoch=4), leader_epoch=partition.leader_epoch
    )
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (100, 101)


async def following(offsets: range, value: bytes = b"value") -> tuple[ReplicaWorld, Partition]:
    world = await ReplicaWorld(directories=2).open()
    await world.assign(5, leader=OTHER, replicas=(OTHER, ME), config=SMALL)
    partition = world.partition()
    await partition.restart_at(offsets.start, leader_epoch=partition.leader_epoch)
    await take(partition, offsets, value, epoch=0)
    world.offload.hold("move")
    order(world)
    await turns(20)
    return world, partition


async def take(partition: Partition, offsets: range, value: bytes, *, epoch: int) -> None:
    for offset in offsets:
        record = batch(value, base_offset=offset, leader_epoch=epoch)
        await partition.append_as_follower(record, leader_epoch=partition.leader_epoch)


@virtual_time
async def test_a_piece_that_is_cut_while_it_is_read_is_not_taken() -> None:
    world, partition = await following(range(60))
    await partition.truncate_to(30, leader_epoch=partition.leader_epoch)
    await take(partition, range(30, 50), b"of another length", epoch=4)
    expected = content(partition.log)
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert content(partition.log) == expected


@virtual_time
async def test_a_log_that_begins_again_lower_has_its_beginning_there_too() -> None:
    world, partition = await following(range(50, 60), b"v" * 60_000)
    world.offload.step("move")
    await turns(20)
    found = world.log_directories.futures.find(TP)
    assert found is not None
    assert 50 < found[1].log_end_offset < 60
    await partition.restart_at(20, leader_epoch=partition.leader_epoch)
    await take(partition, range(20, 70), b"new", epoch=4)
    expected = content(partition.log)
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert content(partition.log) == expected
    assert partition.log.log_start_offset == 20


@virtual_time
async def test_what_retention_took_meanwhile_is_not_missed() -> None:
    world, partition = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns(20)
    partition.log.advance_log_start_offset(90)
    partition.log.delete_old_segments(world.clock.wall_ms())
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (90, 100)
    assert 0 < partition.log.segments.first.base_offset <= 90


@virtual_time
async def test_a_log_that_starts_within_a_batch_moves() -> None:
    world, partition = await world_with(0)
    append_now(partition, b"a", b"b", b"c")
    append_now(partition, b"d")
    partition.log.advance_log_start_offset(2)
    order(world)
    await until_moved(world)
    assert lies_in(world, THERE)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (2, 4)


@virtual_time
async def test_an_empty_log_moves() -> None:
    world, partition = await world_with(0)
    order(world)
    await until_moved(world)
    assert lies_in(world, THERE)
    assert append_now(partition).first_offset == 0


# Orders.


@virtual_time
async def test_an_order_to_where_it_is_changes_nothing_and_ends_a_move() -> None:
    world, _ = await world_with(100)
    assert order(world, HERE) is ErrorCode.NONE
    assert not len(world.moves)
    world.offload.hold("move")
    order(world)
    await turns()
    assert order(world, HERE) is ErrorCode.NONE
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, HERE)


@virtual_time
async def test_the_same_order_twice_is_one_move() -> None:
    world, _ = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns()
    gathering = world.log_directories.futures.find(TP)
    assert order(world) is ErrorCode.NONE
    assert world.log_directories.futures.find(TP) == gathering
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)


@virtual_time
async def test_a_later_order_to_elsewhere_takes_the_place_of_the_first() -> None:
    world = await ReplicaWorld(directories=3).open()
    partition = await world.lead(config=SMALL)
    append_now(partition)
    world.offload.hold("move")
    order(world)
    await turns()
    assert order(world, "/logs2") is ErrorCode.NONE
    world.offload.release("move")
    await until_moved(world)
    assert partition.directory.path == "/logs2"
    assert world.log_directories.futures.find(TP) is None


@pytest.mark.parametrize(
    ("path", "at", "error"),
    [
        ("/nowhere", TP, ErrorCode.LOG_DIR_NOT_FOUND),
        (THERE, TopicPartition("u", 0), ErrorCode.REPLICA_NOT_AVAILABLE),
        (THERE, TopicPartition("u" * 220, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_cannot_be_ordered_is_refused(path: str, at: TopicPartition, error: ErrorCode) -> None:
    @virtual_time
    async def run() -> None:
        world, _ = await world_with(1)
        assert order(world, path, at=at) is error
        assert (
            world.replicas.move(TopicPartition("u", 0), THERE, is_known=False) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    run()


@virtual_time
async def test_a_replica_that_comes_later_is_made_where_it_was_ordered() -> None:
    world, _ = await world_with(0)
    at = TopicPartition("t", 1)
    await world.lead(at=TopicPartition("u", 0))
    await world.lead(at=TopicPartition("u", 1))
    order(world, HERE, at=at)
    await world.lead(at=at)
    assert world.partition(at).directory.path == HERE


@virtual_time
async def test_while_a_directory_is_offline_nothing_moves() -> None:
    world = await ReplicaWorld(directories=3).open()
    await world.lead()
    world.log_directories.directories[2].fail(OSError(5, "gone"))
    assert order(world, "/logs2") is ErrorCode.KAFKA_STORAGE_ERROR
    assert order(world) is ErrorCode.KAFKA_STORAGE_ERROR
    world.directory.fail(OSError(5, "gone"))
    assert order(world) is ErrorCode.KAFKA_STORAGE_ERROR


# Ends.


@virtual_time
async def test_a_destination_that_fails_leaves_the_replica_where_it_is() -> None:
    world, partition = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns()
    world.log_directories.directories[1].fail(OSError(5, "gone"))
    world.offload.release("move")
    await until_moved(world)
    assert not partition.is_offline
    assert append_now(partition).first_offset == 100


@virtual_time
async def test_a_source_that_cannot_be_read_fails_its_directory_and_nothing_else() -> None:
    world, partition = await world_with(200)
    world.disk.fail("pread", f"{HERE}/t-0/")
    order(world)
    await until_moved(world)
    assert partition.is_offline
    assert [directory.is_offline for directory in world.log_directories.directories] == [True, False]
    assert world.failed == []


@virtual_time
async def test_a_replica_that_is_deleted_ends_its_move_and_leaves_nothing() -> None:
    world, partition = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns()
    assert await world.stop(-2) is ErrorCode.NONE
    world.offload.release("move")
    await turns(50)
    assert world.log_directories.futures.find(TP) is None
    assert world.log_directories.log(TP) is None
    with pytest.raises(PartitionRefused):
        partition.try_append(batch(b"v"), acks=1)
    assert world.failed == []


@virtual_time
async def test_a_move_that_was_interrupted_goes_on_when_the_replica_has_a_role_again() -> None:
    world, _ = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns()
    await world.stop(1, delete=False)
    world.offload.release("move")
    await turns()
    assert not len(world.moves)
    await world.assign(2, is_new=False, config=SMALL)
    await until_moved(world)
    assert lies_in(world, THERE)
    assert world.partition().log.log_end_offset == 100


@virtual_time
async def test_no_more_replicas_are_copied_at_a_time_than_told() -> None:
    world, _ = await world_with(1)
    several = [TopicPartition("m", number) for number in range(6)]
    for at in several:
        partition = await world.lead(at=at, config=SMALL)
        append_now(partition)
    world.offload.hold("move")
    for at in several:
        order(world, THERE if world.partition(at).directory.path == HERE else HERE, at=at)
    await turns(50)
    assert world.offload.waiting("move") == 2
    world.offload.release("move")
    await until_moved(world)
    assert world.failed == []


@virtual_time
async def test_a_move_that_stands_still_is_set_aside_and_begins_again() -> None:
    world, partition = await world_with(100)
    destination = world.log_directories.directories[1]
    world.log_directories.futures.create(TP, destination, partition.log.config)
    assert world.moves.set_aside(partition) is destination
    assert world.log_directories.futures.find(TP) is None
    assert world.moves.set_aside(partition) is None
    world.moves.begin_again(partition, destination)
    await until_moved(world)
    assert lies_in(world, THERE)


@virtual_time
async def test_a_move_that_goes_on_is_not_set_aside() -> None:
    world, partition = await world_with(100)
    order(world)
    assert world.moves.set_aside(partition) is None
    await until_moved(world)
    assert lies_in(world, THERE)
