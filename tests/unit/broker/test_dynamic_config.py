"""A broker's configuration as of now, and how it and its topics follow what stands in ZooKeeper."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from barnabas.protocol.ids import TopicPartition
from broker.config import BrokerConfig
from broker.dynamic_config import DynamicConfig
from tests.support.virtual_time import virtual_time
from tests.unit.broker.small_broker import make_config
from tests.unit.broker.test_throttled_replication import Changing
from zk_schema import paths
from zk_schema.ops import Create, SessionLost, Set, Znode

T0 = TopicPartition("t", 0)


def test_who_listens_is_told_before_and_after_of_each_change_and_of_nothing_else() -> None:
    dynamic_config = DynamicConfig(make_config({"log.segment.bytes": "1000"}))
    told: list[tuple[int, int]] = []

    def listen(old: BrokerConfig, new: BrokerConfig) -> None:
        assert dynamic_config.current is new
        told.append((old.values["log.segment.bytes"], new.values["log.segment.bytes"]))  # type: ignore[arg-type]

    dynamic_config.listen(listen)
    assert dynamic_config.apply(of_all_brokers={}, of_this_broker={"log.segment.bytes": "2000"})
    assert not dynamic_config.apply(of_all_brokers={}, of_this_broker={"log.segment.bytes": "2000"})
    assert not dynamic_config.apply(of_all_brokers={"broker.id": "7"}, of_this_broker={"log.segment.bytes": "2000"})
    assert dynamic_config.apply(of_all_brokers={}, of_this_broker={})
    assert told == [(1000, 2000), (2000, 1000)]


def test_what_is_left_out_is_told_once_for_as_long_as_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    dynamic_config = DynamicConfig(make_config())
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        dynamic_config.apply(of_all_brokers={"broker.id": "7"}, of_this_broker={})
    assert len(caplog.messages) == 1
    assert "broker.id" in caplog.messages[0]
    dynamic_config.apply(of_all_brokers={}, of_this_broker={})
    dynamic_config.apply(of_all_brokers={"broker.id": "7"}, of_this_broker={})
    assert len(caplog.messages) == 2


def test_thousands_of_keys_that_there_are_not_take_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    many = {f"no.such.key.{number}": "x" * 10_000 for number in range(5_000)}
    assert not DynamicConfig(make_config()).apply(of_all_brokers=many, of_this_broker={})
    assert len(caplog.messages) < 30
    assert "4980 more" in caplog.messages[-1]


@pytest.fixture
async def changing() -> AsyncIterator[Changing]:
    made = await Changing({"log.segment.bytes": "1000"}).open()
    yield made
    made.task.cancel()


def segment_bytes(changing: Changing, number: int = 0) -> int:
    return changing.world.partition(TopicPartition("t", number)).log.config.segment_bytes


async def test_topics_follow_the_settings_of_brokers_at_once(changing: Changing) -> None:
    assert segment_bytes(changing) != 2000
    await changing.set_broker(None, log_segment_bytes="2000")
    assert segment_bytes(changing) == segment_bytes(changing, 1) == 2000
    await changing.set_broker(log_segment_bytes="3000")
    assert segment_bytes(changing) == 3000
    await changing.set_topic(segment_bytes="4000")
    assert segment_bytes(changing) == 4000
    await changing.set_broker(log_segment_bytes="5000")
    assert segment_bytes(changing) == 4000
    await changing.set_topic()
    assert segment_bytes(changing) == 5000
    await changing.set_broker()
    await changing.set_broker(None)
    assert segment_bytes(changing) == 1000


async def test_a_bad_value_in_zookeeper_harms_nobody(changing: Changing) -> None:
    await changing.set_broker(log_segment_bytes="2000")
    await changing.write(paths.broker_config(1), {"log_segment_bytes": "x", "message_max_bytes": "77"})
    await changing.notify(paths.broker_entity(1))
    partition = changing.world.partition(T0)
    assert (partition.log.config.segment_bytes, partition.log.config.max_message_bytes) == (1000, 77)
    await changing.zk.write(Set(paths.broker_config(1), b"{"))
    await changing.notify(paths.broker_entity(1))
    assert partition.log.config.max_message_bytes != 77


@virtual_time
async def test_topics_follow_also_where_the_session_ends_before_they_were_read() -> None:
    changing = await Changing().open()
    zk, get = changing.zk, changing.zk.get
    losses = ["planted"]

    async def losing(path: str, *, watch: bool = False) -> Znode | None:
        if path == paths.topic_config("t") and losses:
            raise SessionLost(losses.pop())
        return await get(path, watch=watch)

    zk.get = losing  # type: ignore[method-assign]
    await changing.set_broker(log_segment_bytes="2000")
    assert not losses
    assert segment_bytes(changing) != 2000
    zk._server.disconnect(zk)
    await asyncio.sleep(60)
    assert segment_bytes(changing) == segment_bytes(changing, 1) == 2000
    changing.task.cancel()


async def test_settings_that_were_read_for_the_first_replica_of_all_are_read_again(changing: Changing) -> None:
    for number in range(2):
        await changing.world.stop(-2, at=TopicPartition("t", number))
    before = changing.world.replicas.configured
    await changing.set_broker(log_segment_bytes="2000")
    assert changing.world.replicas.partitions() == []
    assert changing.world.replicas.configured > before


async def test_who_wrote_a_notification_can_wait_until_it_was_heard(changing: Changing) -> None:
    await changing.set_broker(log_segment_bytes="2000")
    (name,) = await changing.zk.children(paths.CONFIG_CHANGES) or []
    path = f"{paths.CONFIG_CHANGES}/{name}"
    assert await changing.changes.until_heard(path, timeout_ms=1)
    assert not await changing.changes.until_heard(path[:-1] + "9", timeout_ms=1)


@virtual_time
async def test_notifications_go_when_everybody_had_time_to_hear_them() -> None:
    changing = await Changing().open()
    left = []
    for minutes in (14, 2, 14, 20, 0):
        await changing.set_broker(log_segment_bytes="2000")
        left.append(await changing.zk.children(paths.CONFIG_CHANGES) or [])
        await asyncio.sleep(60 * minutes)
    assert [[int(name[-10:]) for name in names] for names in left] == [[0], [0, 1], [1, 2], [2, 3], [4]]
    changing.task.cancel()


async def test_a_notification_of_nobody_known_changes_nothing(changing: Changing) -> None:
    for entity in ("brokers/2", "brokers/x", "clients/c", "users/u", "topics/another", "brokers"):
        await changing.zk.write(
            Create(paths.CONFIG_CHANGE_PREFIX, f'{{"version":2,"entity_path":"{entity}"}}'.encode(), sequential=True)
        )
        await changing.settle()
    assert segment_bytes(changing) != 2000
