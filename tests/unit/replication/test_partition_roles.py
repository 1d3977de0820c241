"""Roles: a change waits for the append under way, fails who waits for an earlier epoch, and tells who watches."""

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from replication.partition import Partition, PartitionRefused
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import (
    FLUSH_EACH,
    ME,
    OTHER,
    TP,
    acknowledged,
    append_later,
    append_now,
    leading,
    refusal,
)
from tests.unit.storage.logs import batch

BOTH = (ME, OTHER)


class Ear:
    """A watcher that writes down what it hears, and the high watermark at that moment."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.heard: list[int] = []

    def partition_changed(self, topic_partition: TopicPartition) -> None:
        assert topic_partition == TP
        self.heard.append(self.partition.log.high_watermark)


def error_of(partition: Partition, epoch: int) -> ErrorCode:
    try:
        partition.require_leader(epoch)
    except PartitionRefused as refused:
        return refused.error
    return ErrorCode.NONE


@virtual_time
async def test_the_epoch_that_a_peer_believes_in_is_held_against_the_partitions() -> None:
    world, partition = await leading()
    await world.assign(3)
    assert error_of(partition, -1) is ErrorCode.NONE
    assert error_of(partition, 3) is ErrorCode.NONE
    assert error_of(partition, 2) is ErrorCode.FENCED_LEADER_EPOCH
    assert error_of(partition, 4) is ErrorCode.UNKNOWN_LEADER_EPOCH
    await world.assign(4, leader=OTHER, replicas=BOTH)
    assert error_of(partition, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(partition, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(partition, 3) is ErrorCode.FENCED_LEADER_EPOCH
    world.directory.fail(OSError(5, "gone"))
    assert error_of(partition, -1) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("leader", [OTHER, BrokerId(-1)])
def test_the_end_of_a_leadership_fails_who_waits(leader: BrokerId) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await leading(config=FLUSH_EACH)
        world.offload.hold("flush")
        waits = [acknowledged(partition, append_now(partition, acks=acks), acks=acks) for acks in (-1, 1)]
        await turns()
        assert not any(wait.done() for wait in waits)
        await world.assign(1, leader=leader, replicas=BOTH, config=FLUSH_EACH)
        assert [refusal(wait) for wait in waits] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND] * 2
        world.offload.release("flush")
        await turns()

    run()


@virtual_time
async def test_who_waits_for_a_leader_that_leads_on_in_another_epoch_waits_on() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    old = acknowledged(partition, append_now(partition))
    await world.assign(1, config=FLUSH_EACH)
    new = acknowledged(partition, append_now(partition))
    await turns()
    assert not old.done()
    world.offload.release("flush")
    await turns()
    assert (old.result(), new.result()) == (None, None)
    assert partition.log.high_watermark == 2


@virtual_time
async def test_the_same_epoch_again_fails_nobody() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    wait = acknowledged(partition, append_now(partition))
    assert await world.assign(0, config=FLUSH_EACH) is ErrorCode.STALE_CONTROLLER_EPOCH
    world.offload.release("flush")
    await turns()
    assert wait.result() is None


@pytest.mark.parametrize("leader", [ME, OTHER])
def test_a_role_change_waits_for_the_append_in_the_thread(leader: BrokerId) -> None:
    @virtual_time
    async def run() -> None:
        world, partition = await leading(config=FLUSH_EACH)
        world.make_slow(partition)
        for kind in ("write", "flush"):
            world.offload.hold(kind)
        appending = append_later(partition, batch(b"a"))
        await turns()
        changing = world.supervisor.spawn(
            world.assign(1, leader=leader, replicas=BOTH, config=FLUSH_EACH), name="assign"
        )
        await turns()
        assert not changing.done()
        assert partition.leader_epoch == 0
        world.offload.release("write")
        wait = (await appending).wait
        assert await changing is ErrorCode.NONE
        assert wait is not None
        assert partition.log.high_watermark == 0
        if leader == ME:
            assert not wait.done()
        else:
            assert refusal(wait) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        world.offload.release("flush")
        await turns()
        assert wait.done()

    run()


@virtual_time
async def test_an_append_that_waits_its_turn_behind_a_role_change_is_refused() -> None:
    world, partition = await leading()
    world.make_slow(partition)
    world.offload.hold("write")
    first = append_later(partition, batch(b"a"))
    await turns()
    changing = world.supervisor.spawn(world.assign(1, leader=OTHER, replicas=BOTH), name="assign")
    await turns()
    second = append_later(partition, batch(b"b"))
    await turns()
    world.offload.release("write")
    assert (await first).first_offset == 1
    with pytest.raises(PartitionRefused) as raised:
        await second
    assert raised.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await changing is ErrorCode.NONE
    assert partition.log.log_end_offset == 2


@virtual_time
async def test_a_leader_epoch_begins_where_the_log_ends() -> None:
    world, partition = await leading()
    append_now(partition, b"a", b"b")
    await world.assign(5)
    # Followers may ask for it before the first record of the epoch is there.
    assert [tuple(entry) for entry in partition.log.leader_epochs.entries] == [(0, 0), (5, 2)]
    append_now(partition, b"c")
    assert [tuple(entry) for entry in partition.log.leader_epochs.entries] == [(0, 0), (5, 2)]
    assert partition.leader_epoch == 5


@virtual_time
async def test_a_new_leader_commits_all_it_has() -> None:
    world, partition = await leading()
    append_now(partition)
    await world.assign(1, leader=OTHER, replicas=BOTH)
    partition.log.set_high_watermark(0)
    await world.assign(2)
    assert partition.log.high_watermark == 1


@virtual_time
async def test_a_failed_directory_fails_who_waits_and_the_partition_does_not_come_back() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    wait = acknowledged(partition, append_now(partition))
    world.directory.fail(OSError(5, "gone"))
    assert refusal(wait) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await world.assign(1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.is_leader
    world.offload.release("flush")
    await turns()
    assert partition.log.high_watermark == 0


@virtual_time
async def test_a_wait_that_nobody_looks_at_any_more_troubles_nobody_when_it_fails() -> None:
    # What reaches the loop's exception handler ends a broker; the decorator fails the test for it.
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    acknowledged(partition, append_now(partition))
    await world.assign(1, config=FLUSH_EACH)
    world.offload.release("flush")
    await turns()


@virtual_time
async def test_a_wait_that_was_given_up_is_passed_over() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    world.offload.hold("flush")
    first, second = (acknowledged(partition, append_now(partition)) for _ in range(2))
    first.cancel()
    world.offload.release("flush")
    await turns()
    assert second.result() is None


# Watching.


@virtual_time
async def test_a_watcher_hears_of_what_became_readable_and_of_every_change_of_role() -> None:
    world, partition = await leading()
    ear = Ear(partition)
    partition.watch(ear)
    partition.watch(ear)
    append_now(partition)
    append_now(partition)
    assert ear.heard == [1, 2]
    await world.assign(1, leader=OTHER, replicas=BOTH)
    assert len(ear.heard) == 3
    await world.assign(2)
    assert len(ear.heard) == 4
    world.directory.fail(OSError(5, "gone"))
    assert len(ear.heard) == 5


@virtual_time
async def test_a_watcher_is_told_after_the_fsync_and_not_before() -> None:
    world, partition = await leading(config=FLUSH_EACH)
    ear = Ear(partition)
    partition.watch(ear)
    world.offload.hold("flush")
    append_now(partition)
    await turns()
    assert ear.heard == []
    world.offload.release("flush")
    await turns()
    assert ear.heard == [1]


@virtual_time
async def test_who_stopped_watching_hears_nothing_also_when_it_stops_while_others_are_told() -> None:
    _, partition = await leading()

    class Leaves(Ear):
        def partition_changed(self, topic_partition: TopicPartition) -> None:
            super().partition_changed(topic_partition)
            self.partition.unwatch(self)

    once, always = Leaves(partition), Ear(partition)
    partition.watch(once)
    partition.watch(always)
    append_now(partition)
    append_now(partition)
    assert (once.heard, always.heard) == ([1], [1, 2])
    partition.unwatch(once)
