"""With `flush.messages=1` a follower asks for what comes next only when all before it is on its disk."""

import asyncio

from barnabas.storage.log_config import LogConfig
from replication.settings import TopicSettings
from tests.support.virtual_time import virtual_time
from tests.unit.replication.following import open_following
from tests.unit.replication.replica_world import ME, OTHER, TP, append_now

FLUSH = LogConfig(flush_messages=1)


@virtual_time
async def test_a_new_epoch_does_not_count_what_is_being_flushed() -> None:
    following = await open_following()
    its = following.leader.add(TP)
    partition = await following.follow(config=FLUSH)
    await asyncio.sleep(1)
    following.world.offload.hold("flush")
    its.write(b"a", committed=False)
    following.leader.wake()
    await asyncio.sleep(1)
    its.begin_epoch(1)
    await following.follow(epoch=1, config=FLUSH)
    await asyncio.sleep(1)
    assert (partition.log.log_end_offset, partition.log.recovery_point, its.follower_end) == (1, 0, 0)
    following.world.offload.release("flush")
    await asyncio.sleep(1)
    assert (partition.log.recovery_point, its.follower_end) == (1, 1)


@virtual_time
async def test_a_leader_that_follows_flushes_what_it_wrote_before_it_tells_of_it() -> None:
    following = await open_following()
    its, world = following.leader.add(TP), following.world
    await world.assign(0, leader=ME, replicas=(ME, OTHER), isr=(ME, OTHER), config=FLUSH)
    partition = world.partition()
    world.offload.hold("flush")
    append_now(partition, b"a")
    await asyncio.sleep(0.1)
    its.write(b"a", committed=False)
    its.begin_epoch(1)
    await following.follow(epoch=1, config=FLUSH)
    await asyncio.sleep(1)
    assert (partition.log.log_end_offset, partition.log.recovery_point) == (1, 0)
    assert its.follower_end < 1
    world.offload.release("flush")
    await asyncio.sleep(1)
    assert (partition.log.recovery_point, its.follower_end) == (1, 1)


@virtual_time
async def test_a_topic_that_is_set_to_flush_each_append_is_flushed_where_it_is_followed() -> None:
    following = await open_following()
    its = following.leader.add(TP)
    partition = await following.follow()
    await asyncio.sleep(1)
    its.write(b"a", committed=False)
    following.leader.wake()
    await asyncio.sleep(1)
    assert (partition.log.recovery_point, its.follower_end) == (0, 1)
    following.world.replicas.configure("t", TopicSettings(FLUSH, 1))
    await asyncio.sleep(40)
    assert partition.log.recovery_point == 1
