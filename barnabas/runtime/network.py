"""The network port: listeners, and connections that carry frames of four size bytes and a body.

A connection hands whole frames to its `FrameSink` and sends parts: bytes, or a `FileSlice` that goes from the page
cache to the socket without passing through Python. The machine's side is `socket_network`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from barnabas.runtime.files import FileSlice

SLICE_WEIGHT_BYTES: Final = 2048
"""What a slice that waits to be sent costs: objects and a pinned segment, not its bytes."""

Part = bytes | bytearray | memoryview | FileSlice


class FrameSink(Protocol):
    """The owner of a connection's requests. All methods are called on the loop."""

    def frame_received(self, frame: bytearray) -> None:
        """A whole frame without its size; it now belongs to the sink, which tells `frame_finished` when it let go."""
        ...

    def frames_done(self) -> None:
        """All frames of one read, or of several, were handed over: a moment to send what has gathered.

        Other connections may have had their frames meanwhile. Of a connection that is closed by then it is not told.
        """
        ...

    def drained(self) -> None:
        """Everything that was sent has left."""
        ...

    def disconnected(self) -> None: ...


class Connection(Protocol):
    """One peer. `send` queues, `flush` lets go; after `close` both do nothing."""

    @property
    def peer_host(self) -> str: ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes in memory that wait for the peer; a slice counts as `SLICE_WEIGHT_BYTES`."""
        ...

    def send(self, parts: Sequence[Part]) -> None:
        """Queue parts, none of them empty. Slices are released once sent or dropped."""
        ...

    def flush(self) -> None: ...

    def frame_finished(self, frame: bytearray) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, reason: str) -> None: ...


@dataclass(slots=True)
class ConnectionOptions:
    """How accepted connections are set up.

    A buffer size of -1 leaves the kernel's own tuning. So does None, but for what is known of the host (`within_host`).
    """

    max_frame_bytes: int
    idle_ms: int
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


@dataclass(slots=True)
class PeerOptions:
    """How a connection to another broker is set up. It is cut when the peer takes no bytes for `user_timeout_ms`."""

    max_frame_bytes: int
    user_timeout_ms: int
    receive_buffer_bytes: int | None = None


@dataclass(slots=True)
class TrafficCount:
    """What crossed the listeners of a broker."""

    received_bytes: int = 0
    sent_bytes: int = 0
    sendfile_bytes: int = 0
    sendfile_calls: int = 0
    slices_read_ahead: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections are taken: in all, of each address, and of certain addresses in place of that."""

    max_total: int
    max_per_host: int
    max_by_host: Mapping[str, int]


class ConnectionGate:
    """Bounds the number of connections: in all, and by the peer's address."""

    __slots__ = ("_by_host", "_limits", "_on_room", "refused", "total")

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_host: dict[str, int] = {}
        self.total = 0
        self.refused = 0
        self._on_room: list[Callable[[], None]] = []

    @property
    def has_room(self) -> bool:
        return self.total < self._limits.max_total

    def when_room(self, call: Callable[[], None]) -> None:
        """Call once when there may be room."""
        self._on_room.append(call)

    def admit(self, host: str) -> bool:
        """Count a connection from `host`, or say that this address has its share already."""
        count = self._by_host.get(host, 0)
        if count >= self._limits.max_by_host.get(host, self._limits.max_per_host):
            self.refused += 1
            return False
        self._by_host[host] = count + 1
        self.total += 1
        return True

    def leave(self, host: str) -> None:
        count = self._by_host[host] - 1
        if count:
            self._by_host[host] = count
        else:
            del self._by_host[host]
        self.total -= 1
        self._tell_of_room()

    def change(self, limits: ConnectionLimits) -> None:
        """Bound by these from now on; connections that there are stay."""
        self._limits = limits
        self._tell_of_room()

    def _tell_of_room(self) -> None:
        calls, self._on_room = self._on_room, []
        for call in calls:
            call()


class Listener(Protocol):
    """A bound address; peers that connect wait until it accepts."""

    @property
    def port(self) -> int: ...

    def start(self, accept: Callable[[Connection], FrameSink]) -> None:
        """Hand each connection to `accept`, which gives the sink of its frames."""
        ...

    def close(self) -> None:
        """Accept no more; connections live on."""
        ...


class Network(Protocol):
    """Where a broker listens, and by which it reaches other brokers."""

    @property
    def traffic(self) -> TrafficCount: ...

    def limit(self, limits: ConnectionLimits) -> None:
        """Take so many connections from now on; those that there are stay."""
        ...

    async def listen(self, host: str, port: int) -> Listener:
        """Bind an address; an empty host is every interface, port 0 any port.

        Raises:
            OSError: the address cannot be bound.
        """
        ...

    async def connect(
        self, host: str, port: int, accept: Callable[[Connection], FrameSink], *, options: PeerOptions
    ) -> Connection:
        """Connect to another broker; `accept` gives the sink of its frames, as with a listener.

        Raises:
            OSError: nobody takes the connection there.
        """
        ...

    def close(self) -> None:
        """Close every connection and listener."""
        ...
