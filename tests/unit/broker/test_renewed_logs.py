"""Damage of a compacted follower whose leader has cleaned more, or less: what was deleted does not come back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.connection import Address, Connection, open_connection
from barnabas.client.transport import connect_tcp
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import SystemDisk
from barnabas.storage.damage import DamagedRange
from barnabas.storage.log import Log
from barnabas.storage.scrubber import Scrubber, ScrubSettings
from broker.serve import Broker
from replication import log_renewal
from replication.log_renewal import CannotMend, LogRenewal
from replication.mending import Mender, MenderPorts
from tests.unit.broker.test_replicated_brokers import Cluster
from tests.unit.broker.test_serve import port_of
from tests.unit.broker.whole_broker import BrokerHost, until
from tests.unit.storage.cleaning_store import last_values, records_of

DELETED = b"deleted"
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "1000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Brokers whose cleaners look often; tombstones go as soon as they may."""
    soon = {"log_cleaner_backoff_ms": "20"}
    cluster = Cluster(BrokerHost(tmp_path), topic=TOPIC, keys={1: soon, 2: soon, 3: soon})
    await cluster.start()
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


def clean_later(cluster: Cluster, broker: Broker, *, ms: int = 1 << 40) -> None:
    """Keep the broker's cleaner from the log, or let it go on."""
    log = cluster.partition(broker).log
    log.config = replace(log.config, min_compaction_lag_ms=ms)


async def produce(cluster: Cluster, count: int) -> None:
    """Each has a key of its own, so that segments stay apart: one is as old as the last that went into it."""
    for _ in range(count):
        end = cluster.partition(cluster.leader).log.log_end_offset
        await cluster.produce(b"v" * 50, key=b"key %d" % end)


async def delete(cluster: Cluster) -> tuple[int, int]:
    """A key gets a value and loses it again, each in a segment that is closed by now; their offsets."""
    value = await cluster.produce(b"value", key=DELETED)
    await produce(cluster, 25)
    tombstone = await cluster.produce(None, key=DELETED)  # type: ignore[arg-type]
    await produce(cluster, 25)
    return value, tombstone


def has_key(log: Log) -> bool:
    return any(key == DELETED for _, key, _ in records_of(log))


async def until_clean(cluster: Cluster, broker: Broker, offset: int) -> None:
    directory = cluster.partition(broker).directory
    await until(lambda: directory.first_dirty.get(TopicPartition("t", 0), 0) >= offset)


async def until_gone(cluster: Cluster, broker: Broker) -> None:
    """Two cleanings: one takes the value, one the tombstone."""
    for _ in range(5):
        end = cluster.partition(broker).log.log_end_offset
        await produce(cluster, 25)
        await until_clean(cluster, broker, end)
        if not has_key(cluster.partition(broker).log):
            return
    raise AssertionError("it is not cleaned")


def damage(cluster: Cluster, broker: Broker, offset: int) -> None:
    """Flip bits in the value of the batch that holds the offset, and have the scrubber look."""
    partition = cluster.partition(broker)
    segments = partition.log.segments
    segment = segments[segments.place_of(offset)]
    position = segment.position_of(offset)
    assert position is not None
    with Path(segment.path(".log")).open("r+b") as file:
        file.seek(position + 65)
        file.write(b"\xff\xff")
    partition.directory.suspect(partition.log, offset)


async def until_mended(cluster: Cluster, broker: Broker) -> Log:
    damaged = cluster.partition(broker).log
    await until(lambda: damaged.damage)
    await until(lambda: not cluster.partition(broker).log.damage)
    log, end = cluster.partition(broker).log, cluster.partition(cluster.leader).log.log_end_offset
    await until(lambda: log.log_end_offset == end)
    return log


async def test_a_value_does_not_come_back_where_the_leader_has_taken_its_tombstone_away(cluster: Cluster) -> None:
    follower, leader = cluster.followers[0], cluster.leader
    clean_later(cluster, follower)
    _, tombstone = await delete(cluster)
    await until_gone(cluster, leader)
    assert has_key(cluster.partition(follower).log)
    damage(cluster, follower, tombstone)
    log = await until_mended(cluster, follower)
    assert last_values(records_of(log)) == last_values(records_of(cluster.partition(leader).log))
    assert not has_key(log)
    # It follows, is cleaned, and survives a start.
    clean_later(cluster, follower, ms=0)
    await produce(cluster, 30)
    await until_clean(cluster, follower, tombstone)
    keys = last_values(records_of(log))
    await follower.stop()
    cluster.brokers.remove(follower)
    again = await cluster.start_broker(follower.broker_id)
    await until(lambda: again.services.replicas.partition(("t", 0)) is not None)
    assert last_values(records_of(cluster.partition(again).log)) == keys


