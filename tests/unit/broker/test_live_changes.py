"""Settings that are changed while whole brokers run: each key acts at once, on all brokers, and after a restart."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.runtime.network import Network
from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import Supervisor
from barnabas.storage.cleaner import Cleaner
from broker.config import BrokerConfig
from broker.config_keys import TOPIC_KEYS
from broker.config_keys.key import ConfigKey
from broker.config_keys.replication import FOLLOWER_RATE, LEADER_RATE, MOVE_RATE
from broker.handlers import alter_configs
from broker.log_cleaning import cleaner_settings
from broker.log_scrubbing import LogScrubbing, scrub_settings
from broker.request_context import RequestContext
from broker.serve import Broker
from broker.system_ports import open_network
from replication.partition import Partition
from tests.unit.broker.test_network_key_effects import is_closed
from tests.unit.broker.whole_broker import BrokerHost, make_topic, until
from zk_schema import paths
from zk_schema.memory import MemorySession
from zk_schema.ops import Create
from zk_schema.payloads import EntityConfig

TOPIC, BROKER = 2, 4

OTHERS: Mapping[str, str] = {
    "cleanup.policy": "compact,delete",
    "compression.type": "gzip",
    "delete.retention.ms": "101",
    "file.delete.delay.ms": "102",
    "flush.messages": "103",
    "flush.ms": "104",
    "index.interval.bytes": "105",
    "max.compaction.lag.ms": "1060",
    "max.message.bytes": "107",
    "message.downconversion.enable": "false",
    "message.format.version": "0.10.2",
    "message.timestamp.difference.max.ms": "108",
    "message.timestamp.type": "LogAppendTime",
    "min.cleanable.dirty.ratio": "0.25",
    "min.compaction.lag.ms": "109",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "retention.bytes": "110",
    "retention.ms": "111",
    "segment.bytes": "112",
    "segment.index.bytes": "113",
    "segment.jitter.ms": "114",
    "segment.ms": "115",
    "leader.replication.throttled.replicas": "0:1",
    "follower.replication.throttled.replicas": "*",
}
"""For each key of a topic that its replicas act on, a value that is not the default."""


def _acts(key: ConfigKey) -> bool:
    return key.acts and (key.served is None or key.served.passes(key.parse(OTHERS[key.name])))


ACTING = [name for name, key in TOPIC_KEYS.items() if name in OTHERS and _acts(key)]
AT_BROKERS: Mapping[str, str] = {
    "compression.type": "compression.type",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.message.downconversion.enable": "message.downconversion.enable",
    "log.message.timestamp.difference.max.ms": "message.timestamp.difference.max.ms",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.retention.bytes": "retention.bytes",
    "log.retention.ms": "retention.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.roll.ms": "segment.ms",
    "log.segment.bytes": "segment.bytes",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "min.insync.replicas": "min.insync.replicas",
}
"""The topic's name of each key of brokers that topics take their default from and that changes in a running broker."""
OF_PARTS: Mapping[str, str] = {
    "barnabas.scrub.bytes.per.second": "12345",
    "barnabas.scrub.interval.ms": "12346",
    "log.cleaner.backoff.ms": "12347",
    "log.cleaner.dedupe.buffer.size": "2000000",
    "log.cleaner.io.buffer.load.factor": "0.8",
    "log.cleaner.io.buffer.size": "12348",
    "log.cleaner.io.max.bytes.per.second": "12349",
}
"""Values for the keys of the cleaner and of the scrubber."""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[BrokerHost]:
    host = BrokerHost(tmp_path)
    yield host
    await host.close()


@pytest.fixture
async def broker(host: BrokerHost) -> AsyncIterator[Broker]:
    broker = await host.start(controlled_shutdown_enable="false")
    yield broker
    await broker.stop()


async def alter(broker: Broker, kind: int, name: str, settings: Mapping[str, str]) -> None:
    """Replace settings; returns when they act on this broker."""
    context = RequestContext(
        broker.services,
        version=1,
        correlation_id=1,
        client_id="t",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )
    configs = [AlterableConfig(*each) for each in settings.items()]
    response = await alter_configs.handle(AlterConfigsRequest([AlterConfigsResource(kind, name, configs)]), context)
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE], response


def acts_on(partition: Partition) -> tuple[object, ...]:
    return (
        partition.log.config,
        partition.min_in_sync_replicas,
        partition.throttled_as_leader,
        partition.throttled_as_follower,
    )


