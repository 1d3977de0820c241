"""A follower's log: it takes what its leader sends, and only under the leader epoch that it follows."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, LeaderEpoch, TopicPartition
from barnabas.storage.append import AppendRejected
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition, PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import FLUSH_EACH, ME, OTHER, TP, ReplicaWorld
from tests.unit.storage.logs import batch

BOTH = (ME, OTHER)
EPOCH = LeaderEpoch(4)
Call = Callable[[Partition, LeaderEpoch], Awaitable[object]]


async def following(*, config: LogConfig | None = None) -> tuple[ReplicaWorld, Partition]:
    """A new replica that follows broker 2 in epoch 4."""
    world = await ReplicaWorld().open()
    assert await world.assign(EPOCH, leader=OTHER, replicas=BOTH, config=config) is ErrorCode.NONE
    return world, world.partition()


def sent(*values: bytes, at: int, epoch: int = EPOCH) -> memoryview:
    return batch(*values, base_offset=at, leader_epoch=epoch)


async def append(partition: Partition, epoch: LeaderEpoch = EPOCH) -> int:
    return await partition.append_as_follower(sent(b"a", at=partition.log.log_end_offset), leader_epoch=epoch)


async def progress(partition: Partition, epoch: LeaderEpoch) -> None:
    partition.apply_leader_progress(leader_epoch=epoch, high_watermark=1, log_start_offset=0)


async def truncate(partition: Partition, epoch: LeaderEpoch) -> None:
    await partition.truncate_to(0, leader_epoch=epoch)


async def restart(partition: Partition, epoch: LeaderEpoch) -> None:
    await partition.restart_at(7, leader_epoch=epoch)


class Ear:
    def __init__(self) -> None:
        self.heard = 0

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        assert topic_partition == TP
        self.heard += 1


@virtual_time
async def test_records_are_kept_as_they_were_sent_with_the_epochs_they_carry() -> None:
    _, partition = await following()
    both = bytes(sent(b"a", b"b", at=0, epoch=2)) + bytes(sent(b"c", at=2, epoch=4))
    assert await partition.append_as_follower(memoryview(both), leader_epoch=EPOCH) == 3
    assert [tuple(entry) for entry in partition.log.leader_epochs.entries] == [(2, 0), (4, 2)]
    read = partition.log.read(0, max_bytes=1 << 20, upper_bound_offset=3, min_one_batch=True)
    assert read.slice is not None
    assert read.slice.read() == both
    read.slice.release()


@virtual_time
async def test_a_follower_says_nothing_of_records_before_they_are_durable() -> None:
    world, partition = await following(config=FLUSH_EACH)
    world.offload.hold("flush")
    appending = asyncio.ensure_future(append(partition))
    await turns()
    assert partition.log.log_end_offset == 1
    assert not appending.done()
    world.offload.release("flush")
    assert await appending == partition.log.recovery_point == 1


@virtual_time
async def test_what_does_not_belong_there_is_refused() -> None:
    _, partition = await following()
    await append(partition)
    with pytest.raises(AppendRejected):
        await partition.append_as_follower(sent(b"again", at=0), leader_epoch=EPOCH)
    assert partition.log.log_end_offset == 1


@virtual_time
async def test_a_slow_directory_writes_in_its_thread() -> None:
    world, partition = await following()
    world.disk.slow_ms = 10
    await append(partition)
    assert not world.directory.writes_inline
    world.offload.hold("write")
    appending = asyncio.ensure_future(append(partition))
    await turns()
    assert not appending.done()
    world.offload.release("write")
    assert await appending == 2


@virtual_time
async def test_at_once_it_takes_what_need_not_wait() -> None:
    world, partition = await following()
    two = sent(b"a", b"b", at=0)
    assert partition.try_append_as_follower(two, leader_epoch=EPOCH) == len(two)
    assert partition.log.log_end_offset == 2
    assert world.ports.counts.bytes_in == len(two)
    cut = memoryview(bytes(sent(b"c", at=2)) + bytes(sent(b"d", at=3))[:-1])
    assert partition.try_append_as_follower(cut, leader_epoch=EPOCH) == len(cut), (
        "nobody will bring the rest of a batch"
    )
    assert partition.log.log_end_offset == 3
    with pytest.raises(AppendRejected):
        partition.try_append_as_follower(sent(b"again", at=0), leader_epoch=EPOCH)
    with pytest.raises(PartitionRefused):
        partition.try_append_as_follower(sent(b"d", at=3), leader_epoch=LeaderEpoch(EPOCH - 1))
    world.directory.writes_inline = False
    assert partition.try_append_as_follower(sent(b"d", at=3), leader_epoch=EPOCH) == 0
    assert partition.log.log_end_offset == 3


@virtual_time
@pytest.mark.parametrize("flush_messages", [1, 2])
async def test_at_once_it_takes_nothing_that_is_to_be_flushed(flush_messages: int) -> None:
    _, partition = await following(config=LogConfig(flush_messages=flush_messages))
    assert partition.try_append_as_follower(sent(b"a", b"b", at=0), leader_epoch=EPOCH) == 0
    assert partition.log.log_end_offset == 0


@virtual_time
async def test_at_once_it_takes_nothing_while_the_log_is_changed() -> None:
    _, partition = await following()
    may_go_on = asyncio.Event()

    async def wait() -> None:
        await may_go_on.wait()

    changing = asyncio.ensure_future(partition.change_files(wait, leader_epoch=EPOCH))
    await turns()
    assert partition.try_append_as_follower(sent(b"a", at=0), leader_epoch=EPOCH) == 0
    may_go_on.set()
    await changing
    assert partition.try_append_as_follower(sent(b"a", at=0), leader_epoch=EPOCH)


@virtual_time
async def test_the_high_watermark_follows_the_leaders_as_far_as_the_log_goes_and_does_not_fall() -> None:
    _, partition = await following()
    ear = Ear()
    partition.watch(ear)
    for _ in range(3):
        await append(partition)
    told = [(2, 2, 0), (9, 3, 0), (1, 3, 0), (3, 3, 2), (3, 3, 9)]
    starts = [0, 0, 0, 2, 3]
    for (high_watermark, expected, start), log_start in zip(told, starts, strict=True):
        partition.apply_leader_progress(leader_epoch=EPOCH, high_watermark=high_watermark, log_start_offset=start)
        assert (partition.log.high_watermark, partition.log.log_start_offset) == (expected, log_start)
    assert ear.heard == 4, "of each change, and not of the one that was none"


@virtual_time
async def test_a_cut_is_synced_and_forgets_the_epochs_behind_it() -> None:
    world, partition = await following()
    await partition.append_as_follower(sent(b"a", b"b", at=0, epoch=2), leader_epoch=EPOCH)
    await partition.append_as_follower(sent(b"c", at=2, epoch=4), leader_epoch=EPOCH)
    await partition.truncate_to(2, leader_epoch=EPOCH)
    assert partition.log.log_end_offset == 2
    assert [entry.epoch for entry in partition.log.leader_epochs.entries] == [2]
    flushes = len([lane for lane in world.offload.calls if lane.startswith("flush:")])
    await partition.truncate_to(2, leader_epoch=EPOCH)
    assert len([lane for lane in world.offload.calls if lane.startswith("flush:")]) == flushes, "nothing was cut"


@virtual_time
async def test_a_log_begins_again_where_the_leaders_starts() -> None:
    _, partition = await following()
    await append(partition)
    await partition.restart_at(7, leader_epoch=EPOCH)
    log = partition.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 7, 7)
    assert await append(partition) == 8


@pytest.mark.parametrize("call", [append, progress, truncate, restart])
def test_everything_is_refused_under_another_epoch_and_in_another_role(call: Call) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await following()
        await append(partition)

        async def error(epoch: int) -> ErrorCode:
            with pytest.raises(PartitionRefused) as refused:
                await call(partition, LeaderEpoch(epoch))
            assert partition.log.log_end_offset == 1
            assert partition.log.high_watermark <= 1
            return refused.value.error

        assert await error(EPOCH - 1) is ErrorCode.FENCED_LEADER_EPOCH
        assert await error(EPOCH + 1) is ErrorCode.FENCED_LEADER_EPOCH
        await world.assign(5, leader=NO_LEADER, replicas=BOTH)
        assert await error(5) is ErrorCode.FENCED_LEADER_EPOCH
        await world.assign(6, replicas=BOTH)
        assert await error(6) is ErrorCode.FENCED_LEADER_EPOCH
        await world.assign(7, leader=OTHER, replicas=BOTH)
        world.directory.fail(OSError(5, "gone"))
        assert await error(7) is ErrorCode.KAFKA_STORAGE_ERROR

    run()


@virtual_time
async def test_what_waits_its_turn_behind_a_role_change_is_refused() -> None:
    world, partition = await following()
    world.disk.slow_ms = 10
    await append(partition)
    world.offload.hold("write")
    first = asyncio.ensure_future(append(partition))
    await turns()
    changing = world.supervisor.spawn(world.assign(5, leader=OTHER, replicas=BOTH), name="assign")
    await turns()
    second = asyncio.ensure_future(append(partition))
    cutting = asyncio.ensure_future(truncate(partition, EPOCH))
    await turns()
    world.offload.release("write")
    assert await first == 2
    assert await changing is ErrorCode.NONE
    for late in (second, cutting):
        with pytest.raises(PartitionRefused) as refused:
            await late
        assert refused.value.error is ErrorCode.FENCED_LEADER_EPOCH
    assert partition.log.log_end_offset == 2


@virtual_time
async def test_a_cut_is_synced_before_anything_follows_also_when_nobody_waits_for_it_any_more() -> None:
    world, partition = await following()
    await append(partition)
    await append(partition)
    world.offload.hold("flush")
    cutting = asyncio.ensure_future(partition.truncate_to(1, leader_epoch=EPOCH))
    await turns()
    cutting.cancel()
    appending = asyncio.ensure_future(partition.append_as_follower(sent(b"b", at=1), leader_epoch=EPOCH))
    await turns()
    assert not appending.done()
    world.offload.release("flush")
    assert await appending == 2
    assert cutting.cancelled()
