"""What a ZooKeeper session promises, held against the fake and against a real ZooKeeper."""

import asyncio

import pytest

from tests.support.zookeeper_worlds import World
from zk_schema.ops import (
    MAX_WRITE_BYTES,
    Check,
    Create,
    Created,
    Delete,
    Done,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    Op,
    OutcomeUnknown,
    SessionLost,
    Set,
    VersionMoved,
    WriteForbidden,
    WriteRefused,
    Written,
)
from zk_schema.port import ChildrenChanged, DataChanged, Disconnected, Expired, Resync


async def test_a_znode_is_made_read_changed_and_removed(world: World) -> None:
    zk = (await world.client()).zk
    assert await zk.get("/a") is None
    assert await zk.exists("/a") is None
    assert await zk.children("/a") is None
    assert await zk.write(Create("/a", b"1")) == [Created("/a")]
    made = await zk.get("/a")
    assert made is not None
    assert (made.data, made.stat.version, made.stat.ephemeral_owner) == (b"1", 0, 0)
    assert made.stat.czxid == made.stat.mzxid > 0
    (written,) = await zk.write(Set("/a", b"2", 0))
    changed = await zk.get("/a")
    assert changed is not None
    assert written == Written(changed.stat)
    assert (changed.data, changed.stat.version, changed.stat.czxid) == (b"2", 1, made.stat.czxid)
    assert changed.stat.mzxid > made.stat.mzxid
    assert await zk.write(Delete("/a", 1)) == [Done()]
    assert await zk.exists("/a") is None


async def test_children_are_sorted_and_counted(world: World) -> None:
    zk = (await world.client()).zk
    for name in ("b", "a", "c"):
        await zk.write(Create(f"/{name}"))
    await zk.write(Delete("/b"))
    names = await zk.children("/")
    assert names is not None
    assert [name for name in names if name != "zookeeper"] == ["a", "c"]
    await zk.write(Create("/a/x"))
    await zk.write(Create("/a/y"))
    await zk.write(Delete("/a/x"))
    stat = await zk.exists("/a")
    assert stat is not None
    assert (stat.children_count, stat.children_version, stat.version) == (1, 3, 0)


async def test_null_data_is_read_as_empty_and_can_be_set_in_the_same_multi(world: World) -> None:
    zk = (await world.client()).zk
    await zk.write(Create("/null", None))
    await zk.write(Create("/empty", b""))
    for path in ("/null", "/empty"):
        znode = await zk.get(path)
        assert znode is not None
        assert znode.data == b""
    created, written = await zk.write(Create("/b", None, ephemeral=True), Set("/b", b"x", 0))
    assert created == Created("/b")
    assert isinstance(written, Written)
    assert written.stat.version == 1
    assert (written.stat.ephemeral_owner, written.stat.czxid) == (zk.session_id, written.stat.mzxid)


REFUSED: list[tuple[type[WriteRefused], Op]] = [
    (NodeMissing, Create("/none/x")),
    (NodeMissing, Set("/none", b"")),
    (NodeMissing, Delete("/none")),
    (NodeMissing, Check("/none", 0)),
    (NodeExists, Create("/a")),
    (VersionMoved, Set("/a", b"", 5)),
    (VersionMoved, Delete("/a", 5)),
    (VersionMoved, Check("/a", 5)),
    (NodeHasChildren, Delete("/a")),
    (WriteForbidden, Create("/ephemeral/x")),
    (WriteForbidden, Create("/a/")),
    (WriteForbidden, Create("/a/../b")),
    (WriteForbidden, Create("/a\x00")),
    (WriteForbidden, Set("/a", bytes(MAX_WRITE_BYTES))),
]


