"""What a broker shows of the groups that it coordinates."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.metric_coordinators import coordinator_families
from tests.unit.broker.group_talk import SMALL, GroupTalk
from tests.unit.broker.whole_broker import BrokerHost, make_topic

GROUPS = "kafka_coordinator_group_groupmetadatamanager_"


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[GroupTalk]:
    host = BrokerHost(tmp_path)
    broker = await host.start(**{name.replace(".", "_"): text for name, text in SMALL.items()})
    await make_topic(broker)
    yield GroupTalk(broker)
    await broker.stop()
    await host.close()


def shown(talk: GroupTalk) -> dict[str, float]:
    families = coordinator_families(talk.broker.services.coordination)
    return {sample.name: sample.value for family in families for sample in family.samples}


async def test_groups_are_counted_by_state_and_their_offsets_in_all(talk: GroupTalk) -> None:
    assert shown(talk)[f"{GROUPS}numgroups"] == 0
    await talk.find("g")
    await talk.member("stable")
    await talk.commit(1, "simple")
    await talk.commit(2, "another")
    counts = shown(talk)
    assert {
        name: counts[GROUPS + name] for name in ("numgroups", "numgroupsstable", "numgroupsempty", "numoffsets")
    } == {
        "numgroups": 3,
        "numgroupsstable": 1,
        "numgroupsempty": 2,
        "numoffsets": 2,
    }
    assert counts["barnabas_group_coordinator_partitions"] == 2
    assert counts["barnabas_group_coordinator_loading_partitions"] == 0
    assert counts["barnabas_transaction_coordinator_partitions"] == 0


async def test_a_broker_shows_them_beside_its_other_metrics(talk: GroupTalk) -> None:
    assert f"{GROUPS}numgroups" in talk.broker.services.metrics.exposition().decode()