async def test_each_key_of_a_topic_reaches_its_replicas_at_once(broker: Broker) -> None:
    (partition,) = await make_topic(broker)
    before = acts_on(partition)
    for name in ACTING:
        await alter(broker, TOPIC, "t", {name: OTHERS[name]})
        assert acts_on(partition) != before, name
        await alter(broker, TOPIC, "t", {})
        assert acts_on(partition) == before, name


@pytest.mark.parametrize("name", ["", "1"])
async def test_each_key_of_brokers_that_topics_follow_reaches_their_replicas_at_once(broker: Broker, name: str) -> None:
    (partition,) = await make_topic(broker)
    (own,) = await make_topic(broker, "own", segment_bytes="777")
    before = acts_on(partition)
    for key, of_topic in AT_BROKERS.items():
        if of_topic not in ACTING:
            continue
        await alter(broker, BROKER, name, {key: OTHERS[of_topic]})
        by_broker = acts_on(partition)
        assert by_broker != before, key
        assert own.log.config.segment_bytes == 777
        await alter(broker, BROKER, name, {})
        assert acts_on(partition) == before, key
        await alter(broker, TOPIC, "t", {of_topic: OTHERS[of_topic]})
        assert acts_on(partition) == by_broker, key
        await alter(broker, TOPIC, "t", {})


def parts_settings(broker: Broker) -> tuple[object, object]:
    """What the cleaner and the scrubber go by; found among those that listen, for nobody else needs them."""
    listeners = broker.services.dynamic_config._listeners
    parts = [cell.cell_contents for listener in listeners for cell in listener.__closure__ or ()]
    (cleaner,) = [part for part in parts if isinstance(part, Cleaner)]
    (scrubbing,) = [part for part in parts if isinstance(part, LogScrubbing)]
    return cleaner._settings, scrubbing.scrubber.settings


async def test_the_cleaner_and_the_scrubber_go_by_what_is_set_now(broker: Broker) -> None:
    before = parts_settings(broker)
    for key, text in OF_PARTS.items():
        await alter(broker, BROKER, "", {key: text})
        config = broker.services.config
        now = parts_settings(broker)
        assert now == (cleaner_settings(config), scrub_settings(config))
        assert now != before, key
    await alter(broker, BROKER, "", {})
    assert parts_settings(broker) == before


async def test_all_brokers_hear_of_what_is_set_for_all_and_each_of_its_own(host: BrokerHost) -> None:
    first = await host.start(controlled_shutdown_enable="false")
    second = await host.start(broker_id="2", log_dirs=f"{host.directory}/c", controlled_shutdown_enable="false")
    await alter(first, BROKER, "", {"message.max.bytes": "900000", LEADER_RATE: "5"})
    await until(lambda: second.services.config.values["message.max.bytes"] == 900_000)
    assert second.services.replicas.quotas.leader.bytes_per_second == 5
    await alter(second, BROKER, "2", {"message.max.bytes": "800000"})
    assert second.services.config.values["message.max.bytes"] == 800_000
    await alter(first, BROKER, "", {})
    await until(lambda: second.services.replicas.quotas.leader.bytes_per_second is None)
    assert second.services.config.values["message.max.bytes"] == 800_000
    assert first.services.config.values["message.max.bytes"] == 1_048_588
    assert second.services.log_directories.default_config.max_message_bytes == 800_000
    await second.stop()
    await first.stop()


