"""A connection to a broker that sends exactly the bytes it is given and takes whole frames back.

Nothing is retried, negotiated or hidden: a test sees what a broker does with one request. Blocking, for one thread.
"""

import select
import socket
import struct
from types import TracebackType
from typing import Self

_SIZE = struct.Struct(">i")


class ConnectionClosed(Exception):
    """The broker closed the connection instead of an answer."""


class NoAnswer(Exception):
    """Nothing came in time and the connection is open."""


class RawConnection:
    """One TCP connection; `timeout_seconds` bounds each wait for a frame."""

    def __init__(self, host: str, port: int, *, timeout_seconds: float = 15.0) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are. A broker that closed already is noticed when its answer is read."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send_frame(self, payload: bytes) -> None:
        """Send a request, its header included, behind its size."""
        self.send_bytes(_SIZE.pack(len(payload)) + payload)

    def receive_frame(self) -> bytes:
        """Return the next answer without its size. Raises ConnectionClosed and NoAnswer."""
        (size,) = _SIZE.unpack(self._receive(_SIZE.size))
        return self._receive(size)

    def has_input(self, seconds: float) -> bool:
        """Whether there is something to read, or the connection was closed, within that time."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            try:
                part = self._socket.recv(min(count - len(received), 1 << 20))
            except TimeoutError:
                raise NoAnswer(f"{len(received)} of {count} bytes came in time") from None
            except ConnectionResetError:
                raise ConnectionClosed(f"reset after {len(received)} of {count} bytes") from None
            if not part:
                raise ConnectionClosed(f"closed after {len(received)} of {count} bytes")
            received += part
        return bytes(received)
