"""An in-memory ZooKeeper for tests and the simulator, and sessions on it. One contract suite holds it to the real one.

Everything happens on the running loop and in the order of the calls: a request travels to the server, an answer or an
event back, each as one step of the loop or after `latency()` seconds, never overtaking. There is no other chance and
no wall clock, so a run can be repeated. What happens at the server runs in the context in which the server was made,
what happens at a client in the context in which its session was: who simulates processes tells them apart by that.

Faults on demand: a connection can be cut, with the requests under way done or not; a session can be held off, can
expire, and does by itself when it stayed away for its timeout; the server can stop and start again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Final

from zk_schema.ops import Delete, SessionLost, WriteRefused, ZooKeeperUnreachable
from zk_schema.pipeline import (
    DEFAULT_MAX_IN_FLIGHT,
    Answer,
    GetChildren,
    GetData,
    GetStat,
    PipelinedSession,
    ReadMissed,
    Request,
    Ticket,
    Write,
)
from zk_schema.port import ChildrenChanged, DataChanged, ZooKeeperEvent
from zk_schema.tree import Change, ZnodeTree

DEFAULT_SESSION_TIMEOUT_MS: Final = 18_000
_RECONNECT_S: Final = 0.05


@dataclass(slots=True, eq=False)
class _ServerSession:
    """A session as the server knows it."""

    session_id: int
    timeout_ms: int
    connection: "Connection | None" = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """A client on the server. Once not alive, nothing reaches either side through it."""

    client: "MemorySession"
    server_session: _ServerSession
    to_server: "_Pipe"
    to_client: "_Pipe"
    is_alive: bool = True


@dataclass(slots=True, eq=False)
class BreakAtWrite:
    """Lets a session's connection break at the first write that `matches`, just before or just after it is done."""

    session: "MemorySession"
    matches: Callable[[Write], bool]
    is_done: bool
    has_hit: bool = False


