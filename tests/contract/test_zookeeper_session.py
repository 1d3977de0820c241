"""What only the session on a real ZooKeeper goes through: no server, a killed or paused one, a broken conversation."""

import asyncio
import logging
import struct
from pathlib import Path

import pytest

from barnabas.launcher.sockets import free_port
from barnabas.launcher.zookeeper import LocalZooKeeper
from tests.support.zookeeper import new_zookeeper
from tests.support.zookeeper_worlds import Events, Proxy
from zk_schema.ops import Create, OutcomeUnknown, SessionLost, Set, WriteForbidden, ZooKeeperUnreachable
from zk_schema.port import DataChanged, Disconnected, Expired, Resync
from zk_schema.session import KazooSession, split_connect_string


def session_on(connect: str, *, session_timeout_ms: int = 4_000) -> tuple[KazooSession, Events]:
    session, events = KazooSession(connect, session_timeout_ms=session_timeout_ms), Events()
    session.listen(events)
    return session, events


async def test_without_a_server_it_waits_says_so_and_gives_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zk_schema.session._STILL_WAITING_S", 0.1)
    session, events = session_on(f"127.0.0.1:{free_port()}/chroot")
    with caplog.at_level(logging.INFO), pytest.raises(ZooKeeperUnreachable, match="within 300 ms"):
        await session.open(timeout_ms=300)
    waiting = [record.message for record in caplog.records if "no session after" in record.message]
    assert len(waiting) == 2
    assert not any(record.name.endswith("kazoo") for record in caplog.records)
    assert events.all == []
    with pytest.raises(SessionLost):
        await session.get("/")


async def test_a_server_that_comes_late_is_found(tmp_path: Path) -> None:
    zookeeper = new_zookeeper(tmp_path, port=free_port())
    session, events = session_on(zookeeper.connect_string)
    opening = asyncio.create_task(session.open(timeout_ms=30_000))
    await asyncio.wait([opening], timeout=0.1)
    with zookeeper:
        await opening
        assert events.all == [Resync(session.session_id, new_session=True)]
        await session.close()


async def test_names_that_do_not_resolve_are_tried_on(zookeeper_process: LocalZooKeeper) -> None:
    session, _ = session_on(f"no-such-host.invalid:2181,{zookeeper_process.connect_string}")
    await session.open(timeout_ms=20_000)
    await session.close()
    session, _ = session_on("no-such-host.invalid:2181")
    with pytest.raises(ZooKeeperUnreachable):
        await session.open(timeout_ms=100)


async def test_the_chroot_is_made_with_all_above_it(chroot: str) -> None:
    session, _ = session_on(f"{chroot}/deep/er")
    await session.open(timeout_ms=20_000)
    await session.write(Create("/a", b"x", sequential=True))
    above, _ = session_on(chroot)
    await above.open(timeout_ms=20_000)
    assert await above.children("/deep/er") == ["a0000000000"]
    assert await session.children("/", watch=True) == ["a0000000000"]
    await session.close()
    await above.close()


async def test_an_ephemeral_chroot_cannot_be_built_upon(chroot: str) -> None:
    owner, _ = session_on(chroot)
    await owner.open(timeout_ms=20_000)
    await owner.write(Create("/e", ephemeral=True))
    session, _ = session_on(f"{chroot}/e/below")
    with pytest.raises(WriteForbidden):
        await session.open(timeout_ms=20_000)
    await owner.close()


async def test_a_server_that_takes_the_connection_and_says_nothing_does_not_cost_the_session(
    zookeeper_process: LocalZooKeeper,
) -> None:
    host, _, port = zookeeper_process.connect_string.rpartition(":")
    proxy = Proxy(host, int(port))
    session, events = session_on(f"127.0.0.1:{await proxy.start()}", session_timeout_ms=6_000)
    await session.open(timeout_ms=20_000)
    session_id = session.session_id
    # What is swallowed stays so after `restore`: only another connection can go on.
    proxy.withhold(requests=True, answers=True)
    proxy.break_connections()
    async with asyncio.timeout(20):
        await proxy.swallowed.wait()
    proxy.restore()
    assert await events.first(Resync, after=1) == Resync(session_id, new_session=False)
    await session.close()
    proxy.close()


