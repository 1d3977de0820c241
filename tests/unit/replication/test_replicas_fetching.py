"""A replica is fetched for exactly while it follows a leader."""

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER, BrokerId, TopicPartition
from tests.support.virtual_time import turns, virtual_time
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld
from tests.unit.storage.logs import batch

THIRD = BrokerId(3)
BOTH = (ME, OTHER, THIRD)


async def following(epoch: int = 0) -> ReplicaWorld:
    world = await ReplicaWorld().open()
    assert await world.assign(epoch, leader=OTHER, replicas=BOTH) is ErrorCode.NONE
    assert world.fetched.followed == {TP: (OTHER, epoch)}
    world.fetched.calls.clear()
    return world


@virtual_time
async def test_a_follower_is_fetched_for_from_its_leader() -> None:
    await following(4)


@virtual_time
async def test_the_same_leader_and_epoch_again_change_nothing() -> None:
    world = await following(4)
    assert await world.assign(4, leader=OTHER, replicas=BOTH) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.fetched.calls == []


@virtual_time
async def test_the_same_leader_in_a_newer_epoch_is_followed_anew() -> None:
    # KAFKA-7164: an epoch may have been missed in between.
    world = await following(4)
    await world.assign(6, leader=OTHER, replicas=BOTH)
    assert world.fetched.calls == ["unfollow t-0", "follow t-0"]
    assert world.fetched.followed == {TP: (OTHER, 6)}


@virtual_time
async def test_another_leader_is_fetched_from_instead() -> None:
    world = await following()
    await world.assign(1, leader=THIRD, replicas=BOTH)
    assert world.fetched.followed == {TP: (THIRD, 1)}


@virtual_time
async def test_who_leads_fetches_nothing() -> None:
    world = await following()
    await world.assign(1, replicas=BOTH)
    assert world.fetched.followed == {}
    assert world.partition().is_leader


@virtual_time
async def test_without_a_leader_there_is_a_log_and_nobody_to_fetch_from() -> None:
    world = await ReplicaWorld().open()
    assert await world.assign(3, leader=NO_LEADER, replicas=BOTH) is ErrorCode.NONE
    assert world.fetched.followed == {}
    assert world.disk.is_directory("/logs0/t-0")
    followed = await following()
    await followed.assign(1, leader=NO_LEADER, replicas=BOTH)
    assert followed.fetched.followed == {}


@virtual_time
async def test_a_replica_is_fetched_for_no_more_before_it_is_stopped() -> None:
    world = await following()
    partition = world.partition()
    world.offload.hold("write")
    world.directory.writes_inline = False
    record = batch(b"v", base_offset=0, leader_epoch=0)
    appending = world.supervisor.spawn(
        partition.append_as_follower(record, leader_epoch=partition.leader_epoch), name="a"
    )
    await turns()
    stopping = world.supervisor.spawn(world.stop(1), name="stop")
    await turns()
    assert world.fetched.calls == ["unfollow t-0"]
    assert not stopping.done()
    world.offload.release("write")
    assert await appending == 1
    assert await stopping is ErrorCode.NONE
    assert not world.disk.exists("/logs0/t-0")


@virtual_time
async def test_a_failed_directory_ends_the_fetching_of_its_own_replicas() -> None:
    world = await ReplicaWorld(directories=2).open()
    other = TopicPartition("t", 1)
    for at in (TP, other):
        await world.assign(leader=OTHER, at=at, replicas=BOTH)
    world.directory.fail(OSError(5, "gone"))
    assert list(world.fetched.followed) == [other]
    assert await world.assign(1, leader=OTHER, replicas=BOTH) is ErrorCode.KAFKA_STORAGE_ERROR
    assert list(world.fetched.followed) == [other]


@virtual_time
async def test_a_closed_broker_fetches_nothing() -> None:
    world = await following()
    await world.replicas.close()
    assert world.fetched.calls == ["stop"]
