"""Appending what has to be converted: the loop turns meanwhile, and the order of the appends stays."""

import asyncio

import pytest

from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.records import Record
from barnabas.storage.append import AppendRejected
from barnabas.storage.log_config import LogConfig
from replication.partition import PartitionRefused
from tests.support.clock import ManualClock
from tests.support.virtual_time import virtual_time
from tests.unit.protocol.old_formats import build, read
from tests.unit.replication.replica_world import ME, OTHER, ReplicaWorld, append_later
from tests.unit.storage.logs import NOW, batch, read_bytes


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