@pytest.mark.parametrize(("error", "operation"), REFUSED, ids=lambda each: getattr(each, "__name__", None))
async def test_what_cannot_be_done_is_refused_by_name_alone_and_within_a_multi(
    world: World, error: type[WriteRefused], operation: Op
) -> None:
    zk = (await world.client()).zk
    await zk.write(Create("/a", b"1"), Create("/a/x"), Create("/a/y"), Create("/ephemeral", ephemeral=True))
    with pytest.raises(error) as alone:
        await zk.write(operation)
    assert (type(alone.value), alone.value.index, alone.value.operation) == (error, 0, operation)
    with pytest.raises(error) as within:
        await zk.write(Create("/before"), Set("/a", b"2"), Delete("/a/x"), operation, Create("/after"))
    assert (within.value.index, within.value.operation) == (3, operation)
    assert await zk.exists("/before") is None
    assert await zk.exists("/after") is None
    assert await zk.children("/a") == ["x", "y"]
    znode = await zk.get("/a")
    assert znode is not None
    assert (znode.data, znode.stat.version) == (b"1", 0)


async def test_a_multi_is_one_step_and_its_operations_see_each_other(world: World) -> None:
    zk = (await world.client()).zk
    await zk.write(Create("/fence", b""))
    results = await zk.write(
        Check("/fence", 0), Create("/p"), Create("/p/c", b"1"), Set("/p/c", b"2", 0), Delete("/p/c", 1), Delete("/p")
    )
    assert [type(result) for result in results] == [Done, Created, Created, Written, Done, Done]
    await zk.write(Create("/x"), Create("/y"))
    x, y = await zk.exists("/x"), await zk.exists("/y")
    assert x is not None
    assert y is not None
    assert x.czxid == y.czxid


async def test_any_version_matches_minus_one(world: World) -> None:
    zk = (await world.client()).zk
    await zk.write(Create("/a"))
    for _ in range(3):
        await zk.write(Set("/a", b"x"))
    await zk.write(Check("/a", -1), Set("/a", b"y", -1))
    await zk.write(Delete("/a", -1))
    assert await zk.exists("/a") is None


async def test_sequential_names_count_every_creation_under_the_parent(world: World) -> None:
    zk = (await world.client()).zk
    await zk.write(Create("/q"))
    assert await zk.write(Create("/q/n_", sequential=True)) == [Created("/q/n_0000000000")]
    await zk.write(Create("/q/plain"))
    await zk.write(Delete("/q/n_0000000000"))
    results = await zk.write(Create("/q/n_", b"", sequential=True), Create("/q/m_", ephemeral=True, sequential=True))
    assert results == [Created("/q/n_0000000002"), Created("/q/m_0000000003")]


async def test_ephemeral_znodes_go_when_their_session_closes(world: World) -> None:
    owner, other = await world.client(), await world.client()
    await owner.zk.write(Create("/e", b"x", ephemeral=True), Create("/stays"))
    stat = await other.zk.exists("/e", watch=True)
    assert stat is not None
    assert stat.ephemeral_owner == owner.zk.session_id
    await owner.zk.close()
    assert (await other.events.first(DataChanged)).path == "/e"
    assert await other.zk.exists("/e") is None
    assert await other.zk.exists("/stays") is not None
    with pytest.raises(SessionLost):
        await owner.zk.get("/stays")


async def test_a_watch_fires_once_and_only_for_its_kind(world: World) -> None:
    watcher, writer = await world.client(), await world.client()
    await writer.zk.write(Create("/a"))
    await watcher.zk.get("/a", watch=True)
    await watcher.zk.children("/a", watch=True)
    await watcher.zk.exists("/a", watch=True)  # the same watch again
    await writer.zk.write(Create("/a/x"))
    await writer.zk.write(Create("/a/y"))
    await writer.zk.write(Set("/a", b"1"))
    await writer.zk.write(Set("/a", b"2"))
    await writer.zk.write(Create("/end"))
    await watcher.zk.exists("/end")
    assert watcher.events.all[1:] == [ChildrenChanged("/a"), DataChanged("/a")]


async def test_a_missing_znode_can_be_watched(world: World) -> None:
    watcher, writer = await world.client(), await world.client()
    assert await watcher.zk.get("/a", watch=True) is None
    assert await watcher.zk.exists("/b", watch=True) is None
    assert await watcher.zk.children("/c", watch=True) is None
    for path in ("/a", "/b", "/c"):
        await writer.zk.write(Create(path))
    assert await watcher.zk.exists("/c") is not None
    assert watcher.events.all[1:] == [DataChanged("/a"), DataChanged("/b")]