class _Pipe:
    """Calls that arrive later, in order; none while withheld."""

    def __init__(self, latency: Callable[[], float] | None, context: Context) -> None:
        self.is_withheld = False
        self._latency = latency
        self._context = context
        self._calls: deque[Callable[[], None]] = deque()

    def put(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._calls.append(call)
        # Each timer carries whichever call is the oldest then, so that none overtakes.
        if self._latency is None:
            loop.call_soon(self._arrive, context=self._context)
        else:
            loop.call_later(self._latency(), self._arrive, context=self._context)

    def flush(self) -> None:
        """Let all arrive now."""
        while self._calls:
            self._calls.popleft()()

    def drop(self) -> None:
        """Lose all."""
        self._calls.clear()

    def _arrive(self) -> None:
        if self._calls and not self.is_withheld:
            self._calls.popleft()()


class MemoryZooKeeper:
    """The server: znodes, sessions, watches. `latency` gives each message's seconds on the way."""

    def __init__(self, *, latency: Callable[[], float] | None = None) -> None:
        self.tree = ZnodeTree()
        self.latency = latency
        self._context = copy_context()
        self._zxid = 0
        self._last_session_id = 0x1000
        self._sessions: dict[int, _ServerSession] = {}
        self._data_watches: dict[str, dict[Connection, None]] = {}
        self._child_watches: dict[str, dict[Connection, None]] = {}
        self._breaks: list[BreakAtWrite] = []
        self.is_running = True

    # Faults.

    def disconnect(self, session: "MemorySession", *, hold: bool = False, apply_under_way: bool = True) -> None:
        """Cut a session's connection. It comes back by itself unless held; `release` lets it.

        Requests under way reach the server or not, as `apply_under_way` says; their answers are lost either way.
        """
        session.is_held = hold
        connection = session.connection
        if connection is not None:
            if apply_under_way:
                connection.to_server.flush()
            self._drop(connection)

    def break_at_write(
        self, session: "MemorySession", matches: Callable[[Write], bool], *, is_done: bool
    ) -> BreakAtWrite:
        """Let a session's connection break at a write to come, whose outcome its client does not learn."""
        wanted = BreakAtWrite(session, matches, is_done)
        self._breaks.append(wanted)
        return wanted

    def break_no_more(self, wanted: BreakAtWrite) -> None:
        """Take back what was asked for, if it has not hit."""
        if wanted in self._breaks:
            self._breaks.remove(wanted)

    def withhold(self, session: "MemorySession", *, requests: bool, answers: bool) -> None:
        """Let requests, or answers and events, of a session arrive no more until its connection is cut."""
        assert session.connection is not None
        session.connection.to_server.is_withheld |= requests
        session.connection.to_client.is_withheld |= answers

    def release(self, session: "MemorySession") -> None:
        """Let a held session connect again."""
        session.is_held = False
        session.reconnect()

    def expire(self, session: "MemorySession") -> None:
        """End a session now; its client learns it when it connects again."""
        server_session = self._sessions.get(session.session_id)
        if server_session is not None:
            self._end(server_session)

    def stop(self) -> None:
        """Cut everybody and accept nobody until `start`. No session expires meanwhile."""
        self.is_running = False
        for server_session in list(self._sessions.values()):
            if server_session.connection is not None:
                self._drop(server_session.connection)
            if server_session.expiry is not None:
                server_session.expiry.cancel()

    def start(self) -> None:
        """Accept clients again; sessions have their whole timeout to come back."""
        self.is_running = True
        for server_session in self._sessions.values():
            self._schedule_expiry(server_session)

    @property
    def has_sessions_without_client(self) -> bool:
        """Whether somebody may still seem alive who is gone."""
        return any(each.connection is None for each in self._sessions.values())

    # What clients do.

    def accept(self, client: "MemorySession", *, session_id: int, timeout_ms: int) -> Connection:
        """Put a client on its session, or with id 0 on a new one.

        Raises:
            ConnectionRefusedError: the server is stopped.
            SessionLost: there is no such session any more.
        """
        if not self.is_running:
            raise ConnectionRefusedError
        if session_id == 0:
            self._last_session_id += 1
            server_session = _ServerSession(self._last_session_id, timeout_ms)
            self._sessions[server_session.session_id] = server_session
        elif session_id not in self._sessions:
            raise SessionLost(f"session {session_id:#x} has expired")
        else:
            server_session = self._sessions[session_id]
            if server_session.connection is not None:
                self._drop(server_session.connection)
        if server_session.expiry is not None:
            server_session.expiry.cancel()
        to_server, to_client = _Pipe(self.latency, self._context), _Pipe(self.latency, client.context)
        connection = Connection(client, server_session, to_server, to_client)
        server_session.connection = connection
        return connection

    def receive(self, connection: Connection, ticket: Ticket, generation: int) -> None:
        """A request has arrived: do it, and send the answer after the events that it fires."""
        if not connection.is_alive:
            return
        wanted = self._break_at(connection, ticket.request) if self._breaks else None
        if wanted is not None and not wanted.is_done:
            self._drop(connection)
            return
        answer: Answer | Exception
        try:
            answer = self._answer(connection, ticket.request)
        except (WriteRefused, ReadMissed) as error:
            answer = error
        if wanted is not None:
            self._drop(connection)
            return
        connection.to_client.put(lambda: connection.client.on_answer(connection, ticket, generation, answer))

    def close(self, connection: Connection) -> None:
        """The client ends its session; the connection goes after the answers that are on their way."""
        if connection.is_alive:
            self._forget(connection.server_session)
            connection.to_client.put(lambda: self._drop(connection))

    # Inside.

    def _break_at(self, connection: Connection, request: Request) -> BreakAtWrite | None:
        for wanted in self._breaks:
            if isinstance(request, Write) and wanted.session is connection.client and wanted.matches(request):
                self._breaks.remove(wanted)
                wanted.has_hit = True
                return wanted
        return None

    def _answer(self, connection: Connection, request: Request) -> Answer:
        match request:
            case GetData(path, watch):
                znode = self.tree.get(path)
                if znode is None:
                    raise ReadMissed
                if watch:
                    self._data_watches.setdefault(path, {})[connection] = None
                return znode
            case GetStat(path, watch):
                if watch:
                    self._data_watches.setdefault(path, {})[connection] = None
                znode = self.tree.get(path)
                return None if znode is None else znode.stat
            case GetChildren(path, watch):
                names = self.tree.children(path)
                if names is None:
                    raise ReadMissed
                if watch:
                    self._child_watches.setdefault(path, {})[connection] = None
                return names
            case Write(operations):
                self._zxid += 1
                results, changes = self.tree.apply(
                    operations,
                    session_id=connection.server_session.session_id,
                    zxid=self._zxid,
                    now_ms=_loop_ms(),
                )
                self._fire(changes)
                return results

    def _fire(self, changes: list[Change]) -> None:
        for change in changes:
            if not change.of_children:
                self._notify(self._data_watches, change.path, DataChanged(change.path))
            if change.of_children or change.is_deletion:
                self._notify(self._child_watches, change.path, ChildrenChanged(change.path))

    def _notify(self, watches: dict[str, dict[Connection, None]], path: str, event: ZooKeeperEvent) -> None:
        for connection in watches.pop(path, {}):
            self._send_event(connection, event)

    def _send_event(self, connection: Connection, event: ZooKeeperEvent) -> None:
        connection.to_client.put(lambda: connection.client.on_event(connection, event))

    def _drop(self, connection: Connection) -> None:
        """The connection is gone for both sides."""
        if not connection.is_alive:
            return
        connection.is_alive = False
        connection.to_server.drop()
        connection.to_client.drop()
        for watches in (self._data_watches, self._child_watches):
            for path in [path for path, connections in watches.items() if connection in connections]:
                del watches[path][connection]
                if not watches[path]:
                    del watches[path]
        connection.server_session.connection = None
        if self.is_running:
            self._schedule_expiry(connection.server_session)
        client = connection.client
        asyncio.get_running_loop().call_soon(client.on_dropped, connection, context=client.context)

    def _schedule_expiry(self, server_session: _ServerSession) -> None:
        if server_session.session_id in self._sessions and server_session.connection is None:
            delay_s = server_session.timeout_ms / 1000
            server_session.expiry = asyncio.get_running_loop().call_later(
                delay_s, self._end, server_session, context=self._context
            )

    def _end(self, server_session: _ServerSession) -> None:
        """The session is over, and its connection with it."""
        self._forget(server_session)
        if server_session.connection is not None:
            self._drop(server_session.connection)

    def _forget(self, server_session: _ServerSession) -> None:
        """The session is over: its ephemeral znodes go, each firing its watches."""
        del self._sessions[server_session.session_id]
        if server_session.expiry is not None:
            server_session.expiry.cancel()
        self._zxid += 1
        for path in self.tree.owned_by(server_session.session_id):
            _, changes = self.tree.apply(
                [Delete(path)], session_id=server_session.session_id, zxid=self._zxid, now_ms=_loop_ms()
            )
            self._fire(changes)


class MemorySession(PipelinedSession):
    """A session on a `MemoryZooKeeper`. It connects again by itself, as a real client does."""

    def __init__(
        self,
        server: MemoryZooKeeper,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
    ) -> None:
        super().__init__(self._hand_over, max_in_flight=max_in_flight)
        self.context = copy_context()
        self.connection: Connection | None = None
        self.is_held = False
        self._server = server
        self._session_timeout_ms = session_timeout_ms
        self._connected = asyncio.Event()
        self._dropped = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None

    async def open(self, *, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> None:
        """Return once connected.

        Raises:
            ZooKeeperUnreachable: not within `timeout_ms`; nothing goes on.
        """
        self.reconnect()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._connected.wait()
        except TimeoutError:
            await self.close()
            raise ZooKeeperUnreachable(f"no session in {timeout_ms} ms") from None

    async def close(self) -> None:
        """End the session; its ephemeral znodes go at once, if it is connected."""
        if self._is_closed:
            return
        self._on_closed()
        if self._retry is not None:
            self._retry.cancel()
        connection = self.connection
        if connection is not None:
            connection.to_server.put(lambda: self._server.close(connection))
            await self._dropped.wait()
        self._on_ended()

    @property
    def writes_under_way(self) -> int:
        """How many writes would have an unknown outcome if the connection went now."""
        return sum(isinstance(ticket.request, Write) for ticket in self._in_flight)

    def reconnect(self, delay_s: float = 0) -> None:
        """Try to connect after that time, but in a later step of the loop."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(delay_s, self._connect, context=self.context)

    def on_answer(self, connection: Connection, ticket: Ticket, generation: int, answer: Answer | Exception) -> None:
        """From the server."""
        if connection is self.connection:
            self._on_answer(ticket, generation, answer)

    def on_event(self, connection: Connection, event: ZooKeeperEvent) -> None:
        """From the server."""
        if connection is self.connection:
            self._on_event(event, self._generation)

    def on_dropped(self, connection: Connection) -> None:
        """The connection is gone."""
        if connection is self.connection:
            self.connection = None
            if self._is_closed:
                self._dropped.set()
                return
            self._on_disconnected()
            self.reconnect()

    def _hand_over(self, ticket: Ticket) -> None:
        connection, generation = self.connection, ticket.generation
        assert connection is not None
        connection.to_server.put(lambda: self._server.receive(connection, ticket, generation))

    def _connect(self) -> None:
        if self._is_closed or self.is_held or self.connection is not None:
            return
        try:
            self.connection = self._server.accept(
                self, session_id=self._session_id, timeout_ms=self._session_timeout_ms
            )
        except ConnectionRefusedError:
            self.reconnect(_RECONNECT_S)
        except SessionLost:
            self._on_expired()
            self.reconnect()
        else:
            self._on_connected(self.connection.server_session.session_id)
            self._connected.set()


def _loop_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
