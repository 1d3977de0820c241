"""That nobody else leads is proven by all in sync, who ask for more after an answer of this leader."""

from typing import Final

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId
from replication.partition import Partition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld, append_now, begun, refusal

THIRD: Final = BrokerId(3)
ALL: Final = (ME, OTHER, THIRD)


async def leading(*, isr: tuple[BrokerId, ...] = ALL) -> tuple[ReplicaWorld, Partition]:
    world = await ReplicaWorld().open()
    world.live[THIRD] = BrokerEpoch(3)
    assert await world.assign(replicas=ALL, isr=isr) is ErrorCode.NONE
    return world, world.partition()


def fetch(partition: Partition, follower: BrokerId, *, heard_at: int, epoch: int = 0) -> None:
    partition.on_follower_fetch(
        follower,
        leader_epoch=epoch,
        fetch_offset=partition.log.log_end_offset,
        log_start_offset=0,
        heard_at=heard_at,
    )


@virtual_time
async def test_who_is_alone_in_sync_has_nobody_to_wait_for() -> None:
    _, partition = await leading(isr=(ME,))
    assert partition.proof.begin() is None


@virtual_time
async def test_all_in_sync_have_to_ask_after_an_answer_that_came_later() -> None:
    world, partition = await leading()
    before = next(world.ports.order)
    future = begun(partition)
    after = next(world.ports.order)
    fetch(partition, OTHER, heard_at=after)
    assert not future.done(), "the third may lead"
    fetch(partition, THIRD, heard_at=before)
    assert not future.done(), "it may have been elected since"
    fetch(partition, THIRD, heard_at=after)
    assert future.result() is None


@virtual_time
async def test_one_round_proves_it_for_all_who_came_before() -> None:
    world, partition = await leading()
    futures = [begun(partition) for _ in range(2)]
    between = next(world.ports.order)
    futures.append(begun(partition))
    for follower in (OTHER, THIRD):
        fetch(partition, follower, heard_at=between)
    assert [future.done() for future in futures] == [True, True, False]


@virtual_time
async def test_what_was_asked_in_another_epoch_proves_nothing() -> None:
    world, partition = await leading()
    assert await world.assign(1, replicas=ALL, isr=ALL) is ErrorCode.NONE
    future = begun(partition)
    after = next(world.ports.order)
    for follower in (OTHER, THIRD):
        fetch(partition, follower, heard_at=after, epoch=0)
    assert not future.done()
    for follower in (OTHER, THIRD):
        fetch(partition, follower, heard_at=after, epoch=1)
    assert future.done()


@virtual_time
async def test_who_is_not_in_sync_cannot_be_elected_and_is_not_waited_for() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    append_now(partition, b"the third lacks it")
    future = begun(partition)
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    assert future.done()


@virtual_time
async def test_who_leaves_the_in_sync_set_is_waited_for_no_longer() -> None:
    world, partition = await leading()
    append_now(partition, b"the third lacks it")
    future = begun(partition)
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    world.clock.advance(world.ports.replica_lag_time_max_ms + 1)
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    partition.check_lag()
    assert not future.done(), "the controller may refuse it"
    assert world.channel.proposed == [(ME, OTHER)]
    world.channel.obey(TP)
    assert future.done()


@virtual_time
async def test_who_is_about_to_join_may_be_elected_and_is_waited_for() -> None:
    """The answer that it has joined may have been lost."""
    world, partition = await leading(isr=(ME, OTHER))
    fetch(partition, THIRD, heard_at=next(world.ports.order))
    assert world.channel.proposed == [ALL]
    future = begun(partition)
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    assert not future.done()
    fetch(partition, THIRD, heard_at=next(world.ports.order))
    assert future.done()


@virtual_time
async def test_who_is_left_alone_in_sync_waits_for_nobody() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    append_now(partition, b"others lack it")
    future = begun(partition)
    world.clock.advance(world.ports.replica_lag_time_max_ms + 1)
    partition.check_lag()
    world.channel.obey(TP)
    assert partition.isr == (ME,)
    assert future.done()