async def test_a_removal_fires_data_and_child_watches_of_the_znode_and_of_its_parent(world: World) -> None:
    watcher, writer = await world.client(), await world.client()
    await writer.zk.write(Create("/p"), Create("/p/c"))
    await watcher.zk.children("/p", watch=True)
    await watcher.zk.children("/p/c", watch=True)
    await watcher.zk.get("/p/c", watch=True)
    await writer.zk.write(Delete("/p/c"))
    assert await watcher.zk.exists("/p/c") is None
    assert watcher.events.all[1:] == [DataChanged("/p/c"), ChildrenChanged("/p/c"), ChildrenChanged("/p")]


async def test_the_event_comes_before_any_read_that_shows_the_change(world: World) -> None:
    watcher, writer = await world.client(), await world.client()
    await writer.zk.write(Create("/a", b"0"))
    for round_number in range(1, 30):
        before = len(watcher.events.all)
        await watcher.zk.get("/a", watch=True)
        write = asyncio.create_task(writer.zk.write(Set("/a", str(round_number).encode())))
        while True:
            znode = await watcher.zk.get("/a")
            assert znode is not None
            if znode.data == str(round_number).encode():
                break
        assert watcher.events.all[before:] == [DataChanged("/a")]
        await write


async def test_own_writes_fire_own_watches_before_they_are_answered(world: World) -> None:
    client = await world.client()
    await client.zk.get("/a", watch=True)
    await client.zk.write(Create("/a"))
    assert client.events.all[1:] == [DataChanged("/a")]


async def test_a_listener_that_ended_hears_nothing_more(world: World) -> None:
    client = await world.client()
    heard: list[object] = []
    end = client.zk.listen(heard.append)
    end()
    end()
    await client.zk.get("/a", watch=True)
    await client.zk.write(Create("/a"))
    assert heard == []


@pytest.mark.parametrize("max_in_flight", [1, 3, 10])
async def test_pipelined_writes_are_done_in_the_order_of_the_calls(world: World, max_in_flight: int) -> None:
    client = await world.client(max_in_flight=max_in_flight)
    await client.zk.write(Create("/s"))
    writes = [client.zk.write(Create(f"/s/{number}-", sequential=True)) for number in range(50)]
    results = await asyncio.gather(*writes)
    assert [result[0] for result in results] == [Created(f"/s/{number}-{number:010d}") for number in range(50)]


async def test_a_refused_write_among_pipelined_ones_stops_none_of_the_others(world: World) -> None:
    zk = (await world.client()).zk
    results = await asyncio.gather(
        zk.write(Create("/a")), zk.write(Create("/a")), zk.write(Create("/a/b")), return_exceptions=True
    )
    assert [type(result) for result in results] == [list, NodeExists, list]


async def test_a_write_that_arrived_but_was_not_answered_has_an_unknown_outcome(world: World) -> None:
    client, other = await world.client(), await world.client()
    await other.zk.exists("/a", watch=True)
    world.withhold(client, answers=True)
    write = asyncio.create_task(client.zk.write(Create("/a")))
    await other.events.first(DataChanged)
    world.cut(client)
    with pytest.raises(OutcomeUnknown):
        await write
    assert not client.zk.is_connected
    world.restore(client)
    await client.events.first(Resync, after=1)
    assert await client.zk.exists("/a") is not None


async def test_a_write_that_did_not_arrive_has_an_unknown_outcome_and_is_not_sent_again(world: World) -> None:
    client = await world.client()
    world.withhold(client, requests=True)
    write = asyncio.create_task(client.zk.write(Create("/a")))
    await asyncio.wait([write], timeout=0.05)
    world.cut(client)
    with pytest.raises(OutcomeUnknown):
        await write
    world.restore(client)
    await client.events.first(Resync, after=1)
    assert await client.zk.exists("/a") is None


