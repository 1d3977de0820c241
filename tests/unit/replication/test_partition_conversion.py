"""Appending what has to be converted: the loop turns meanwhile, and the order of the appends stays."""

import asyncio

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch
from barnabas.protocol.records import Record
from barnabas.storage.append import AppendRejected
from barnabas.storage.log_config import LogConfig
from replication.partition import Partition, PartitionRefused
from tests.support.clock import ManualClock
from tests.support.virtual_time import virtual_time
from tests.unit.protocol.old_formats import build, read
from tests.unit.replication.replica_world import ME, OTHER, ReplicaWorld, append_later
from tests.unit.storage.logs import NOW, batch, read_bytes

EPOCH = LeaderEpoch(4)


class ClockThatTicks(ManualClock):
    """Each look at it takes a millisecond."""

    def monotonic_us(self) -> int:
        self.advance(1)
        return super().monotonic_us()


async def leading(config: LogConfig):
    world = ReplicaWorld()
    world.clock = world.ports.clock = ClockThatTicks()
    await world.open()
    partition = await world.lead()
    partition.log.config = config
    return world, partition


async def following() -> Partition:
    world = await ReplicaWorld().open()
    assert await world.assign(EPOCH, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    return world.partition()


def large(count: int = 6_000, magic: int = 1) -> memoryview:
    return memoryview(bytearray(build([Record(i, NOW, None, b"v") for i in range(count)], magic=magic)))


@virtual_time
async def test_a_long_conversion_lets_others_have_their_turns_and_keeps_the_order() -> None:
    _, partition = await leading(LogConfig(message_format=0))
    assert partition.try_append(large(), acks=1) is None
    first = append_later(partition, large())
    second = append_later(partition, batch(b"second"))
    await asyncio.sleep(0)
    turned = 0
    while not first.done():
        # What could be appended at once has to wait for its turn too.
        assert partition.try_append(batch(b"not yet"), acks=1) is None
        await asyncio.sleep(0)
        turned += 1
    assert turned > 10
    assert ((await first).info.first_offset, (await second).info.first_offset) == (0, 6_000)
    assert partition.log.high_watermark == 6_001
    assert (await first).info.rebuilt_records == 6_000


@virtual_time
async def test_a_short_conversion_needs_no_turn() -> None:
    _, partition = await leading(LogConfig(message_format=1, compression=Codec.GZIP))
    info = partition.try_append(batch(b"a", b"b"), acks=1)
    assert info is not None
    assert (info.first_offset, info.last_offset, info.rebuilt_records) == (0, 1, 2)
    assert [record.value for record in read(read_bytes(partition.log, 0))] == [b"a", b"b"]


@virtual_time
async def test_what_is_refused_after_many_turns_leaves_the_partition_as_it_was() -> None:
    _, partition = await leading(LogConfig(message_format=0))
    broken = large()
    broken[-1] ^= 1
    with pytest.raises(AppendRejected) as raised:
        await partition.append(broken, acks=1)
    assert raised.value.error is ErrorCode.CORRUPT_MESSAGE
    assert (await append_later(partition, batch(b"next"))).info.first_offset == 0


@virtual_time
async def test_another_leader_waits_for_the_conversion_under_way() -> None:
    world, partition = await leading(LogConfig(message_format=0))
    appending = append_later(partition, large())
    await asyncio.sleep(0)
    assert await world.assign(7, leader=OTHER, replicas=(OTHER, ME)) is ErrorCode.NONE
    assert (await appending).info.last_offset == 5_999
    with pytest.raises(PartitionRefused):
        await partition.append(large(), acks=1)


@virtual_time
async def test_who_gives_up_during_a_conversion_leaves_nothing() -> None:
    _, partition = await leading(LogConfig(message_format=0))
    appending = append_later(partition, large())
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait((appending,))
    assert partition.log.log_end_offset == 0
    assert (await append_later(partition, large(3))).info.last_offset == 2


@virtual_time
async def test_a_follower_takes_thousands_of_old_messages_in_turns() -> None:
    partition = await following()
    sent = build([Record(at, NOW, None, b"v") for at in range(1800)], magic=1)
    appending = asyncio.ensure_future(partition.append_as_follower(memoryview(sent[:-1]), leader_epoch=EPOCH))
    ends = set()
    while not appending.done():
        await asyncio.sleep(0)
        ends.add(partition.log.log_end_offset)
    assert await appending == 1799
    assert {500, 1000, 1500} < ends
    assert read_bytes(partition.log, 0) == sent[: len(sent) // 1800 * 1799]


@virtual_time
async def test_a_follower_that_is_none_any_more_takes_no_more_of_them() -> None:
    partition = await following()
    sent = build([Record(at, NOW, None, b"v") for at in range(1800)], magic=0)
    appending = asyncio.ensure_future(partition.append_as_follower(memoryview(sent), leader_epoch=EPOCH))
    await asyncio.sleep(0)
    partition.go_offline()
    with pytest.raises(PartitionRefused):
        await appending
    assert partition.log.log_end_offset == 500
