"""Which changes of finalized features are legal, and making them (KIP-584)."""

import asyncio

import pytest

from barnabas.protocol.error_code import ErrorCode
from controller.features import decide_update
from controller.questions import DONE, FeatureUpdate, UpdateFeatures
from tests.unit.controller.cluster import Cluster
from tests.unit.controller.replication import active
from zk_schema import paths
from zk_schema.ops import Set
from zk_schema.payloads import FeatureStatus, FeatureZnode, VersionRange

SUPPORTED = VersionRange(1, 5)
PRESENT = VersionRange(2, 3)


@pytest.mark.parametrize(
    ("wanted", "allow_downgrade", "present", "after"),
    [
        (4, False, PRESENT, VersionRange(1, 4)),
        (2, True, PRESENT, VersionRange(1, 2)),
        (5, False, None, VersionRange(1, 5)),
        (0, True, PRESENT, None),
        (-1, True, PRESENT, None),
    ],
)
def test_legal_updates(
    wanted: int, present: VersionRange | None, after: VersionRange | None, *, allow_downgrade: bool
) -> None:
    assert decide_update(FeatureUpdate("f", wanted, allow_downgrade), present, SUPPORTED) == after


@pytest.mark.parametrize(
    ("update", "present", "supported", "told"),
    [
        (FeatureUpdate("", 1), None, SUPPORTED, "empty"),
        (FeatureUpdate("f", 0), PRESENT, SUPPORTED, "allowed as a downgrade"),
        (FeatureUpdate("f", 0, allow_downgrade=True), None, SUPPORTED, "not finalized"),
        (FeatureUpdate("f", 3), PRESENT, SUPPORTED, "already"),
        (FeatureUpdate("f", 2), PRESENT, SUPPORTED, "down"),
        (FeatureUpdate("f", 4, allow_downgrade=True), PRESENT, SUPPORTED, "up"),
        (FeatureUpdate("f", 1, allow_downgrade=True), PRESENT, SUPPORTED, "below"),
        (FeatureUpdate("f", 1), None, None, "not supported"),
        (FeatureUpdate("f", 6), None, SUPPORTED, "1 to 5"),
    ],
)
def test_illegal_updates(
    update: FeatureUpdate, present: VersionRange | None, supported: VersionRange | None, told: str
) -> None:
    refusal = decide_update(update, present, supported)
    assert isinstance(refusal, str)
    assert told in refusal


def test_a_feature_that_another_version_left_behind_can_be_deleted_and_each_update_stands_for_itself() -> None:
    async def play() -> None:
        cluster = Cluster()
        await cluster.open()
        await cluster.start_broker(1)
        await cluster.start_controller(1)
        left = FeatureZnode(FeatureStatus.ENABLED, {"old": PRESENT, "older": PRESENT})
        await cluster.tool.write(Set(paths.FEATURE, left.encode()))
        controller = active(cluster)
        assert controller is not None
        updates = (FeatureUpdate("old", 0, allow_downgrade=True), FeatureUpdate("new", 1))
        answer = await controller.ask(UpdateFeatures(updates))
        assert answer.outcomes["old"] == DONE
        assert answer.outcomes["new"].error is ErrorCode.INVALID_REQUEST
        znode = cluster.zk.tree.get(paths.FEATURE)
        assert znode is not None
        assert FeatureZnode.decode(znode.data) == FeatureZnode(FeatureStatus.ENABLED, {"older": PRESENT})
        assert answer.epoch == znode.stat.version
        await cluster.close()

    asyncio.run(play())
