"""What happens to a log just while it moves: cuts, deletions, other orders and failures at its last step."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld, append_now
from tests.unit.replication.test_log_moves import (
    HERE,
    SMALL,
    THERE,
    content,
    following,
    lies_in,
    order,
    take,
    until_moved,
    world_with,
)
from tests.unit.replication.test_replicas import Roles

ELSEWHERE = "/logs2"


@virtual_time
async def test_a_cut_into_a_closed_segment_that_is_being_read_harms_no_directory() -> None:
    world = await ReplicaWorld(directories=2).open()
    await world.assign(5, leader=OTHER, replicas=(OTHER, ME), config=SMALL)
    partition = world.partition()
    await take(partition, range(60), b"value", epoch=0)
    await world.directory.flush(partition.log, 60)
    assert partition.log.segments.first.growing is None
    world.offload.hold("move")
    order(world)
    await turns(20)
    assert world.offload.waiting("move") == 1
    await partition.truncate_to(10, leader_epoch=partition.leader_epoch)
    assert partition.log.segments.first.growing is not None
    await take(partition, range(10, 30), b"other", epoch=4)
    expected = content(partition.log)
    world.offload.release("move")
    await until_moved(world)
    assert world.log_directories.offline_directories() == []
    assert lies_in(world, THERE)
    assert content(partition.log) == expected


@pytest.mark.parametrize("is_retention", [False, True])
def test_a_log_that_has_lost_all_its_records_moves(is_retention: bool) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await world_with(100)
        if is_retention:
            world.clock.advance(10**12)
        else:
            partition.deletion.delete(-1)
        partition.log.delete_old_segments(world.clock.wall_ms())
        assert partition.log.log_start_offset == partition.log.log_end_offset == 100
        assert order(world) is ErrorCode.NONE
        await until_moved(world)
        assert lies_in(world, THERE)
        assert append_now(partition).first_offset == 100

    run()


@virtual_time
async def test_a_log_that_loses_all_its_records_while_it_moves_moves() -> None:
    world, partition = await world_with(100)
    world.offload.hold("move")
    order(world)
    await turns(20)
    partition.deletion.delete(-1)
    partition.log.delete_old_segments(world.clock.wall_ms())
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (100, 100)


async def at_the_last_step(records: int = 20) -> tuple[ReplicaWorld, Partition]:
    """The log lies where it was to go, and the replica does not go on with it yet."""
    world = await ReplicaWorld(directories=3).open()
    partition = await world.lead(config=SMALL)
    for _ in range(records):
        append_now(partition)
    world.offload.hold("flush")
    order(world)
    destination = world.log_directories.directories[1]
    for _ in range(300):
        if TP in destination.logs:
            break
        if world.offload.waiting("flush"):
            world.offload.step("flush")
        await turns(5)
    assert (TP in destination.logs, partition.directory.path) == (True, HERE)
    return world, partition


def places(world: ReplicaWorld) -> list[tuple[list[TopicPartition], list[TopicPartition]]]:
    return [(list(each.logs), list(each.futures)) for each in world.log_directories.directories]


@pytest.mark.parametrize("path", [THERE, ELSEWHERE])
def test_an_order_at_the_last_step_of_a_move_is_carried_out(path: str) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await at_the_last_step()
        assert order(world, path) is ErrorCode.NONE
        world.offload.release("flush")
        await until_moved(world)
        expected = [([], []), ([TP], []), ([], [])] if path == THERE else [([], []), ([], []), ([TP], [])]
        assert places(world) == expected
        assert partition.directory.path == path
        assert append_now(partition).first_offset == 20

    run()


@virtual_time
async def test_a_destination_that_fails_at_the_last_step_is_told_to_all() -> None:
    world, partition = await world_with(20)
    seen = Roles()
    world.replicas.role_watchers.append(seen)
    # After that of its leader epochs.
    world.disk.fail("rename", f"{THERE}/t-0.", skip=1)
    order(world)
    await until_moved(world)
    assert [each.is_offline for each in world.log_directories.directories] == [False, True]
    assert partition.is_offline
    assert seen.led == {TP: False}
    assert world.failed == []


@virtual_time
async def test_what_is_written_anew_below_the_cleaners_offset_is_cleaned_also_where_it_went() -> None:
    world, partition = await following(range(60))
    here, there = world.log_directories.directories
    here.first_dirty[TP] = there.first_dirty[TP] = 50
    await partition.truncate_to(10, leader_epoch=partition.leader_epoch)
    assert (here.first_dirty[TP], there.first_dirty[TP]) == (10, 50)
    await take(partition, range(10, 80), b"other", epoch=4)
    world.offload.release("move")
    await until_moved(world)
    assert lies_in(world, THERE)
    assert there.first_dirty[TP] == 10


@virtual_time
async def test_a_snapshot_that_cannot_be_removed_as_a_log_takes_its_place_fails_its_directory() -> None:
    world, partition = await at_the_last_step(100)
    moved = world.log_directories.directories[1].logs[TP]
    assert moved.snapshots.offsets[0] < 90
    world.disk.fail("remove", f"{THERE}/t-0/")
    partition.deletion.delete(90)
    world.offload.release("flush")
    await until_moved(world)
    assert [each.is_offline for each in world.log_directories.directories] == [False, True, False]
    assert partition.is_offline
    assert world.failed == []
