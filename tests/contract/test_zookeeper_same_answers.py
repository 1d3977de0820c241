"""The fake against the real ZooKeeper: the same random writes get the same answers and leave the same znodes."""

import random
from collections.abc import AsyncIterator

import pytest

from tests.support.zookeeper_worlds import MemoryWorld, RealWorld
from zk_schema.memory import MemorySession
from zk_schema.ops import Check, Create, Created, Delete, Op, Set, WriteRefused, Written
from zk_schema.session import KazooSession

PATHS = ("/a", "/b", "/a/x", "/a/y", "/a/x/deep", "/e", "/e/x")
Session = MemorySession | KazooSession


def any_operation(chance: random.Random) -> Op:
    path = chance.choice(PATHS)
    version = chance.choice((-1, -1, 0, 1, 2))
    match chance.choice(("create", "create", "create", "sequential", "set", "set", "delete", "check")):
        case "create":
            return Create(path, chance.choice((None, b"", b"x")), ephemeral=path == "/e" or chance.random() < 0.1)
        case "sequential":
            return Create(path, b"s", sequential=True)
        case "set":
            return Set(path, chance.randbytes(3), version)
        case "delete":
            return Delete(path, version)
    return Check(path, version)


async def outcome(session: Session, operations: list[Op]) -> object:
    try:
        results = await session.write(*operations)
    except WriteRefused as error:
        return type(error), error.index, error.operation
    return [
        result.path
        if isinstance(result, Created)
        else (result.stat.version, result.stat.children_version, result.stat.children_count)
        if isinstance(result, Written)
        else "done"
        for result in results
    ]


async def dump(session: Session, path: str = "/") -> dict[str, object]:
    """Every znode below `path` with what does not depend on when and by whom it was made."""
    found: dict[str, object] = {}
    for name in await session.children(path) or []:
        child = f"{path.rstrip('/')}/{name}"
        znode = await session.get(child)
        assert znode is not None
        stat = znode.stat
        ours = stat.ephemeral_owner in (0, session.session_id)
        found[child] = (
            znode.data,
            stat.version,
            stat.children_version,
            stat.children_count,
            stat.ephemeral_owner > 0,
            ours,
        )
        found |= await dump(session, child)
    return found


@pytest.fixture
async def both(chroot: str) -> AsyncIterator[tuple[Session, Session]]:
    worlds = MemoryWorld(), RealWorld(chroot)
    memory, real = [(await world.client()).zk for world in worlds]
    yield memory, real
    for world in worlds:
        await world.close()


async def test_random_multis_have_the_same_outcome(both: tuple[Session, Session], seed: int) -> None:
    memory, real = both
    chance = random.Random(seed)
    refused = 0
    for step in range(400):
        operations = [any_operation(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
        here, there = await outcome(memory, operations), await outcome(real, operations)
        assert here == there, f"step {step}: {operations}"
        refused += isinstance(here, tuple)
        if step % 20 == 0:
            assert await dump(memory) == await dump(real), f"after step {step}"
    assert await dump(memory) == await dump(real)
    assert 40 < refused < 390, "of 400: both ways are seen"