async def test_after_a_cut_the_session_lives_on_with_one_resync_and_no_watches(world: World) -> None:
    client, other = await world.client(), await world.client()
    await client.zk.write(Create("/a"), Create("/e", ephemeral=True))
    await client.zk.get("/a", watch=True)
    session_id = client.zk.session_id
    assert client.events.all == [Resync(session_id, new_session=True)]
    world.cut(client)
    await client.events.first(Disconnected)
    assert client.zk.session_id == session_id
    await other.zk.write(Set("/a", b"1"))
    world.restore(client)
    await client.events.first(Resync, after=1)
    await other.zk.write(Set("/a", b"2"))
    znode = await client.zk.get("/a", watch=True)
    assert znode is not None
    assert znode.data == b"2"
    assert await client.zk.exists("/e") is not None
    assert client.events.all[1:] == [Disconnected(), Resync(session_id, new_session=False)]
    await other.zk.write(Set("/a", b"3"))
    await client.events.first(DataChanged)


async def test_requests_made_while_the_connection_is_away_wait_for_it_in_order(world: World) -> None:
    client = await world.client()
    await client.zk.write(Create("/s"))
    world.cut(client)
    await client.events.first(Disconnected)
    writes = [asyncio.create_task(client.zk.write(Create(f"/s/{n}-", sequential=True))) for n in range(20)]
    read = asyncio.create_task(client.zk.children("/s"))
    world.restore(client)
    results = await asyncio.gather(*writes)
    assert [result[0] for result in results] == [Created(f"/s/{n}-{n:010d}") for n in range(20)]
    names = await read
    assert names is not None
    assert len(names) == 20


async def test_a_read_under_way_when_the_connection_goes_is_read_again(world: World) -> None:
    client = await world.client()
    await client.zk.write(Create("/a", b"x"))
    world.withhold(client, answers=True)
    reads = [asyncio.create_task(read) for read in (client.zk.get("/a"), client.zk.get("/a", watch=True))]
    await asyncio.wait(reads, timeout=0.05)
    world.cut(client)
    await client.events.first(Disconnected)
    world.restore(client)
    for znode in await asyncio.gather(*reads):
        assert znode is not None
        assert znode.data == b"x"
    await client.zk.write(Set("/a", b"y"))
    assert client.events.all[-1] == DataChanged("/a")


async def test_an_expired_session_loses_its_znodes_and_a_new_one_follows(world: World) -> None:
    client, other = await world.client(), await world.client()
    await client.zk.write(Create("/e", ephemeral=True))
    await other.zk.exists("/e", watch=True)
    old_id = client.zk.session_id
    await world.expire(client)
    await other.events.first(DataChanged)
    resync = await client.events.new_session()
    assert resync.session_id == client.zk.session_id != old_id
    assert client.zk.previous_session_id == old_id
    assert client.events.all[1:] == [Disconnected(), Expired(), resync]
    assert await client.zk.exists("/e") is None
    await client.zk.write(Create("/e", ephemeral=True))


async def test_requests_waiting_when_the_session_expires_are_lost(world: World) -> None:
    client = await world.client()
    world.cut(client)
    await client.events.first(Disconnected)
    write, read = asyncio.create_task(client.zk.write(Create("/a"))), asyncio.create_task(client.zk.get("/a"))
    await asyncio.wait([write, read], timeout=0.01)
    await world.expire(client)
    world.restore(client)
    await client.events.first(Expired)
    for lost in (write, read):
        with pytest.raises(SessionLost):
            await lost
    await client.events.new_session()
    assert await client.zk.exists("/a") is None


async def test_a_closed_session_takes_no_requests_and_closing_twice_is_fine(world: World) -> None:
    client = await world.client()
    write = asyncio.create_task(client.zk.write(Create("/a")))
    await asyncio.wait([write], timeout=0.0)
    await client.zk.close()
    await client.zk.close()
    assert await write == [Created("/a")]
    with pytest.raises(SessionLost):
        await client.zk.write(Create("/b"))
    assert client.zk.session_id == 0
    assert not client.zk.is_connected


async def test_a_caller_that_gave_up_leaves_nothing_behind(world: World) -> None:
    client = await world.client(max_in_flight=1)
    slow = [asyncio.create_task(client.zk.write(Create(f"/{number}"))) for number in range(5)]
    await asyncio.wait(slow, timeout=0.0)
    slow[3].cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert await client.zk.exists("/4") is not None
    assert await client.zk.exists("/3") is None
