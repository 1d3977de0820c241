"""`flush.messages=1`: nothing is committed or acknowledged before an fsync has returned, and one serves many."""

import asyncio
import errno

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.log_config import LogConfig
from replication.settings import TopicSettings
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
    leading,
    refusal,
)
from tests.unit.storage.logs import batch, read_bytes


def flushes(world: ReplicaWorld) -> int:
    return sum(lane.startswith("flush:") for lane in world.offload.calls)


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledgement_waits_for_the_fsync(acks: int) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await leading(config=FLUSH_EACH)
        world.offload.hold("flush")
        wait = acknowledged(partition, append_now(partition, acks=acks), acks=acks)
        await turns()
        assert not wait.done()
        assert partition.log.high_watermark == 0
        world.offload.release("flush")
        await turns()
        assert wait.result() is None
        assert partition.log.high_watermark == partition.log.recovery_point == 1

    run()


@virtual_time
async def test_what_was_acknowledged_survives_a_power_cut() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    infos = [append_now(partition, b"%d" % number) for number in range(3)]
    await acknowledged(partition, infos[-1])
    world.disk.power_cut()
    world.disk.restart()
    content = world.disk.read_bytes("/logs0/t-0/00000000000000000000.log")
    assert content.startswith(b"".join(bytes(batch(b"%d" % n, base_offset=n, leader_epoch=0)) for n in range(3)))


@virtual_time
async def test_many_appends_share_an_fsync() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    await turns()
    before = flushes(world)
    world.offload.hold("flush")
    waits = [acknowledged(partition, append_now(partition))]
    await turns()
    waits += [acknowledged(partition, append_now(partition)) for _ in range(50)]
    await turns()
    assert len(world.supervisor._tasks) == 1
    assert world.offload.step("flush")
    await turns()
    assert [wait.done() for wait in waits] == [True] + [False] * 50, "the first fsync knows only of the first append"
    assert world.offload.step("flush")
    await turns()
    assert all(wait.done() for wait in waits)
    assert flushes(world) - before == 2
    world.offload.release("flush")


@virtual_time
async def test_an_append_during_the_last_fsync_gets_one_of_its_own() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    for _ in range(3):
        world.offload.hold("flush")
        first = acknowledged(partition, append_now(partition))
        await turns()
        second = acknowledged(partition, append_now(partition))
        world.offload.release("flush")
        await turns()
        assert first.done()
        assert second.done()


@virtual_time
async def test_a_duplicate_waits_for_the_fsync_of_its_original() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    appends = [partition.try_append(batch(b"a", producer=(5, 0, 0)), acks=-1) for _ in range(2)]
    assert appends[1] is not None
    assert appends[1].duplicate
    waits = [acknowledged(partition, info, acks=acks) for info in appends if info is not None for acks in (1, -1)]
    await turns()
    assert not any(wait.done() for wait in waits)
    world.offload.release("flush")
    await turns()
    assert all(wait.done() for wait in waits)
    late = partition.try_append(batch(b"a", producer=(5, 0, 0)), acks=-1)
    assert late is not None
    assert partition.when_acknowledged(late, acks=-1) is None


@virtual_time
async def test_a_failed_fsync_fails_who_waits_for_it_and_takes_the_directory_offline() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    await turns()
    world.disk.fail("fsync", ".log", error=errno.EIO, times=1)
    waits = [acknowledged(partition, append_now(partition, acks=acks), acks=acks) for acks in (1, -1)]
    await turns()
    assert [refusal(wait) for wait in waits] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert world.directory.is_offline
    assert partition.is_offline
    assert partition.log.high_watermark == partition.log.recovery_point == 0
    # The disk would report success from now on, for bytes that are gone.
    await turns()
    assert partition.log.recovery_point == 0
    assert world.failed == []


@virtual_time
async def test_with_a_greater_number_acknowledgements_do_not_wait_and_a_flush_follows() -> None:
    _, partition = await leading(config=LogConfig(flush_messages=3))
    await turns()
    for _ in range(2):
        assert partition.when_acknowledged(append_now(partition), acks=-1) is None
    await turns()
    assert partition.log.recovery_point == 0
    assert partition.when_acknowledged(append_now(partition), acks=-1) is None
    assert partition.log.high_watermark == 3
    await turns()
    assert partition.log.recovery_point == 3


@virtual_time
async def test_a_slow_directory_flushes_what_its_thread_wrote() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.make_slow(partition)
    world.offload.hold("flush")
    appends = await asyncio.gather(*(append_later(partition, batch(b"a")) for _ in range(3)))
    await turns()
    assert [append.wait is None or append.wait.done() for append in appends] == [False] * 3
    world.offload.release("flush")
    await turns()
    assert [append.wait is not None and append.wait.done() for append in appends] == [True] * 3
    assert partition.log.recovery_point == 4


@virtual_time
async def test_nothing_that_is_not_durable_is_read() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    append_now(partition)
    assert read_bytes(partition.log, 0, upper=partition.log.high_watermark) == b""
    world.offload.release("flush")
    await turns()
    assert read_bytes(partition.log, 0, upper=partition.log.high_watermark) != b""


@virtual_time
async def test_a_partition_that_leads_again_has_flushed_before_it_commits() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    append_now(partition)
    await turns()
    await world.assign(1, config=FLUSH_EACH)
    assert partition.log.high_watermark == 0
    world.offload.release("flush")
    await turns()
    assert partition.log.high_watermark == 1


@virtual_time
async def test_a_topic_that_asks_for_it_from_now_on_has_what_it_holds_flushed() -> None:
    world = await ReplicaWorld().open()
    await world.assign(0, leader=ME, replicas=(ME, OTHER), isr=(ME, OTHER))
    partition = world.partition()
    wait = acknowledged(partition, append_now(partition, acks=-1))
    world.replicas.configure(TP.topic, TopicSettings(FLUSH_EACH, 2))
    partition.on_follower_fetch(OTHER, leader_epoch=0, fetch_offset=1, log_start_offset=0)
    await turns(20)
    assert wait.result() is None
    assert partition.log.high_watermark == partition.log.recovery_point == 1


@virtual_time
async def test_who_waits_for_an_fsync_has_it_also_where_the_topic_asks_for_none_any_more() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    first = acknowledged(partition, append_now(partition, acks=1), acks=1)
    await turns()
    second = acknowledged(partition, append_now(partition, acks=1), acks=1)
    world.replicas.configure(TP.topic, TopicSettings(LogConfig(), 1))
    world.offload.release("flush")
    await turns(20)
    assert (first.result(), second.result(), partition.log.recovery_point) == (None, None, 2)
