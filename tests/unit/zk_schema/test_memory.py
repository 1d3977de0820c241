"""Faults of the fake that the real one cannot be made to show at will."""

import asyncio
import random

import pytest

from tests.support.zookeeper_worlds import Events
from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.ops import Create, Created, OutcomeUnknown, ZooKeeperUnreachable
from zk_schema.port import DataChanged, Disconnected, Expired, Resync


async def opened(server: MemoryZooKeeper, *, session_timeout_ms: int = 10_000) -> tuple[MemorySession, Events]:
    session, events = MemorySession(server, session_timeout_ms=session_timeout_ms), Events()
    session.listen(events)
    await session.open()
    return session, events


@pytest.mark.parametrize("applied", [True, False])
async def test_requests_under_way_at_a_cut_are_done_or_not_as_told(applied: bool) -> None:
    server = MemoryZooKeeper()
    session, events = await opened(server)
    write = asyncio.create_task(session.write(Create("/a")))
    await asyncio.sleep(0)
    assert server.tree.get("/a") is None
    server.disconnect(session, apply_under_way=applied)
    with pytest.raises(OutcomeUnknown):
        await write
    await events.first(Resync, after=1)
    assert (await session.get("/a") is not None) == applied


async def test_a_session_that_stays_away_for_its_timeout_expires_by_itself() -> None:
    server = MemoryZooKeeper()
    session, events = await opened(server, session_timeout_ms=20)
    other, other_events = await opened(server)
    await session.write(Create("/e", ephemeral=True))
    await other.exists("/e", watch=True)
    server.disconnect(session, hold=True)
    await other_events.first(DataChanged)
    assert [type(event) for event in events.all] == [Resync, Disconnected]
    server.release(session)
    await events.first(Resync, after=1)
    assert [type(event) for event in events.all] == [Resync, Disconnected, Expired, Resync]
    assert server.tree.get("/e") is None


async def test_no_session_expires_while_the_server_is_away() -> None:
    server = MemoryZooKeeper()
    session, events = await opened(server, session_timeout_ms=200)
    await session.write(Create("/e", ephemeral=True))
    server.stop()
    late = MemorySession(server)
    with pytest.raises(ZooKeeperUnreachable):
        await late.open(timeout_ms=300)
    server.start()
    await events.first(Resync, after=1)
    assert [type(event) for event in events.all] == [Resync, Disconnected, Resync]
    assert server.tree.get("/e") is not None


async def test_delays_of_any_length_reorder_nothing(seed: int) -> None:
    chance = random.Random(seed)
    server = MemoryZooKeeper(latency=lambda: chance.random() / 1000)
    session, _ = await opened(server)
    results = await asyncio.gather(*(session.write(Create(f"/{n}-", sequential=True)) for n in range(40)))
    assert [result[0] for result in results] == [Created(f"/{n}-{n:010d}") for n in range(40)]


async def test_a_closed_sessions_znodes_go_and_the_rest_stays() -> None:
    server = MemoryZooKeeper()
    session, _ = await opened(server)
    other, _ = await opened(server)
    await session.write(Create("/e", ephemeral=True), Create("/p"))
    await other.write(Create("/o", ephemeral=True))
    await session.close()
    assert [name for name in "eop" if server.tree.get(f"/{name}") is not None] == ["o", "p"]
