"""Three whole brokers with a compacted topic: each replica is cleaned by its own broker, when that gets to it."""

import shutil
from pathlib import Path

from barnabas.storage.log import Log
from broker.serve import Broker
from tests.unit.broker.test_replicated_brokers import Cluster
from tests.unit.broker.whole_broker import BrokerHost, until
from tests.unit.storage.cleaning_store import last_values, records_of

KEYS = 5
VALUE = b"v" * 50


async def produce(cluster: Cluster, first: int, count: int) -> dict[bytes | None, bytes | None]:
    """So many records; the last value of each key."""
    written: dict[bytes | None, bytes | None] = {}
    for number in range(first, first + count):
        key = b"key %d" % (number % KEYS)
        written[key] = b"%d " % number + VALUE
        assert await cluster.produce(written[key] or b"", key=key) == number
    return written


async def test_replicas_that_are_cleaned_at_different_times_agree(tmp_path: Path) -> None:
    soon = {"log_cleaner_backoff_ms": "20"}
    cluster = Cluster(
        BrokerHost(tmp_path),
        topic={"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0"},
        keys={1: soon, 2: {"log_cleaner_enable": "false"}, 3: soon},
    )
    await cluster.start()
    uncleaned = cluster.brokers[1]
    written = await produce(cluster, 0, 60)

    def log_of(broker: Broker) -> Log:
        return cluster.partition(broker).log

    full = log_of(uncleaned).size_bytes
    for log in (log_of(cluster.brokers[0]), log_of(cluster.brokers[2])):
        await until(lambda log=log: log.size_bytes < full / 2)  # type: ignore[misc]
        assert last_values(records_of(log)) == written
    assert [offset for offset, _, _ in records_of(log_of(uncleaned))] == list(range(60))

    # One that lost its log copies what a cleaned leader has, gaps and all, and both go on.
    await uncleaned.stop()
    cluster.brokers.remove(uncleaned)
    await until(lambda: any(cluster.leads(broker) for broker in cluster.brokers))
    shutil.rmtree(tmp_path / "2")
    fresh = await cluster.start_broker(2)
    await until(lambda: fresh.services.replicas.partition(("t", 0)) is not None)
    await until(lambda: log_of(fresh).log_end_offset == 60)
    found = list(records_of(log_of(fresh)))
    assert len(found) < 40
    assert last_values(found) == written
    written |= await produce(cluster, 60, 30)
    for log in map(log_of, cluster.brokers):
        await until(lambda log=log: log.high_watermark == 90)  # type: ignore[misc]
        assert last_values(records_of(log)) == written
        assert log.leader_epochs.latest_epoch == log_of(fresh).leader_epochs.latest_epoch
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()