async def test_a_value_does_not_come_back_where_only_the_leader_still_has_it(cluster: Cluster) -> None:
    follower, leader = cluster.followers[0], cluster.leader
    clean_later(cluster, leader)
    value, _ = await delete(cluster)
    await until_gone(cluster, follower)
    clean_later(cluster, follower)
    records = list(records_of(cluster.partition(follower).log))
    # What stands where the value was, so that the leader has more there.
    damage(cluster, follower, next(offset for offset, _, _ in records if offset >= value))
    log = await until_mended(cluster, follower)
    values = last_values(records_of(log))
    assert values.get(DELETED) is None
    assert {key: text for key, text in values.items() if text} == last_values(records)


class MendingScene:
    """A follower that has one range known to be damaged, and a mender of the test's own: brokers' scrubbers are off."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.services = cluster.followers[0].services
        partition = cluster.partition(cluster.followers[0])
        self.log, self.directory = partition.log, partition.directory

    def mender(self, connect: Callable[..., Awaitable[Connection]]) -> Mender:
        services, disk = self.services, SystemDisk()
        scrubber = Scrubber(
            services.log_directories,
            disk=disk,
            clock=services.clock,
            offload=services.offload,
            settings=ScrubSettings(),
            on_damage=lambda _: None,
        )

        async def resign(_: object) -> Sequence[TopicPartition]:
            return ()

        ports = MenderPorts(services.clock, disk, services.offload, lambda _: ("127.0.0.1", 1), connect, resign)
        return Mender(services.replicas, scrubber, ports)


@pytest.fixture
async def mending(tmp_path: Path) -> AsyncIterator[MendingScene]:
    off = {"barnabas_scrub_bytes_per_second": "0"}
    cluster = Cluster(BrokerHost(tmp_path), keys={1: off, 2: off, 3: off})
    await cluster.start()
    await produce(cluster, 3)
    scene = MendingScene(cluster)
    await until(lambda: scene.log.high_watermark == 3)
    scene.log.damage.add(DamagedRange(0, 0, 80, 0, 1, "found"))
    yield scene
    for broker in cluster.brokers:
        await broker.stop()
    await cluster.host.close()


async def test_the_mender_and_the_cleaner_keep_off_each_others_log(mending: MendingScene) -> None:
    log, directory = mending.log, mending.directory
    held: list[Log | None] = []

    async def connect(*_: object) -> Connection:
        held.append(directory.mending)
        if log.offline:
            raise FileNotFoundError("deleted meanwhile")
        raise CannotMend("not now")

    mender = mending.mender(connect)
    directory.cleaning = log
    await mender.mend([log])
    assert held == []
    directory.cleaning = None
    await mender.mend([log])
    assert (held, directory.mending) == ([log], None)
    # A log that is deleted or moved takes its files along: that is no failure of the directory.
    log.offline = True
    await mending.mender(connect).mend([log])
    assert (len(held), directory.failure) == (2, None)
    log.offline = False


async def test_what_is_found_while_a_log_cannot_be_mended_does_not_end_the_mender(mending: MendingScene) -> None:
    tries = 0

    async def connect(*_: object) -> Connection:
        nonlocal tries
        tries += 1
        mender.on_damage(mending.log)
        raise CannotMend("not now")

    mender = mending.mender(connect)
    await mender.mend([mending.log])
    # It waits its time before it is tried again.
    await mender.mend([mending.log])
    assert tries == 1


async def test_a_move_that_begins_while_the_leader_is_asked_goes_first(
    mending: MendingScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas, directories = mending.services.replicas, mending.services.log_directories
    partition = mending.cluster.partition(mending.cluster.followers[0])

    ask = log_renewal.ask_offset

    async def ask_slowly(*args: Any, **given: Any) -> int:
        directories.futures.create(partition.topic_partition, mending.directory, mending.log.config)
        return await ask(*args, **given)

    monkeypatch.setattr(log_renewal, "ask_offset", ask_slowly)
    connection = await open_connection(Address("127.0.0.1", port_of(mending.cluster.leader)), connector=connect_tcp)
    renewal = LogRenewal(partition, connection, replicas.ports, mending.services.offload, 10_000)
    with pytest.raises(CannotMend, match="on its way to another directory"):
        await renewal.run()
    connection.close("the test is over")
    assert directories.futures.find(partition.topic_partition) is not None, "it is the move's"
    directories.futures.discard(partition.topic_partition)
