"""A compacted log whose list of epochs is spoilt gets a new log, and the list with it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.unit.broker.test_replicated_brokers import Cluster
from tests.unit.broker.whole_broker import BrokerHost, until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    often = {"barnabas_scrub_interval_ms": "100"}
    cluster = Cluster(BrokerHost(tmp_path), topic={"cleanup.policy": "compact"}, keys={1: often, 2: often, 3: often})
    await cluster.start()
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


async def test_a_list_of_epochs_that_agrees_with_nothing_is_put_right_before_the_logs_are_compared(
    cluster: Cluster,
) -> None:
    for number in range(5):
        await cluster.produce(b"v", key=b"key %d" % number)
    follower = cluster.followers[0]
    log = cluster.partition(follower).log
    await until(lambda: log.high_watermark == 5)
    # An epoch that the leader knows nothing of: what was copied from there agrees with nothing here.
    log.leader_epochs.clear()
    log.leader_epochs.assign(7, start_offset=0)

    def epochs() -> list[tuple[int, int]]:
        return [(each.epoch, each.start_offset) for each in cluster.partition(follower).log.leader_epochs.entries]

    await until(lambda: epochs() == [(0, 0)])
    await until(lambda: not cluster.partition(follower).log.damage)
    assert cluster.partition(follower).log.log_end_offset == 5