async def test_after_a_kill_of_the_server_the_session_goes_on(tmp_path: Path) -> None:
    with new_zookeeper(tmp_path) as zookeeper:
        session, events = session_on(zookeeper.connect_string, session_timeout_ms=20_000)
        await session.open(timeout_ms=20_000)
        await session.write(Create("/a", b"1"), Create("/e", ephemeral=True))
        session_id = session.session_id
        await asyncio.to_thread(zookeeper.kill)
        await events.first(Disconnected)
        waiting = asyncio.create_task(session.get("/a", watch=True))
        await asyncio.to_thread(zookeeper.start)
        assert (await events.first(Resync, after=1)) == Resync(session_id, new_session=False)
        znode = await waiting
        assert znode is not None
        assert znode.data == b"1"
        assert await session.exists("/e") is not None
        await session.write(Set("/a", b"2"))
        assert events.all[-1] == DataChanged("/a")
        await session.close()


async def test_a_server_that_hangs_costs_the_connection_and_then_the_session(tmp_path: Path) -> None:
    with new_zookeeper(tmp_path) as zookeeper:
        session, events = session_on(zookeeper.connect_string, session_timeout_ms=1_000)
        other, other_events = session_on(zookeeper.connect_string, session_timeout_ms=60_000)
        await session.open(timeout_ms=20_000)
        await other.open(timeout_ms=20_000)
        await session.write(Create("/e", ephemeral=True))
        zookeeper.pause()
        write = asyncio.create_task(session.write(Create("/a")))
        await events.first(Disconnected)
        with pytest.raises(OutcomeUnknown):
            await write
        zookeeper.resume()
        # Back in time or not, there is one Resync, and the ephemeral znode is there only with its session.
        resync = await events.first(Resync, after=1)
        assert (await other.exists("/e") is None) == resync.new_session
        assert any(isinstance(event, Expired) for event in events.all) == resync.new_session
        assert not any(isinstance(event, Expired) for event in other_events.all)
        await session.close()
        await other.close()


async def test_a_conversation_that_breaks_the_protocol_leads_to_a_new_client(
    zookeeper_process: LocalZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kazoo's thread dies of an answer that it cannot read; the session must not stay dead (KAFKA-5473)."""
    monkeypatch.setattr("zk_schema.session._RENEWAL_S", 0.05)
    conversations = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal conversations
        conversations += 1
        if conversations <= 2:
            await reader.readexactly(49)
            writer.write(struct.pack(">iiiqi16s?", 37, 0, 4000, 77, 16, bytes(16), False))
            # A reply of one byte has no header.
            writer.write(struct.pack(">i", 1) + b"\0")
            await writer.drain()
            await reader.read()
            writer.close()
            return
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", zookeeper_process.port)
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    session, events = session_on(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await session.open(timeout_ms=20_000)
    while session.session_id in {0, 77}:
        await events.first(Resync, after=len(events.all))
    kinds = [type(event) for event in events.all]
    assert kinds == [Resync, Disconnected, Expired, Resync, Disconnected, Expired, Resync]
    assert await session.exists("/") is not None
    await session.close()
    server.close()


@pytest.mark.parametrize(
    ("connect", "hosts", "chroot"),
    [
        ("h:1", "h:1", ""),
        ("h", "h", ""),
        ("h:1,i:2/a/b", "h:1,i:2", "/a/b"),
        ("h:1/", "h:1", ""),
        ("h:1/a/", "h:1", "/a"),
        ("[::1]:2181,[::1]", "[::1]:2181,[::1]", ""),
    ],
)
def test_a_connect_string_has_hosts_and_perhaps_a_chroot(connect: str, hosts: str, chroot: str) -> None:
    assert split_connect_string(connect) == (hosts, chroot)


@pytest.mark.parametrize("connect", ["", "/a", "h:1,", "h:x", "h:0", "h:70000", ":1", "h:1/a//b", "h:1/./b"])
def test_a_connect_string_that_cannot_be_is_refused(connect: str) -> None:
    with pytest.raises(ValueError, match=r"is no path|is no port|is missing"):
        split_connect_string(connect)
