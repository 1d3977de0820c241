"""How often a start waits for ZooKeeper: each question on its own would be a round trip of some milliseconds."""

import asyncio
from collections.abc import Awaitable
from typing import Final

from barnabas.protocol.ids import BrokerId, ControllerEpoch, LeaderEpoch
from broker.dynamic_config import DynamicConfig, read_layers
from broker.topic_configs import TopicConfigs
from controller.cluster_reader import ClusterReader
from tests.support.virtual_time import virtual_time
from tests.unit.broker.small_broker import make_config
from zk_schema import paths
from zk_schema.cluster_id import create_path, create_persistent_paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create
from zk_schema.payloads import PartitionState, TopicAssignment

ME: Final = BrokerId(1)
WAY_S: Final = 0.01
TOPICS: Final = ("a", "b", "c", "d")


async def cluster() -> MemorySession:
    """A cluster of four topics with a partition each, as ZooKeeper holds it."""
    session = MemorySession(MemoryZooKeeper(latency=lambda: WAY_S))
    await session.open()
    await create_persistent_paths(session)
    for name in TOPICS:
        await session.write(Create(paths.topic(name), TopicAssignment({0: (ME,)}).encode()))
        state = PartitionState(ME, LeaderEpoch(0), (ME,), ControllerEpoch(1))
        await create_path(session, paths.partition_state(name, 0), state.encode())
    return session


async def round_trips(work: Awaitable[object]) -> int:
    """How many of them `work` waits for, one after the other."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await work
    return round((loop.time() - began_s) / (2 * WAY_S))


@virtual_time
async def test_the_paths_that_every_broker_needs_are_looked_for_together() -> None:
    zk = await cluster()
    # Of 13 questions ten are under way at a time.
    assert await round_trips(create_persistent_paths(zk)) == 2


@virtual_time
async def test_the_configurations_of_brokers_are_asked_for_together() -> None:
    zk = await cluster()
    assert await round_trips(read_layers(zk, ME)) == 1


@virtual_time
async def test_the_configurations_of_topics_are_asked_for_together() -> None:
    zk = await cluster()
    assert await round_trips(TopicConfigs(DynamicConfig(make_config()), zk).settings_of(TOPICS)) == 1


@virtual_time
async def test_a_new_controller_reads_brokers_deletions_and_topics_together() -> None:
    zk = await cluster()
    # Names, then topics, then states.
    assert await round_trips(ClusterReader(zk).everything()) == 3
