"""The machine's network: accepts connections, sweeps idle and stalled ones, reads slices ahead, reaches other brokers.

Connections to other brokers share nothing with accepted ones: what clients leave unfinished cannot hold up what is
replicated, and no sweep touches them.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from barnabas.runtime.dialing import dial, hand_over
from barnabas.runtime.disk import OUT_OF_RESOURCES
from barnabas.runtime.files import FileSlice
from barnabas.runtime.network import (
    Connection,
    ConnectionGate,
    ConnectionLimits,
    ConnectionOptions,
    FrameSink,
    PeerOptions,
    TrafficCount,
)
from barnabas.runtime.offload import Offload
from barnabas.runtime.receive_budget import ReceiveBudget
from barnabas.runtime.socket_connection import SharedBuffers, SocketConnection
from barnabas.runtime.socket_protocol import SocketProtocol
from barnabas.runtime.tasks import Supervisor
from barnabas.runtime.within_host import (
    choose_unpaced,
    enlarge_receive_buffer,
    is_within_host,
    restore_pacing,
)

log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_UNBOUNDED: Final = 1 << 62
_NEVER_IDLE_MS: Final = 1 << 31
_STALL_S: Final = 10.0
"""How long a partial frame may rest while other connections wait for its memory."""


class SocketListener:
    """A bound socket and the task that accepts from it."""

    def __init__(self, network: "SocketNetwork", sock: socket.socket) -> None:
        self._network = network
        self._socket = sock
        self._task: asyncio.Task[None] | None = None
        self._port: int = sock.getsockname()[1]

    @property
    def port(self) -> int:
        return self._port

    def start(self, accept: Callable[[Connection], FrameSink]) -> None:
        assert self._task is None, "a listener starts once"
        self._task = self._network.accept_from(self._socket, accept)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._socket.close()


class SocketNetwork:
    """Owns the connections of one broker."""

    def __init__(
        self,
        *,
        options: ConnectionOptions,
        gate: ConnectionGate,
        offload: Offload,
        supervisor: Supervisor,
        receive_budget_bytes: int,
    ) -> None:
        self._options = options
        self._gate = gate
        self._offload = offload
        self._supervisor = supervisor
        self._traffic = TrafficCount()
        self.budget = ReceiveBudget(receive_budget_bytes)
        self._shared = SharedBuffers(
            budget=self.budget, traffic=self._traffic, warm=self._warm, forget=self._forget, gathers=True
        )
        self._connections: dict[SocketConnection, None] = {}
        self._peers: dict[SocketConnection, None] = {}
        # A peer's frame is bounded by its options, and each asks for the next only when it has the last.
        self._shared_by_peers = SharedBuffers(
            budget=ReceiveBudget(_UNBOUNDED),
            traffic=TrafficCount(),
            warm=self._warm,
            forget=self._forget_peer,
            gathers=False,
        )
        self._listeners: list[SocketListener] = []
        self._replaced_control: bytes | None = None
        self._sweep = supervisor.spawn(self._sweep_forever(), name="connection sweep")

    @property
    def traffic(self) -> TrafficCount:
        return self._traffic

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def limit(self, limits: ConnectionLimits) -> None:
        self._gate.change(limits)

    async def listen(self, host: str, port: int) -> SocketListener:
        loop = asyncio.get_running_loop()
        try:
            resolved = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except UnicodeError as error:
            raise OSError(errno.EINVAL, f"no host can be called {host}: {error}") from error
        family, kind, protocol, _, address = min(resolved, key=lambda entry: entry[0])
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if (receive_bytes := self._options.receive_buffer_bytes) is not None and receive_bytes > 0:
                # Must stand before listen for the window scale to follow it.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            # What is accepted inherits it.
            self._replaced_control = choose_unpaced(sock)
            sock.bind(address)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        listener = SocketListener(self, sock)
        self._listeners.append(listener)
        return listener

    async def connect(
        self, host: str, port: int, accept: Callable[[Connection], FrameSink], *, options: PeerOptions
    ) -> SocketConnection:
        def prepare(sock: socket.socket) -> None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, options.user_timeout_ms)
            if options.receive_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)

        sock = await dial(host, port, prepare=prepare)
        of_socket = ConnectionOptions(max_frame_bytes=options.max_frame_bytes, idle_ms=_NEVER_IDLE_MS)
        connection = SocketConnection(self._shared_by_peers, sock, host, of_socket)
        self._peers[connection] = None
        connection.bind(accept(connection))
        try:
            await hand_over(sock, SocketProtocol(connection))
        except asyncio.CancelledError:
            connection.close("nobody waits for it any more")
            raise
        except OSError as error:
            # The loop has not taken it.
            sock.close()
            connection.connection_lost(error)
            raise
        return connection

    def _forget_peer(self, connection: SocketConnection) -> None:
        self._peers.pop(connection, None)

    def accept_from(self, sock: socket.socket, accept: Callable[[Connection], FrameSink]) -> "asyncio.Task[None]":
        """Accept until the task is cancelled."""
        return self._supervisor.spawn(self._accept_forever(sock, accept), name=f"listener {sock.getsockname()}")

    async def _accept_forever(self, sock: socket.socket, accept: Callable[[Connection], FrameSink]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._gate.has_room:
                room = loop.create_future()
                self._gate.when_room(lambda room=room: room.done() or room.set_result(None))  # type: ignore[misc]
                await room
                continue
            try:
                peer, address = await loop.sock_accept(sock)
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    # The peer was gone before it was accepted.
                    log.debug("accept failed: %s", error)
                    continue
                log.error("cannot accept connections: %s; trying again in 100 ms", error)
                await asyncio.sleep(0.1)
                continue
            await self._admit(peer, str(address[0]), accept)

    async def _admit(self, peer: socket.socket, host: str, accept: Callable[[Connection], FrameSink]) -> None:
        if not self._gate.admit(host):
            log.info("%s: refused, the address has its max.connections.per.ip already", host)
            peer.close()
            return
        try:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            restore_pacing(peer, self._replaced_control)
            self._size_buffers(peer, host)
            connection = SocketConnection(self._shared, peer, host, self._options)
        except OSError as error:
            self._gate.leave(host)
            log.debug("%s: gone before it was served: %s", host, error)
            peer.close()
            return
        self._connections[connection] = None
        connection.bind(accept(connection))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: SocketProtocol(connection), peer)
        except OSError as error:
            log.error("%s: cannot be served: %s", host, error)
            peer.close()
            connection.connection_lost(error)

    def _size_buffers(self, peer: socket.socket, host: str) -> None:
        """What the options leave open is the kernel's to choose, but for what comes from this host."""
        if (send_bytes := self._options.send_buffer_bytes) is not None and send_bytes > 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        if self._options.receive_buffer_bytes is None and is_within_host(str(peer.getsockname()[0]), host):
            enlarge_receive_buffer(peer)

    def _forget(self, connection: SocketConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._gate.leave(connection.peer_host)

    async def _warm(self, part: FileSlice) -> None:
        log_directory = os.path.dirname(os.path.dirname(part.file.path))
        await self._offload.thread(f"read {log_directory}", part.file.read_ahead, part.position, part.size)

    async def _sweep_forever(self) -> None:
        loop = asyncio.get_running_loop()
        interval_s = min(5.0, max(0.05, self._options.idle_ms / 4000))
        while True:
            await asyncio.sleep(interval_s)
            now = loop.time()
            idle_before = now - self._options.idle_ms / 1000
            stalled_before = now - _STALL_S if self.budget.is_contended else 0.0
            for connection in list(self._connections):
                active_s = connection.active_since(now)
                if active_s < idle_before:
                    connection.close("idle for connections.max.idle.ms")
                elif active_s < stalled_before and connection.holds_partial_frame:
                    connection.close("an unfinished request holds memory that others wait for")

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for connection in (*self._connections, *self._peers):
            connection.close("the broker stops")
        with contextlib.suppress(RuntimeError):
            self._sweep.cancel()
