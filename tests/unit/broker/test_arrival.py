"""A broker serves nobody before it was told of the cluster as it stands in ZooKeeper."""

import asyncio

import pytest

from barnabas.protocol.ids import BrokerId, TopicPartition
from broker.arrival import arrive
from tests.support.virtual_time import turns, virtual_time
from tests.unit.broker.small_broker import SmallBroker
from zk_schema import paths
from zk_schema.ops import Create
from zk_schema.payloads import TopicAssignment

ME = BrokerId(1)
T0 = TopicPartition("t", 0)


async def arriving(**topics: int) -> tuple[SmallBroker, "asyncio.Task[None]"]:
    """Broker 1, which knows itself, on its way; ZooKeeper has these topics with so many partitions."""
    broker = await SmallBroker().open()
    for name, count in topics.items():
        assignment = TopicAssignment(dict.fromkeys(range(count), (ME,)))
        await broker.zk.write(Create(paths.topic(name), assignment.encode()))
    way = arrive(ME, zk=broker.zk, metadata=broker.view, held=[T0], session_timeout_ms=6_000, clock=broker.clock)
    return broker, asyncio.create_task(way)


@virtual_time
async def test_every_partition_is_waited_for() -> None:
    broker, way = await arriving(t=2, u=1)
    broker.announce("t", 1)
    broker.announce("u", 1)
    await turns(20)
    assert not way.done()
    broker.announce("t", 2)
    await way


@virtual_time
async def test_a_topic_that_goes_and_one_that_cannot_be_read_are_not_waited_for() -> None:
    broker, way = await arriving(t=1)
    way.cancel()
    await broker.zk.write(Create(paths.topic("gone"), TopicAssignment({0: (ME,)}).encode()))
    await broker.zk.write(Create(paths.delete_topic("gone"), None))
    await broker.zk.write(Create(paths.topic("junk"), b"}{"))
    broker.announce("t", 1)
    before = asyncio.get_running_loop().time()
    await arrive(ME, zk=broker.zk, metadata=broker.view, held=[T0], session_timeout_ms=6_000, clock=broker.clock)
    assert asyncio.get_running_loop().time() - before < 1


@virtual_time
async def test_what_nobody_tells_of_is_waited_for_five_seconds() -> None:
    _, way = await arriving(never=1)
    before = asyncio.get_running_loop().time()
    way.cancel()
    broker, way = await arriving(never=1, t=1)
    broker.announce("t", 1)
    await way
    assert asyncio.get_running_loop().time() - before == pytest.approx(5, abs=0.2)


@virtual_time
async def test_nobody_is_served_before_a_controller_has_spoken(caplog: pytest.LogCaptureFixture) -> None:
    broker, way = await arriving()
    way.cancel()
    stranger = BrokerId(9)
    way = asyncio.create_task(
        arrive(stranger, zk=broker.zk, metadata=broker.view, held=[], session_timeout_ms=6_000, clock=broker.clock)
    )
    await asyncio.sleep(60)
    assert not way.done(), "no controller has told that broker 9 lives"
    assert caplog.messages.count("broker 9: no word from a controller within 8000 ms; waiting on") == 7
    way.cancel()