@virtual_time
async def test_who_has_everything_and_does_not_ask_leaves_and_comes_back_when_it_asks() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    for _ in range(2):
        world.clock.advance(world.ports.replica_lag_time_max_ms + 1)
        partition.check_lag()
    assert world.channel.proposed == [], "nothing was waited for"
    future = begun(partition)
    world.clock.advance(world.ports.replica_lag_time_max_ms)
    partition.check_lag()
    assert world.channel.proposed == []
    world.clock.advance(1)
    partition.check_lag()
    world.channel.obey(TP)
    assert future.done()
    partition.check_lag()
    assert world.channel.proposed == [(ME,)], "it has not asked since"
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    assert world.channel.proposed == [(ME,), (ME, OTHER)]


@virtual_time
async def test_who_asks_is_not_silent_though_a_later_proof_is_always_wanted() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    for _ in range(5):
        answered = next(world.ports.order)
        begun(partition)
        fetch(partition, OTHER, heard_at=answered)
        world.clock.advance(world.ports.replica_lag_time_max_ms)
        partition.check_lag()
    assert world.channel.proposed == []


@virtual_time
async def test_who_is_silent_does_not_hold_the_high_watermark_once_it_has_left() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    begun(partition)
    world.clock.advance(world.ports.replica_lag_time_max_ms + 1)
    partition.check_lag()
    world.channel.obey(TP)
    append_now(partition, b"v")
    assert partition.log.high_watermark == 1


@virtual_time
async def test_another_connection_takes_nothing_back() -> None:
    world, partition = await leading(isr=(ME, OTHER))
    future = begun(partition)
    later = begun(partition)
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    assert future.done()
    assert later.done()
    partition.proof.begin()
    fetch(partition, OTHER, heard_at=0)
    assert partition.leadership is not None
    assert partition.leadership.remotes[OTHER].heard_at > 0


@virtual_time
async def test_those_who_wait_no_longer_do_not_pile_up() -> None:
    _, partition = await leading()
    for _ in range(100):
        begun(partition).cancel()
    assert len(partition.proof.waiting) == 1


@virtual_time
async def test_a_new_epoch_of_the_same_leader_ends_the_wait() -> None:
    world, partition = await leading()
    future = begun(partition)
    assert await world.assign(1, replicas=ALL, isr=ALL) is ErrorCode.NONE
    assert refusal(future) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("how", ["another leads", "the replica is stopped"])
def test_it_fails_with_the_leadership(how: str) -> None:
    @virtual_time
    async def play() -> None:
        world, partition = await leading()
        future = begun(partition)
        if how == "another leads":
            assert await world.assign(1, leader=OTHER, replicas=ALL, isr=ALL) is ErrorCode.NONE
        else:
            assert await world.stop(1) is ErrorCode.NONE
        assert refusal(future) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play()


@virtual_time
async def test_it_fails_with_the_directory() -> None:
    world, partition = await leading()
    future = begun(partition)
    world.directory.fail(OSError(5, "broken"))
    await turns()
    assert refusal(future) is ErrorCode.KAFKA_STORAGE_ERROR


@virtual_time
async def test_a_follower_is_answered_at_once_while_its_next_request_is_waited_for() -> None:
    world, partition = await leading(isr=(ME, OTHER))

    def lacking(epoch: int = 0) -> list[BrokerId]:
        return [each for each in (OTHER, THIRD) if partition.proof.lacks(each, leader_epoch=epoch)]

    append_now(partition, b"the third lacks it")
    assert lacking() == [], "nobody asks for a proof"
    future = begun(partition)
    assert lacking() == [OTHER]
    assert lacking(epoch=-1) == [], "its requests count for nothing"
    fetch(partition, OTHER, heard_at=0)
    assert lacking() == [OTHER]
    fetch(partition, OTHER, heard_at=next(world.ports.order))
    assert future.done()
    assert lacking() == []


@virtual_time
async def test_those_who_read_to_the_end_are_woken_and_no_others() -> None:
    _, partition = await leading()
    woken: list[str] = []

    class Watcher:
        def __init__(self, name: str) -> None:
            self.name = name

        def partition_changed(self, topic_partition: object) -> None:
            assert topic_partition == TP
            woken.append(self.name)

        def watermark_changed(self, topic_partition: object) -> None:
            raise AssertionError(topic_partition)

    partition.watch(Watcher("consumer"))
    partition.watch_end(Watcher("follower"))
    begun(partition)
    assert woken == ["follower"]
