"""Frames over TCP: what a `Connection` stands on, and the port through which a simulator gives it another network.

A frame is four bytes of size and that many bytes. Frames are read straight into a bytearray of their own that grows
with what has arrived, never with what was announced.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, cast

from barnabas.protocol.batch import Buffer
from barnabas.runtime.dialing import dial, hand_over

_SIZE_BYTES: Final = 4
_LEAST_FRAME_BYTES: Final = 4  # a correlation id
_SCRATCH_BYTES: Final = 64 * 1024
_FIRST_GROWTH_BYTES: Final = 1024 * 1024
MAX_FRAME_BYTES: Final = 256 * 1024 * 1024


class FrameReceiver(Protocol):
    """The owner of a channel; called on the loop."""

    def frame_received(self, frame: bytearray) -> None:
        """A whole frame without its size; it belongs to the receiver."""
        ...

    def channel_lost(self, reason: str) -> None:
        """The channel is closed, by whatever side; called once, and nothing after it."""
        ...


class Channel(Protocol):
    """One connection to a peer."""

    def send(self, parts: Iterable[Buffer]) -> None:
        """Send the parts of frames, sizes included, in order."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the peer keeps up with what was sent, or the channel is lost: `drained` would return at once."""
        ...

    async def drained(self) -> None:
        """Return when the channel is writable."""
        ...

    def close(self) -> None:
        """Let what was sent leave, then end; `channel_lost` follows."""
        ...


Connector = Callable[[str, int, FrameReceiver], Awaitable[Channel]]
"""(host, port, receiver) -> channel. Raises OSError."""


async def connect_tcp(host: str, port: int, receiver: FrameReceiver) -> Channel:
    """Connect to a broker over TCP."""
    channel = TcpChannel(receiver)
    sock = await dial(host, port)
    try:
        await hand_over(sock, channel)
    except asyncio.CancelledError:
        channel.close()
        raise
    return channel


class TcpChannel(asyncio.BufferedProtocol):
    """A channel on a socket: cuts the stream into frames and holds writers back while the peer does not read."""

    def __init__(self, receiver: FrameReceiver) -> None:
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._head = bytearray()  # the bytes of a size that is not whole
        self._frame: bytearray | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._into_frame = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._reason: str | None = None

    def send(self, parts: Iterable[Buffer]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(parts)

    @property
    def is_writable(self) -> bool:
        return self._writable.is_set()

    async def drained(self) -> None:
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        # Who waits for room would wait as long as the peer takes nothing.
        self._writable.set()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        reason = self._reason or (str(exc) if exc is not None else "the connection was closed")
        self._receiver.channel_lost(reason)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, _sizehint: int) -> memoryview:
        frame = self._frame
        if frame is None or self._frame_bytes - self._filled < _SCRATCH_BYTES:
            self._into_frame = False
            return self._scratch_view
        if self._filled == len(frame):
            frame.extend(bytes(min(len(frame), self._frame_bytes - self._filled)))
        self._into_frame = True
        return memoryview(frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._into_frame:
            self._filled += nbytes
            if self._filled == self._frame_bytes:
                self._finish_frame()
        else:
            self._cut(self._scratch_view[:nbytes])

    def _cut(self, data: memoryview) -> None:
        while len(data):
            if self._frame is None:
                lacking = _SIZE_BYTES - len(self._head)
                self._head += data[:lacking]
                data = data[lacking:]
                if len(self._head) < _SIZE_BYTES or not self._begin_frame():
                    return
            assert self._frame is not None
            piece = data[: self._frame_bytes - self._filled]
            end = self._filled + len(piece)
            # The frame may be shorter than the piece reaches: it grows with what arrives.
            self._frame[self._filled : end] = piece
            self._filled = end
            data = data[len(piece) :]
            if end == self._frame_bytes:
                self._finish_frame()

    def _begin_frame(self) -> bool:
        size = int.from_bytes(self._head, "big", signed=True)
        self._head.clear()
        if not _LEAST_FRAME_BYTES <= size <= MAX_FRAME_BYTES:
            self._reason = f"the peer announced a frame of {size} bytes"
            assert self._transport is not None
            self._transport.abort()
            return False
        self._frame = bytearray(min(size, _FIRST_GROWTH_BYTES))
        self._frame_bytes, self._filled = size, 0
        return True

    def _finish_frame(self) -> None:
        frame, self._frame = self._frame, None
        assert frame is not None
        assert len(frame) == self._frame_bytes
        self._into_frame = False
        self._receiver.frame_received(frame)
