"""Broker 1 follows what broker 2 leads, in virtual time: its fetchers, its replicas and a small leader."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from barnabas.protocol.ids import TopicPartition
from barnabas.storage.log_config import LogConfig
from replication.fetchers import Fetchers
from replication.partition import Partition
from tests.unit.replication.replica_world import ME, OTHER, TP, ReplicaWorld
from tests.unit.replication.small_leader import LeaderLog, SmallLeader
from tests.unit.storage.logs import read_bytes


@dataclass
class Following:
    """Broker 1 follows what broker 2 leads."""

    world: ReplicaWorld
    leader: SmallLeader
    fetchers: Fetchers
    parts: dict[TopicPartition, Partition] = field(default_factory=dict)

    async def follow(self, at: TopicPartition = TP, *, epoch: int = 0, config: LogConfig | None = None) -> Partition:
        await self.world.assign(epoch, leader=OTHER, at=at, replicas=(OTHER, ME), config=config)
        partition = self.parts[at] = self.world.partition(at)
        self.fetchers.follow(partition)
        return partition

    def has_all(self, at: TopicPartition = TP) -> bool:
        """Whether the bytes here are the leader's, and as much of them is committed."""
        log_, its = self.parts[at].log, self.leader.logs[at]
        if (log_.log_end_offset, log_.high_watermark, log_.log_start_offset) != (
            its.end,
            its.high_watermark,
            its.start,
        ):
            return False
        return read_bytes(log_, its.start) == its.read(its.start, 1 << 30)

    async def stop(self) -> None:
        await self.fetchers.stop()
        await self.world.supervisor.stop()
        assert self.world.failed == []


async def open_following(*, directories: int = 1, **settings: Any) -> Following:
    world = await ReplicaWorld(directories).open()
    leader = SmallLeader()
    return Following(world, leader, leader.fetchers(world.supervisor.spawn, **settings))


async def caught_up(*values: bytes, **settings: Any) -> tuple[Following, LeaderLog, Partition]:
    """One partition that has what the leader has."""
    following = await open_following(**settings)
    its = following.leader.add(TP)
    for value in values or (b"a", b"b", b"c"):
        its.write(value)
    partition = await following.follow()
    await asyncio.sleep(1)
    assert following.has_all()
    return following, its, partition
