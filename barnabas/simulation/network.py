"""The network port of a simulated process: frames over the wires of the world.

A connection cuts what arrives into frames as the machine's does, refuses a frame that is too large, and reads slices
through the disk port when they leave. Both ends of a wire are the same class.
"""

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.runtime.files import FileSlice
from barnabas.runtime.gathered_sends import GatheredSends
from barnabas.runtime.network import (
    SLICE_WEIGHT_BYTES,
    Connection,
    ConnectionLimits,
    FrameSink,
    Part,
    PeerOptions,
    TrafficCount,
)
from barnabas.simulation.loop import Life
from barnabas.simulation.wires import CLIENT, SERVER, Bound, Wire, Wires

_SIZE_BYTES: Final = 4
_FIRST_FREE_PORT: Final = 20_000


class SimulatedConnection:
    """One end of a wire, as the product sees it (a `Connection`)."""

    def __init__(self, network: "SimulatedNetwork", wire: Wire, end: int, *, max_frame_bytes: int) -> None:
        self._network = network
        self._wire = wire
        self._end = end
        self._direction = wire.directions[1 - end]
        self._max_frame_bytes = max_frame_bytes
        self._sink: FrameSink | None = None
        self._rest = b""
        self._queue: deque[Part] = deque()
        self._queued_bytes = 0
        self._is_closed = False

    def bind(self, sink: FrameSink) -> None:
        """Say who takes the frames."""
        self._sink = sink

    # What the sink calls.

    @property
    def peer_host(self) -> str:
        return self._wire.hosts[1 - self._end]

    @property
    def unsent_bytes(self) -> int:
        return self._queued_bytes + self._direction.unsent_bytes

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closed:
            _release(parts)
            return
        for part in parts:
            self._queued_bytes += SLICE_WEIGHT_BYTES if type(part) is FileSlice else len(part)
        self._queue.extend(parts)

    def flush(self) -> None:
        if not self._queue or self._is_closed or self._network.life.is_dead:
            return
        queue, self._queue, self._queued_bytes = self._queue, deque(), 0
        chunks: list[bytes] = []
        while queue:
            part = queue.popleft()
            if not isinstance(part, FileSlice):
                chunks.append(bytes(part))
                continue
            try:
                data = part.read()
            except OSError as error:
                _release([part, *queue])
                self._end_it(f"reading {part.file.path} failed: {error}")
                return
            part.release()
            if len(data) != part.size:
                _release(queue)
                self._end_it(f"{part.file.path} ended before the {part.size} bytes that were announced")
                return
            chunks.append(data)
        data = b"".join(chunks)
        self._network.traffic.sent_bytes += len(data)
        self._direction.send(data)

    def frame_finished(self, frame: bytearray) -> None:
        pass

    def pause_reading(self) -> None:
        self._wire.directions[self._end].is_paused = True

    def resume_reading(self) -> None:
        incoming = self._wire.directions[self._end]
        if incoming.is_paused:
            incoming.is_paused = False
            if incoming.inbox:
                asyncio.get_running_loop().call_soon(incoming.deliver)

    def close(self, reason: str) -> None:
        self._end_it(reason)

    def _end_it(self, reason: str) -> None:  # noqa: ARG002 - what would be logged
        if not self._is_closed:
            self._wire.close(self._end)
            asyncio.get_running_loop().call_soon(self._finish)
            self._is_closed = True

    # What the wire calls.

    def bytes_arrived(self, data: bytes) -> None:
        sink = self._sink
        assert sink is not None
        self._network.traffic.received_bytes += len(data)
        if self._network.sends.is_waiting:
            self._network.sends.send_overdue()
        data = self._rest + data if self._rest else data
        position, end = 0, len(data)
        while end - position >= _SIZE_BYTES and not self._is_closed:
            size = int.from_bytes(data[position : position + _SIZE_BYTES], "big", signed=True)
            if not 0 < size <= self._max_frame_bytes:
                self._end_it(f"a frame of {size} bytes was announced")
                return
            start = position + _SIZE_BYTES
            if start + size > end:
                break
            position = start + size
            sink.frame_received(bytearray(data[start:position]))
        self._rest = data[position:]
        if not self._is_closed:
            self._network.sends.add(self)

    def send_gathered(self) -> None:
        """See `Sender`."""
        if self._sink is not None and not self._is_closed:
            self._sink.frames_done()

    def room_again(self) -> None:
        if self._sink is not None and not self._is_closed:
            self._sink.drained()

    def wire_lost(self, reason: str) -> None:  # noqa: ARG002 - what would be logged
        if not self._is_closed:
            self._is_closed = True
            self._finish()

    def _finish(self) -> None:
        _release(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        self._network.sends.forget(self)
        self._network.on_closed(self)
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.disconnected()


class SimulatedListener:
    """A bound port (a `Listener`)."""

    def __init__(self, network: "SimulatedNetwork", bound: Bound, port: int) -> None:
        self._network = network
        self._bound = bound
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    def start(self, accept: Callable[[Connection], FrameSink]) -> None:
        def take(wire: Wire) -> SimulatedConnection:
            return self._network.open(wire, SERVER, accept, max_frame_bytes=self._network.max_frame_bytes)

        self._bound.start(take)

    def close(self) -> None:
        self._network.unbind(self._port)


class SimulatedNetwork:
    """What one process listens at and is connected to (a `Network`)."""

    def __init__(
        self,
        wires: Wires,
        life: Life,
        host: str,
        *,
        max_frame_bytes: int = 1 << 30,
    ) -> None:
        self.life = life
        self.host = host
        self.max_frame_bytes = max_frame_bytes
        self.traffic = TrafficCount()
        self.sends = GatheredSends(lambda: asyncio.get_running_loop().time())
        self._wires = wires
        self._connections: dict[SimulatedConnection, None] = {}
        self._listening: dict[int, None] = {}

    def limit(self, limits: ConnectionLimits) -> None:
        """Nobody is refused in this world."""

    async def listen(self, host: str, port: int) -> SimulatedListener:  # noqa: ARG002 - a machine has one address
        if port == 0:
            port = _FIRST_FREE_PORT
            while (self.host, port) in self._wires.bound:
                port += 1
        bound = self._wires.bind(self.host, port, self.life)
        self._listening[port] = None
        return SimulatedListener(self, bound, port)

    async def connect(
        self, host: str, port: int, accept: Callable[[Connection], FrameSink], *, options: PeerOptions
    ) -> Connection:
        """Connect to a peer; `accept` gives the sink of its frames.

        Raises:
            OSError: nobody is reached.
        """
        if self.life.is_dead:
            raise OSError(errno.ENETDOWN, "Network is down")
        made: list[SimulatedConnection] = []

        def make(wire: Wire) -> SimulatedConnection:
            made.append(self.open(wire, CLIENT, accept, max_frame_bytes=options.max_frame_bytes))
            return made[0]

        await self._wires.connect(self.life, (self.host, host), port, make)
        return made[0]

    def open(
        self, wire: Wire, end: int, accept: Callable[[Connection], FrameSink], *, max_frame_bytes: int
    ) -> SimulatedConnection:
        connection = SimulatedConnection(self, wire, end, max_frame_bytes=max_frame_bytes)
        self._connections[connection] = None
        connection.bind(accept(connection))
        return connection

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def on_closed(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection, None)

    def unbind(self, port: int) -> None:
        if self._listening.pop(port, 0) is None:
            self._wires.bound.pop((self.host, port), None)

    def close(self) -> None:
        for port in list(self._listening):
            self.unbind(port)
        for connection in list(self._connections):
            connection.close("the process stops")


def _release(parts: "Sequence[Part] | deque[Part]") -> None:
    for part in parts:
        if type(part) is FileSlice:
            part.release()
