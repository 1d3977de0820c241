"""Many writers and readers while connections are cut and a session ends: nobody hangs, and every answer was true."""

import asyncio
import random
from collections import defaultdict

from tests.support.zookeeper_worlds import Client, World
from zk_schema.ops import Create, OutcomeUnknown, SessionLost
from zk_schema.port import Resync

WRITERS, CUTS = 6, 12
Outcomes = dict[str, set[str]]


async def writes(client: Client, writer: int, outcomes: Outcomes, stop: asyncio.Event) -> int:
    """How many writes were tried."""
    tried = 0
    while not stop.is_set():
        name = f"{writer}-{tried}"
        tried += 1
        try:
            await client.zk.write(Create(f"/s/{name}"))
            outcomes["done"].add(name)
        except OutcomeUnknown:
            outcomes["unknown"].add(name)
        except SessionLost:
            outcomes["not sent"].add(name)
            await session_is_there(client)
    return tried


async def reads(client: Client, stop: asyncio.Event) -> int:
    """How many reads were answered; none may fail but for want of a session."""
    answered = 0
    while not stop.is_set():
        try:
            assert await client.zk.children("/s", watch=True) is not None
            answered += 1
        except SessionLost:
            await session_is_there(client)
    return answered


async def session_is_there(client: Client) -> None:
    if client.zk.session_id == 0:
        await client.events.first(Resync, after=len(client.events.all))


async def cuts(world: World, client: Client, chance: random.Random) -> None:
    for number in range(CUTS):
        await asyncio.sleep(chance.random() * 0.03)
        before = len(client.events.all)
        if number == CUTS // 2:
            await world.expire(client)
        else:
            if chance.random() < 0.5:
                world.withhold(client, answers=chance.random() < 0.5, requests=chance.random() < 0.5)
                await asyncio.sleep(chance.random() * 0.01)
            world.cut(client)
            await asyncio.sleep(chance.random() * 0.01)
            world.restore(client)
        await client.events.first(Resync, after=before)


async def test_under_cuts_every_answer_is_true_and_none_is_missing(world: World, seed: int) -> None:
    client, other = await world.client(), await world.client()
    await other.zk.write(Create("/s"))
    outcomes: Outcomes = defaultdict(set)
    stop = asyncio.Event()
    writing = [asyncio.create_task(writes(client, n, outcomes, stop)) for n in range(WRITERS)]
    reading = [asyncio.create_task(reads(client, stop)) for _ in range(2)]
    async with asyncio.timeout(60):
        await cuts(world, client, random.Random(seed))
        stop.set()
        tried = sum(await asyncio.gather(*writing))
        assert min(await asyncio.gather(*reading)) > 0
    names = set(await other.zk.children("/s") or ())
    assert sum(map(len, outcomes.values())) == tried
    assert outcomes["done"] <= names
    assert not outcomes["not sent"] & names
    assert names <= outcomes["done"] | outcomes["unknown"]
    assert outcomes["unknown"]
    assert sum(isinstance(event, Resync) and event.new_session for event in client.events.all) == 2
