"""The finalized features of the cluster: read, followed, and made by the controller."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import BrokerId, ControllerEpoch
from barnabas.runtime.tasks import Supervisor
from broker.features import NO_EPOCH, FinalizedFeatures
from controller.campaign import Campaign
from controller.state import Term
from tests.support.clock import ManualClock
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Set
from zk_schema.payloads import FeatureStatus, FeatureZnode, VersionRange

KNOWN = {"f": VersionRange(1, 3)}


class Side:
    def __init__(self) -> None:
        self.failures: list[object] = []
        self.supervisor = Supervisor(lambda what, error: self.failures.append((what, error)))
        self.zk = MemorySession(MemoryZooKeeper())
        self.features = FinalizedFeatures(self.zk, self.supervisor)

    async def write(self, znode: FeatureZnode, version: int) -> None:
        await self.zk.write(Set(paths.FEATURE, znode.encode(), version))

    async def until_epoch(self, epoch: int) -> None:
        for _ in range(1000):
            if self.features.epoch == epoch:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"the epoch stayed {self.features.epoch}")


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    side = Side()
    await side.zk.open()
    yield side
    side.features.stop()
    await side.supervisor.stop()
    await side.zk.close()
    assert side.failures == []


async def test_without_the_znode_there_is_no_epoch_and_with_it_there_is(side: Side) -> None:
    await side.features.start()
    assert (side.features.epoch, side.features.features) == (NO_EPOCH, {})
    await side.zk.write(Create(paths.FEATURE, FeatureZnode(FeatureStatus.ENABLED, KNOWN).encode()))
    await side.until_epoch(0)
    assert side.features.features == KNOWN


async def test_a_change_is_followed_and_disabled_features_do_not_count(side: Side) -> None:
    await side.zk.write(Create(paths.FEATURE, FeatureZnode(FeatureStatus.ENABLED, KNOWN).encode()))
    await side.features.start()
    await side.write(FeatureZnode(FeatureStatus.DISABLED, KNOWN), 0)
    await side.until_epoch(1)
    assert side.features.features == {}
    await side.write(FeatureZnode(FeatureStatus.ENABLED, KNOWN), 1)
    await side.until_epoch(2)
    assert side.features.features == KNOWN


async def test_what_cannot_be_read_leaves_what_was_known(side: Side, caplog: pytest.LogCaptureFixture) -> None:
    await side.zk.write(Create(paths.FEATURE, FeatureZnode(FeatureStatus.ENABLED, KNOWN).encode()))
    await side.features.start()
    await side.zk.write(Set(paths.FEATURE, b"no json", 0))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (side.features.epoch, side.features.features) == (0, KNOWN)
    assert paths.FEATURE in caplog.text


async def test_a_controller_makes_the_znode_once_and_only_while_it_is_in_office(side: Side) -> None:
    campaign = Campaign(BrokerId(1), side.zk, ManualClock())
    term = await campaign.stand()
    assert term is not None
    await campaign.keep_features(Term(BrokerId(1), ControllerEpoch(9), term.epoch_version + 5))
    assert await side.zk.get(paths.FEATURE) is None
    await campaign.keep_features(term)
    await campaign.keep_features(term)
    znode = await side.zk.get(paths.FEATURE)
    assert znode is not None
    assert FeatureZnode.decode(znode.data) == FeatureZnode(FeatureStatus.ENABLED)
    assert znode.stat.version == 0


async def test_who_waits_for_an_epoch_goes_on_when_it_is_read_or_its_time_is_over(side: Side) -> None:
    await side.zk.write(Create(paths.FEATURE, FeatureZnode(FeatureStatus.ENABLED).encode()))
    await side.features.start()
    waiting = asyncio.create_task(side.features.wait_for(2, timeout_ms=60_000))
    for version in range(2):
        assert not waiting.done()
        await side.write(FeatureZnode(FeatureStatus.ENABLED, KNOWN), version)
        await side.until_epoch(version + 1)
    assert await waiting
    assert not await side.features.wait_for(3, timeout_ms=0)


async def test_the_controller_switches_features_on_that_an_older_one_left_off(side: Side) -> None:
    await side.zk.write(Create(paths.CONTROLLER_EPOCH, b"1"))
    await side.zk.write(Create(paths.FEATURE, FeatureZnode(FeatureStatus.DISABLED, KNOWN).encode()))
    term = Term(BrokerId(1), ControllerEpoch(1), 0)
    await Campaign(BrokerId(1), side.zk, ManualClock()).keep_features(term)
    znode = await side.zk.get(paths.FEATURE)
    assert znode is not None
    assert FeatureZnode.decode(znode.data) == FeatureZnode(FeatureStatus.ENABLED)
