"""Throttled replication, and settings that change in ZooKeeper while a broker runs."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.storage.log_config import LogConfig
from broker.config_changes import ConfigChanges
from broker.config_effects import let_replicas_follow
from broker.config_keys.replication import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE
from broker.dynamic_config import DynamicConfig
from broker.fetching import replication_quotas
from replication.quota import ReplicationQuotas
from replication.replicas import ReplicaAssignment
from replication.settings import TopicSettings
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.data_broker import DataBroker
from tests.unit.broker.small_broker import make_config
from tests.unit.broker.test_fetch_from_followers import EPOCH, T0, follow, leading
from tests.unit.replication.replica_world import ME, OTHER, ReplicaWorld, append_now
from zk_schema import paths
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Set
from zk_schema.payloads import ConfigChange, EntityConfig

# A leader.


async def throttled(*, isr: tuple[BrokerId, ...]) -> DataBroker:
    """A leader whose quota was used up by broker 2, with a record that this has not got yet."""
    broker, (partition,) = await leading(isr=isr)
    partition.throttled_as_leader = True
    append_now(partition, b"v" * 5_000, acks=1)
    broker.services.replicas.quotas.leader.bytes_per_second = 1_000
    assert len(follow(broker, 0).records[T0]) > 5_000
    append_now(partition, b"v" * 100, acks=1)
    return broker


@virtual_time
async def test_a_follower_that_lags_gets_nothing_of_a_throttled_replica_while_the_bound_is_exceeded() -> None:
    broker = await throttled(isr=(ME,))
    assert follow(broker, 0).records[T0] == b""
    broker.world.clock.advance(4_900)
    assert follow(broker, 0).records[T0] == b""
    broker.world.clock.advance(500)
    assert len(follow(broker, 0).records[T0]) > 5_000


@virtual_time
async def test_a_follower_in_sync_gets_what_it_lacks() -> None:
    broker = await throttled(isr=(ME, OTHER))
    assert follow(broker, 1).records[T0] != b""


@virtual_time
async def test_a_replica_that_is_not_throttled_is_neither_held_nor_counted() -> None:
    broker, (partition,) = await leading(isr=(ME,))
    broker.services.replicas.quotas.leader.bytes_per_second = 1
    for number in range(3):
        append_now(partition, b"v" * 5_000, acks=1)
        assert follow(broker, number).records[T0] != b""


# Where it is said.


class Changing:
    """A broker with a topic of which it holds partitions 0 and 1, and what it reads of ZooKeeper."""

    def __init__(self, given: dict[str, str] | None = None) -> None:
        self.config = make_config(given)
        self.world = ReplicaWorld()
        self.zk = MemorySession(MemoryZooKeeper())
        self.quotas = replication_quotas(self.config)
        self.world.ports.quotas = self.world.replicas.quotas = self.quotas

    async def open(self, **broker_settings: str) -> "Changing":
        await self.zk.open()
        await self.world.open()
        for path in (paths.CONFIG, "/config/topics", "/config/brokers", paths.CONFIG_CHANGES):
            await self.zk.write(Create(path, None))
        if broker_settings:
            await self.zk.write(Create(paths.broker_config(None), _settings(broker_settings)))
        for number in range(2):
            at = TopicPartition("t", number)
            assignment = ReplicaAssignment(at, ME, EPOCH, (ME,), (ME,), 0, True, TopicSettings(LogConfig()))
            await self.world.replicas.assign(assignment)
        dynamic_config = DynamicConfig(self.config)
        let_replicas_follow(dynamic_config, self.world.replicas)
        self.changes = ConfigChanges(ME, self.zk, dynamic_config, self.world.replicas)
        self.task = asyncio.create_task(self.changes.run())
        await self.settle()
        return self

    async def set_topic(self, topic: str = "t", **settings: str) -> None:
        await self.write(paths.topic_config(topic), settings)
        await self.notify(paths.topic_entity(topic))

    async def set_broker(self, broker_id: int | None = ME, **settings: str) -> None:
        await self.write(paths.broker_config(broker_id), settings)
        await self.notify(paths.broker_entity(broker_id))

    async def write(self, path: str, settings: dict[str, str]) -> None:
        data = _settings(settings)
        exists = await self.zk.exists(path) is not None
        await self.zk.write(Set(path, data) if exists else Create(path, data))

    async def notify(self, entity_path: str) -> None:
        data = ConfigChange(entity_path).encode()
        await self.zk.write(Create(paths.CONFIG_CHANGE_PREFIX, data, sequential=True))
        await self.settle()

    async def settle(self) -> None:
        await turns(50)
        assert not self.task.done()

    def bounds(self) -> tuple[int | None, int | None, int | None]:
        quotas = self.quotas
        return quotas.leader.bytes_per_second, quotas.follower.bytes_per_second, quotas.moves.bytes_per_second

    def throttled(self) -> list[tuple[bool, bool]]:
        parts = [self.world.partition(TopicPartition("t", number)) for number in range(2)]
        return [(part.throttled_as_leader, part.throttled_as_follower) for part in parts]


def _settings(given: dict[str, str]) -> bytes:
    return EntityConfig({name.replace("_", "."): text for name, text in given.items()}).encode()


@pytest.fixture
async def changing() -> AsyncIterator[Changing]:
    made = await Changing().open()
    yield made
    made.task.cancel()


async def test_bounds_come_from_the_brokers_settings_and_from_those_of_all(changing: Changing) -> None:
    assert changing.bounds() == (None, None, None)
    await changing.set_broker(
        leader_replication_throttled_rate="1000",
        follower_replication_throttled_rate="2000",
        replica_alter_log_dirs_io_max_bytes_per_second="3000",
    )
    assert changing.bounds() == (1000, 2000, 3000)
    await changing.set_broker(None, leader_replication_throttled_rate="7", follower_replication_throttled_rate="8")
    assert changing.bounds() == (1000, 2000, 3000)
    await changing.set_broker(leader_replication_throttled_rate="1000")
    assert changing.bounds() == (1000, 8, None)
    await changing.set_broker(leader_replication_throttled_rate="fast")
    assert changing.bounds() == (7, 8, None)


async def test_the_settings_of_another_broker_change_nothing(changing: Changing) -> None:
    await changing.set_broker(2, leader_replication_throttled_rate="1000")
    assert changing.bounds() == (None, None, None)


async def test_bounds_that_were_set_before_the_start_act() -> None:
    made = await Changing().open(leader_replication_throttled_rate="5")
    assert made.bounds() == (5, None, None)
    made.task.cancel()


async def test_a_topic_names_its_throttled_replicas(changing: Changing) -> None:
    await changing.set_topic(
        leader_replication_throttled_replicas="0:1,1:2", follower_replication_throttled_replicas="*"
    )
    assert changing.throttled() == [(True, True), (False, True)]
    await changing.set_topic()
    assert changing.throttled() == [(False, False), (False, False)]


async def test_a_topics_settings_act_on_its_partitions_at_once(changing: Changing) -> None:
    partition = changing.world.partition(TopicPartition("t", 0))
    await changing.set_topic(max_message_bytes="77", min_insync_replicas="2")
    assert partition.log.config.max_message_bytes == 77
    assert partition.min_in_sync_replicas == 2
    await changing.set_topic("another", max_message_bytes="88")
    assert partition.log.config.max_message_bytes == 77


async def test_a_notification_that_cannot_be_read_does_not_hide_the_next(changing: Changing) -> None:
    await changing.zk.write(Create(paths.CONFIG_CHANGE_PREFIX, b"{", sequential=True))
    await changing.set_broker(leader_replication_throttled_rate="1000")
    assert changing.bounds() == (1000, None, None)


async def test_what_changed_while_the_connection_was_away_is_heard_afterwards(changing: Changing) -> None:
    server = changing.zk._server
    server.disconnect(changing.zk)
    other = MemorySession(server)
    await other.open()
    await other.write(Create(paths.broker_config(ME), _settings({LEADER_RATE: "9"})))
    change = ConfigChange(paths.broker_entity(ME)).encode()
    await other.write(Create(paths.CONFIG_CHANGE_PREFIX, change, sequential=True))
    await changing.settle()
    await asyncio.sleep(0.2)
    assert changing.bounds() == (9, None, None)
    await other.close()


def test_the_names_of_the_bounds_are_kafkas() -> None:
    assert (LEADER_RATE, FOLLOWER_RATE, MOVE_RATE) == (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )


# Samples.


def quotas_of(**keys: str) -> ReplicationQuotas:
    return replication_quotas(make_config({name.replace("_", "."): text for name, text in keys.items()}))


def test_rates_are_measured_over_as_many_samples_as_told() -> None:
    quotas = quotas_of(
        replication_quota_window_num="2",
        replication_quota_window_size_seconds="3",
        alter_log_dirs_replication_quota_window_num="4",
        alter_log_dirs_replication_quota_window_size_seconds="5",
    )
    for quota, remembered_ms in ((quotas.leader, 6_000), (quotas.follower, 6_000), (quotas.moves, 20_000)):
        quota.bytes_per_second = 1
        quota.record(1_000_000, 0)
        assert quota.is_exceeded(remembered_ms - 1)
        assert not quota.is_exceeded(remembered_ms)