async def test_what_was_set_stands_after_a_restart_before_logs_are_opened(host: BrokerHost) -> None:
    broker = await host.start(controlled_shutdown_enable="false")
    await make_topic(broker)
    settings = {"log.segment.bytes": "1000", "max.connections": "5", MOVE_RATE: "7", "num.replica.fetchers": "2"}
    await alter(broker, BROKER, "1", settings | {"unclean.leader.election.enable": "true"})
    await broker.stop()
    opened_with = []

    def open_and_tell(config: BrokerConfig, offload: Offload, supervisor: Supervisor) -> Network:
        opened_with.append(config.max_connections)
        return open_network(config, offload, supervisor)

    host.open_network = open_and_tell
    broker = await host.start(controlled_shutdown_enable="false")
    (opened,) = broker.services.log_directories.logs()
    assert opened_with == [5], "it was known before the first connection could be taken"
    assert opened.config.segment_bytes == 1000
    assert broker._network._gate._limits.max_total == 5  # type: ignore[attr-defined]
    assert broker.services.replicas.quotas.moves.bytes_per_second == 7
    assert broker.services.controller._settings.unclean_leader_election_enable
    assert broker.services.replicas._fetchers._settings.fetchers_per_leader == 2  # type: ignore[attr-defined]
    await broker.stop()


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections.per.ip.overrides": "no.such.host.invalid:1"},
        {"max.connections.per.ip": "0"},
        {"log.segment.bytes": "x", "broker.id": "7", "no.such.key": "1"},
    ],
)
async def test_a_bad_value_in_zookeeper_does_not_keep_a_broker_from_starting(
    host: BrokerHost, settings: Mapping[str, str]
) -> None:
    session = MemorySession(host.zookeeper)
    await session.open()
    path = paths.broker_config(None)
    for parent in paths.parents(path):
        await session.write(Create(parent, None))
    await session.write(Create(path, EntityConfig(settings | {"message.max.bytes": "900000"}).encode()))
    await session.close()
    broker = await host.start(controlled_shutdown_enable="false")
    assert broker.services.config.values["message.max.bytes"] == 900_000
    assert broker.broker_id == 1
    await broker.stop()


async def test_rates_of_replication_are_bounded_at_once(broker: Broker) -> None:
    quotas = broker.services.replicas.quotas
    await alter(broker, BROKER, "1", {LEADER_RATE: "1", FOLLOWER_RATE: "2", MOVE_RATE: "3"})
    assert [each.bytes_per_second for each in (quotas.leader, quotas.follower, quotas.moves)] == [1, 2, 3]
    await alter(broker, BROKER, "1", {})
    assert [each.bytes_per_second for each in (quotas.leader, quotas.follower, quotas.moves)] == [None] * 3


async def test_connections_are_limited_at_once(broker: Broker) -> None:
    port = broker._network._listeners[0].port  # type: ignore[attr-defined]
    taken = broker._network.connection_count  # type: ignore[attr-defined]

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    for settings in ({"max.connections.per.ip": "1"}, {"max.connections.per.ip.overrides": "127.0.0.1:1"}):
        await alter(broker, BROKER, "1", settings)
        await until(lambda: _limit(broker, "127.0.0.1") == 1)
        _, kept = await connect()
        await until(lambda: broker._network.connection_count == taken + 1)  # type: ignore[attr-defined]
        reader, refused = await connect()
        assert await is_closed(reader)
        await alter(broker, BROKER, "1", {})
        await until(lambda: _limit(broker, "127.0.0.1") > 1)
        _, second = await connect()
        await until(lambda: broker._network.connection_count == taken + 2)  # type: ignore[attr-defined]
        for writer in (kept, refused, second):
            writer.close()
        await until(lambda: broker._network.connection_count == taken)  # type: ignore[attr-defined]


async def test_who_waits_for_room_gets_in_when_there_may_be_more_connections(host: BrokerHost) -> None:
    broker = await host.start(max_connections="1", controlled_shutdown_enable="false")
    port = broker._network._listeners[0].port  # type: ignore[attr-defined]
    writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(2)]
    await until(lambda: broker._network.connection_count == 1)  # type: ignore[attr-defined]
    await alter(broker, BROKER, "", {"max.connections": "2"})
    await until(lambda: broker._network.connection_count == 2)  # type: ignore[attr-defined]
    for writer in writers:
        writer.close()
    await broker.stop()


def _limit(broker: Broker, host: str) -> int:
    limits = broker._network._gate._limits  # type: ignore[attr-defined]
    found: int = limits.max_by_host.get(host, limits.max_per_host)
    return found


async def test_the_controller_decides_on_unclean_elections_by_what_is_set_now(broker: Broker) -> None:
    await until(lambda: broker.services.controller.is_active)
    driver = broker.services.controller._driver
    assert driver is not None
    for text in ("true", "false"):
        await alter(broker, BROKER, "", {"unclean.leader.election.enable": text})
        assert driver._core._office.settings.unclean_leader_election_enable is (text == "true")


def test_the_values_that_are_tried_are_not_the_defaults() -> None:
    assert TOPIC_KEYS.keys() - OTHERS.keys() == {"unclean.leader.election.enable"}
    assert all(TOPIC_KEYS[of_topic].broker_key == key for key, of_topic in AT_BROKERS.items())
    assert all(TOPIC_KEYS[name].parse(text) != TOPIC_KEYS[name].default for name, text in OTHERS.items())
