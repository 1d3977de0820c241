"""A compacted log that cannot have a new log now, whatever stands in the way: its broker goes on, and tries again."""

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


async def test_a_renewal_that_cannot_be_done_now_is_done_later(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(5):
        await cluster.produce(b"v", key=b"key %d" % number)
    follower = cluster.followers[0]
    log = cluster.partition(follower).log
    await until(lambda: log.high_watermark == 5)
    # An epoch that the leader knows nothing of: what was copied from there agrees with nothing here.
    log.leader_epochs.clear()
    log.leader_epochs.assign(7, start_offset=0)
    await until(lambda: "its damage cannot be mended yet" in caplog.text)
    log.leader_epochs.clear()
    log.leader_epochs.assign(0, start_offset=0)
    await until(lambda: not cluster.partition(follower).log.damage)
    assert cluster.partition(follower).log.log_end_offset == 5
