"""Unclean elections: allowed by the broker's configuration or the topic's, which wins."""

import asyncio

import pytest

from controller.office import Settings
from tests.unit.controller.cluster import Cluster, until
from zk_schema import paths
from zk_schema.ops import Create, Set
from zk_schema.payloads import ConfigChange, EntityConfig

ALLOWED = EntityConfig({"unclean.leader.election.enable": "true"}).encode()
FORBIDDEN = EntityConfig({"unclean.leader.election.enable": "false"}).encode()
NOTHING_SET = EntityConfig({}).encode()


async def without_its_last_replica(*, by_default: bool, config: bytes) -> Cluster:
    """Partition t-0 of brokers 2 and 3: 3 left the in-sync set and is back, and then 2 is gone."""
    cluster = Cluster(Settings(unclean_leader_election_enable=by_default))
    await cluster.open()
    for number in (1, 2, 3):
        await cluster.start_broker(number)
    await cluster.start_controller(1)
    await cluster.create("t", {0: [2, 3]})
    await cluster.until_led("t", by=2)
    await cluster.tool.write(Set(paths.topic_config("t"), config))
    cluster.kill(3)
    await until(lambda: cluster.in_sync("t") == [2])
    await cluster.start_broker(3)
    cluster.kill(2)
    return cluster


@pytest.mark.parametrize(
    ("by_default", "config", "leader"),
    [
        (False, NOTHING_SET, -1),
        (True, NOTHING_SET, 3),
        (False, ALLOWED, 3),
        (True, FORBIDDEN, -1),
        (False, b"}{", -1),
    ],
)
async def test_the_topic_decides_and_else_the_broker(*, by_default: bool, config: bytes, leader: int) -> None:
    cluster = await without_its_last_replica(by_default=by_default, config=config)
    await cluster.until_led("t", by=leader)
    assert cluster.in_sync("t") == ([2] if leader == -1 else [3])
    await cluster.close()


@pytest.mark.parametrize(("config", "leader"), [(NOTHING_SET, 3), (FORBIDDEN, -1)])
async def test_where_brokers_allow_it_later_a_partition_gets_its_leader_then(*, config: bytes, leader: int) -> None:
    cluster = await without_its_last_replica(by_default=False, config=config)
    await cluster.until_led("t", by=-1)
    controller = cluster.controllers[1]
    controller.change_settings(Settings(unclean_leader_election_enable=False))
    await asyncio.sleep(0.05)
    assert cluster.in_sync("t") == [2]
    controller.change_settings(Settings(unclean_leader_election_enable=True))
    await asyncio.sleep(0.05)
    await cluster.until_led("t", by=leader)
    assert cluster.in_sync("t") == ([2] if leader == -1 else [3])
    await cluster.close()


async def test_a_later_controller_goes_by_what_was_changed_before() -> None:
    cluster = Cluster(Settings())
    await cluster.open()
    await cluster.start_broker(1)
    controller = cluster.make_controller(1)
    controller.change_settings(Settings(unclean_leader_election_enable=True))
    await controller.start()
    assert controller._driver is not None
    assert controller._driver._core._office.settings.unclean_leader_election_enable
    await cluster.close()


async def test_a_topic_that_allows_it_later_gets_its_leader_then() -> None:
    cluster = await without_its_last_replica(by_default=False, config=NOTHING_SET)
    await cluster.until_led("t", by=-1)
    await cluster.tool.write(Set(paths.topic_config("t"), ALLOWED))
    for entity in ("topics/unknown", "brokers/1", "topics/t"):
        change = Create(paths.CONFIG_CHANGE_PREFIX, ConfigChange(entity).encode(), sequential=True)
        await cluster.tool.write(change)
    await cluster.until_led("t", by=3)
    await cluster.close()
