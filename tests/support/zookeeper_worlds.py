"""The two ZooKeepers of the contract suite behind one set of faults: the fake, and the real one through a proxy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pytest

from zk_schema.memory import MemorySession, MemoryZooKeeper
from zk_schema.port import Resync, ZooKeeperEvent
from zk_schema.session import KazooSession, split_connect_string

SESSION_TIMEOUT_MS = 4_000
OPEN_TIMEOUT_MS = 20_000
T = TypeVar("T")


class Events:
    """What a session told its listeners, in order."""

    def __init__(self) -> None:
        self.all: list[ZooKeeperEvent] = []
        self._changed = asyncio.Event()

    def __call__(self, event: ZooKeeperEvent) -> None:
        self.all.append(event)
        self._changed.set()

    async def first(self, kind: type[T], *, after: int = 0) -> T:
        """The first event of that kind from position `after` on; waits for it."""
        while True:
            for event in self.all[after:]:
                if isinstance(event, kind):
                    return event
            self._changed.clear()
            async with asyncio.timeout(20):
                await self._changed.wait()

    async def new_session(self) -> Resync:
        """The first session after the one it began with. A slow client may come back to that once, before it hears."""
        after = 1
        while not (found := await self.first(Resync, after=after)).new_session:
            after = self.all.index(found, after) + 1
        return found


@dataclass
class Client:
    """An open session and what it has told."""

    zk: MemorySession | KazooSession
    events: Events


class World(Protocol):
    """A ZooKeeper with a fresh, empty tree, and what can happen to its clients."""

    async def client(self, *, max_in_flight: int = 10) -> Client:
        """A client with a session of its own, connected."""
        ...

    def withhold(self, client: Client, *, requests: bool = False, answers: bool = False) -> None:
        """Let nothing arrive in these directions until the connection is cut."""
        ...

    def cut(self, client: Client) -> None:
        """End the client's connection and refuse new ones until `restore`."""
        ...

    def restore(self, client: Client) -> None: ...

    async def expire(self, client: Client) -> None:
        """End the client's session behind its back."""
        ...

    async def close(self) -> None: ...


class MemoryWorld:
    """The fake."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self._sessions: list[MemorySession] = []

    async def client(self, *, max_in_flight: int = 10) -> Client:
        session = MemorySession(self.server, session_timeout_ms=SESSION_TIMEOUT_MS, max_in_flight=max_in_flight)
        self._sessions.append(session)
        return await _opened(session)

    def withhold(self, client: Client, *, requests: bool = False, answers: bool = False) -> None:
        self.server.withhold(_memory(client), requests=requests, answers=answers)

    def cut(self, client: Client) -> None:
        self.server.disconnect(_memory(client), hold=True, apply_under_way=False)

    def restore(self, client: Client) -> None:
        self.server.release(_memory(client))

    async def expire(self, client: Client) -> None:
        self.server.expire(_memory(client))

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


class Proxy:
    """A port that leads to a server and can be made to lose what passes."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._open = True
        self._forward_requests = True
        self._forward_answers = True
        self._writers: set[asyncio.StreamWriter] = set()
        self.swallowed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def withhold(self, *, requests: bool, answers: bool) -> None:
        self._forward_requests &= not requests
        self._forward_answers &= not answers

    def cut(self) -> None:
        """End the connections and refuse new ones until `restore`."""
        self._open = False
        self.break_connections()

    def break_connections(self) -> None:
        """End the connections there are."""
        for writer in self._writers:
            writer.transport.abort()

    def restore(self) -> None:
        self._open = self._forward_requests = self._forward_answers = True

    def close(self) -> None:
        self.cut()
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        both = {writer, there_writer}
        self._writers |= both
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, there_writer, lambda: self._forward_requests))
                group.create_task(self._copy(there_reader, writer, lambda: self._forward_answers))
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forwards: Callable[[], bool]
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if forwards():
                    writer.write(data)
                    await writer.drain()
                else:
                    self.swallowed.set()
        writer.transport.abort()


@dataclass
class RealWorld:
    """The real ZooKeeper of `connect`, whose chroot is the test's own."""

    connect: str
    _sessions: list[KazooSession] = field(default_factory=list)
    _proxies: dict[int, Proxy] = field(default_factory=dict)
    _credentials: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    async def client(self, *, max_in_flight: int = 10) -> Client:
        hosts, chroot = split_connect_string(self.connect)
        host, _, port = hosts.rpartition(":")
        proxy = Proxy(host, int(port))
        session = KazooSession(
            f"127.0.0.1:{await proxy.start()}{chroot}",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            max_in_flight=max_in_flight,
        )
        self._sessions.append(session)
        self._proxies[id(session)] = proxy
        return await _opened(session)

    def withhold(self, client: Client, *, requests: bool = False, answers: bool = False) -> None:
        self._proxies[id(client.zk)].withhold(requests=requests, answers=answers)

    def cut(self, client: Client) -> None:
        self._remember(client)
        self._proxies[id(client.zk)].cut()

    def restore(self, client: Client) -> None:
        self._proxies[id(client.zk)].restore()

    async def expire(self, client: Client) -> None:
        """A second client with the same id and password ends the session."""
        self._remember(client)
        hosts, _ = split_connect_string(self.connect)
        await asyncio.to_thread(_close_session, hosts, self._credentials[id(client.zk)])

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        for proxy in self._proxies.values():
            proxy.close()

    def _remember(self, client: Client) -> None:
        """A session tells its password only while it is connected."""
        assert isinstance(client.zk, KazooSession)
        if (credentials := client.zk.credentials) is not None:
            self._credentials[id(client.zk)] = credentials


@pytest.fixture(params=["memory", "real"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Each of the two in turn; the real one needs the fixtures of `tests.support.zookeeper`."""
    made: World = MemoryWorld() if request.param == "memory" else RealWorld(request.getfixturevalue("chroot"))
    yield made
    await made.close()


async def _opened(session: MemorySession | KazooSession) -> Client:
    events = Events()
    session.listen(events)
    await session.open(timeout_ms=OPEN_TIMEOUT_MS)
    return Client(session, events)


def _memory(client: Client) -> MemorySession:
    assert isinstance(client.zk, MemorySession)
    return client.zk


def _close_session(hosts: str, credentials: tuple[int, bytes]) -> None:
    from kazoo.client import KazooClient

    other = KazooClient(hosts, client_id=credentials)
    other.start()
    other.stop()
    other.close()
