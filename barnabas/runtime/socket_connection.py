"""A connection of the machine's network: frames in, parts out.

Receiving: all connections of a loop read into one staging area (asking for a buffer, reading and telling how much
arrived happen in one callback, so it is never shared between two reads); small frames are cut out of it. A larger
frame gets its own buffer, which grows with what has arrived and never with what was announced (after a large frame
that came whole, the next one may begin with as much, up to 1 MiB); the `ReceiveBudget` bounds the sum of these buffers.

Sending: a connection owns one queue of parts in order, drained by one writer on a duplicate of the socket's
descriptor (uvloop has no sendfile, and the transport's own buffer stays unused). A slice whose pages are not in
memory is first read ahead by a thread, so that the loop never waits for the device. If a file ends before the bytes
that were announced, the connection closes.
"""

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, cast

from barnabas.runtime.files import FileSlice
from barnabas.runtime.gathered_sends import GatheredSends
from barnabas.runtime.network import SLICE_WEIGHT_BYTES, ConnectionOptions, FrameSink, Part, TrafficCount
from barnabas.runtime.receive_budget import ReceiveBudget
from barnabas.runtime.socket_room import SocketRoom

log = logging.getLogger(__name__)

STAGING_BYTES: Final = 64 * 1024
_SIZE_BYTES: Final = 4
_unpack_size = struct.Struct(">i").unpack_from
_LARGEST_STAGED_BYTES: Final = STAGING_BYTES - _SIZE_BYTES
_GROWTH: Final = 4
"""By so much the buffer of a frame grows, up to `_TRUSTED_BYTES`; a larger one doubles, as what has not arrived yet is
memory that its sender has for nothing."""
_HEAD_BYTES: Final = 512
_TRUSTED_BYTES: Final = 1024 * 1024
"""A peer whose last frame was whole gets a buffer of that size, up to this, for the next one at once; a frame that is
larger than this is not trusted to come quickly."""
_SENDFILE_BYTES: Final = 1024 * 1024
_BUFFERS_A_CALL: Final = 64
# As plain numbers: the operators of the flags' own type make an object each time.
_NOW: Final = int(socket.MSG_DONTWAIT)
_NOW_WITH_MORE: Final = int(socket.MSG_DONTWAIT | socket.MSG_MORE)


class SharedBuffers:
    """What the connections of one loop have in common."""

    __slots__ = ("budget", "forget", "head", "room", "sends", "staged", "staging", "traffic", "warm")

    def __init__(
        self,
        *,
        budget: ReceiveBudget,
        traffic: TrafficCount,
        warm: Callable[[FileSlice], Coroutine[Any, Any, None]],
        forget: "Callable[[SocketConnection], None]",
        gathers: bool,
    ) -> None:
        self.staged = bytearray(STAGING_BYTES)
        self.staging = memoryview(self.staged)
        self.head = self.staging[:_HEAD_BYTES]
        self.budget = budget
        self.room = SocketRoom()
        self.sends = GatheredSends() if gathers else None
        """Where connections leave what they have to send; None where they send by themselves."""
        self.traffic = traffic
        self.warm = warm
        self.forget = forget


class SocketConnection:
    """A connection of the machine's network. What the loop calls, it calls through a `SocketProtocol`."""

    def __init__(
        self, shared: "SharedBuffers", sock: socket.socket, peer_host: str, options: ConnectionOptions
    ) -> None:
        self._shared = shared
        self._options = options
        self._peer_host = peer_host
        self._socket = sock.dup()
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._sink: FrameSink | None = None
        self._rest = b""
        self._frame: bytearray | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._usual_bytes = 0
        self._paused_by_sink = False
        self._paused_by_budget = False
        self._out: deque[Part] = deque()
        self._head_sent = 0
        self.unsent_bytes = 0
        self._waits_for_room = False
        self._is_watched = False
        self._warming: asyncio.Task[None] | None = None
        self._closing = False
        self._closed = False
        self._was_active = True
        self._last_active_s = self._loop.time()

    # What the sink calls.

    @property
    def peer_host(self) -> str:
        return self._peer_host

    def bind(self, sink: FrameSink) -> None:
        """Say who takes the frames; before the first byte is read."""
        self._sink = sink

    def send(self, parts: Sequence[Part]) -> None:
        if self._closed:
            _release_slices(parts)
            return
        unsent_bytes = self.unsent_bytes
        for part in parts:
            unsent_bytes += SLICE_WEIGHT_BYTES if type(part) is FileSlice else len(part)
        self.unsent_bytes = unsent_bytes
        self._out.extend(parts)

    def flush(self) -> None:
        if self._out and not self._waits_for_room and self._warming is None and not self._closed:
            self._drain()

    def active_since(self, now_s: float) -> float:
        """When bytes last went either way, as near as the sweep asks, which gives the time.

        A clock that is read with each read and write would cost more than the exact time is worth.
        """
        if self._was_active:
            self._was_active = False
            self._last_active_s = now_s
        return self._last_active_s

    def frame_finished(self, frame: bytearray) -> None:
        if len(frame) > _LARGEST_STAGED_BYTES:
            self._shared.budget.give(len(frame))

    def pause_reading(self) -> None:
        self._paused_by_sink = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._paused_by_sink = False
        self._update_reading()

    def close(self, reason: str) -> None:
        if not self._closing and self._transport is not None:
            log.debug("%s: closing the connection: %s", self._peer_host, reason)
            self._closing = True
            self._transport.abort()

    # What the budget calls.

    def pause_for_budget(self) -> None:
        self._paused_by_budget = True
        self._update_reading()

    def resume_with_budget(self) -> None:
        self._paused_by_budget = False
        self._grow()
        self._update_reading()

    def _update_reading(self) -> None:
        if self._closing or self._transport is None:
            return
        if self._paused_by_sink or self._paused_by_budget:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        if self._closing:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the signature is asyncio's
        frame = self._frame
        if frame is not None:
            return memoryview(frame)[self._filled :]
        staging = self._shared.staging
        rest = self._rest
        if rest:
            staging[: len(rest)] = rest
            return staging[len(rest) :]
        if self._usual_bytes:
            # The next frame is probably large again: read its head only, and the rest straight into its own buffer.
            return self._shared.head
        return staging

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        self._was_active = True
        shared = self._shared
        shared.traffic.received_bytes += nbytes
        if shared.sends is not None and shared.sends.is_waiting:
            shared.sends.send_overdue()
        sink = self._sink
        assert sink is not None
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == self._frame_bytes:
                frame = self._frame
                self._frame = None
                self._usual_bytes = min(self._frame_bytes, _TRUSTED_BYTES)
                self._shared.budget.complete(self)
                sink.frame_received(frame)
                self._frames_done(sink)
            elif self._filled == len(self._frame):
                self._grow()
            return
        end = len(self._rest) + nbytes
        self._cut_frames(sink, end)
        if not self._closing:
            self._frames_done(sink)

    def _frames_done(self, sink: FrameSink) -> None:
        sends = self._shared.sends
        if sends is None:
            sink.frames_done()
        else:
            sends.add(self)

    def send_gathered(self) -> None:
        """See `Sender`."""
        if not self._closing and self._sink is not None:
            self._sink.frames_done()

    def _cut_frames(self, sink: FrameSink, end: int) -> None:
        """Hand over the whole frames in the first `end` bytes of the staging area and keep the rest."""
        # The array and not its view: a slice of it is a frame already.
        staged = self._shared.staged
        limit = self._options.max_frame_bytes
        position = 0
        while end - position >= _SIZE_BYTES:
            (size,) = _unpack_size(staged, position)
            if not 0 < size <= limit:
                self._rest = b""
                self.close(f"a frame of {size} bytes was announced; allowed are 1 to {limit}")
                return
            start = position + _SIZE_BYTES
            if start + size > end:
                if size > _LARGEST_STAGED_BYTES:
                    self._begin_frame(size, self._shared.staging[start:end])
                    self._rest = b""
                    return
                break
            position = start + size
            self._usual_bytes = 0
            sink.frame_received(staged[start:position])
            if self._closing:
                return
        self._rest = bytes(staged[position:end]) if position < end else b""

    def _begin_frame(self, size: int, arrived: memoryview) -> None:
        """Give a frame that is not whole yet its own buffer."""
        self._frame_bytes = size
        self._filled = len(arrived)
        capacity = min(size, max(self._filled * _GROWTH, STAGING_BYTES, self._usual_bytes))
        if not self._shared.budget.take(self, capacity):
            # What has arrived is held in any case; more is read when there is room.
            capacity = max(self._filled, 1)
            self._shared.budget.hold(capacity)
            self.pause_for_budget()
        frame = bytearray(capacity)
        frame[: self._filled] = arrived
        self._frame = frame

    def _grow(self) -> None:
        frame = self._frame
        if frame is None or self._filled < len(frame):
            return
        capacity = min(self._frame_bytes, max(len(frame) * 2, min(len(frame) * _GROWTH, _TRUSTED_BYTES)))
        if not self._shared.budget.take(self, capacity - len(frame)):
            self.pause_for_budget()
            return
        larger = bytearray(capacity)
        larger[: self._filled] = frame
        self._frame = larger

    @property
    def holds_partial_frame(self) -> bool:
        return self._frame is not None

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        if self._closed:
            return
        self._closing = self._closed = True
        if self._is_watched:
            self._shared.room.forget(self._socket.fileno())
        if self._warming is None:
            self._drop_output()
        # First of all: the memory that it gives back must not be given to itself.
        self._shared.budget.forget(self)
        if self._frame is not None:
            self._shared.budget.give(len(self._frame))
            self._frame = None
        self._shared.forget(self)
        if self._shared.sends is not None:
            self._shared.sends.forget(self)
        # Both know this connection: were they kept, all three would be garbage that the loop has to wait for.
        sink, self._sink, self._transport = self._sink, None, None
        if sink is not None:
            sink.disconnected()

    def _drop_output(self) -> None:
        _release_slices(self._out)
        self._out.clear()
        self.unsent_bytes = 0
        self._socket.close()

    # Sending.

    def _drain(self) -> None:
        """Send until the queue is empty, the peer is slow, or this turn of the loop has had its share."""
        out = self._out
        share = _SENDFILE_BYTES
        try:
            while out:
                head: Any = out[0]
                if type(head) is FileSlice:
                    if share <= 0:
                        break
                    if self._head_sent == 0 and not head.file.is_cached(head.position, head.size):
                        self._warming = self._loop.create_task(self._warm(head))
                        self._waits_for_room = False
                        return
                    asked = min(head.size - self._head_sent, _SENDFILE_BYTES)
                    sent = self._send_slice(head, asked)
                    if sent < asked:
                        self._wait_for_room(is_known_full=False)
                        return
                    share -= sent
                elif len(out) == 1 and not self._head_sent:
                    # One answer to a peer that takes it whole: the way of most.
                    sent = self._socket.send(head, _NOW)
                    if sent == len(head):
                        out.clear()
                    else:
                        self._head_sent = sent
                    self._count_sent(sent)
                else:
                    self._send_bytes()
        except (BlockingIOError, InterruptedError):
            self._wait_for_room()
            return
        except OSError as error:
            self.close(f"sending failed: {error}")
            return
        if out:
            # There may be room, of which nobody would tell.
            self._waits_for_room = True
            self._loop.call_soon(self._on_room)
            return
        self._waits_for_room = False
        if self._sink is not None:
            self._sink.drained()

    def _send_bytes(self) -> None:
        out = self._out
        buffers: list[Any] = []
        flags = _NOW
        for part in out:
            if type(part) is FileSlice:
                flags = _NOW_WITH_MORE
                break
            buffers.append(part)
            if len(buffers) == _BUFFERS_A_CALL:
                break
        if self._head_sent:
            buffers[0] = memoryview(buffers[0])[self._head_sent :]
        sent = self._socket.sendmsg(buffers, (), flags) if len(buffers) > 1 else self._socket.send(buffers[0], flags)
        self._count_sent(sent)
        for buffer in buffers:
            size = len(buffer)
            if sent < size:
                self._head_sent += sent
                return
            sent -= size
            self._head_sent = 0
            out.popleft()

    def _count_sent(self, sent: int) -> None:
        self._shared.traffic.sent_bytes += sent
        self.unsent_bytes -= sent
        self._was_active = True

    def _send_slice(self, head: FileSlice, asked: int) -> int:
        """Send up to so many bytes of what is left of it. Less means that the socket is full or the file ended."""
        left = head.size - self._head_sent
        sent = os.sendfile(self._socket.fileno(), head.file.fileno(), head.position + self._head_sent, asked)
        if sent == 0:
            raise OSError(f"{head.file.path} ended {left} bytes before the {head.size} that were announced")
        traffic = self._shared.traffic
        traffic.sent_bytes += sent
        traffic.sendfile_bytes += sent
        traffic.sendfile_calls += 1
        self._was_active = True
        if sent == left:
            self._out.popleft()
            self._head_sent = 0
            self.unsent_bytes -= SLICE_WEIGHT_BYTES
            head.release()
        else:
            self._head_sent += sent
        return sent

    async def _warm(self, head: FileSlice) -> None:
        """Have the slice read ahead, then go on sending."""
        error: Exception | None = None
        try:
            await self._shared.warm(head)
            self._shared.traffic.slices_read_ahead += 1
        except Exception as caught:  # noqa: BLE001 - the peer would wait for good
            error = caught
        finally:
            self._warming = None
            if self._closed:
                self._drop_output()
        if error is not None:
            self.close(f"reading {head.file.path} failed: {error}")
        elif not self._closed:
            self._send_warmed(head)

    def _send_warmed(self, head: FileSlice) -> None:
        """Send the first piece without asking again: under memory pressure the pages may already be gone."""
        try:
            self._send_slice(head, min(head.size, _SENDFILE_BYTES))
        except (BlockingIOError, InterruptedError):
            self._wait_for_room()
            return
        except OSError as error:
            self.close(f"sending failed: {error}")
            return
        self._drain()

    def _wait_for_room(self, *, is_known_full: bool = True) -> None:
        """Go on when there is room: that it was full, the kernel has said, or the socket only took less than asked."""
        self._waits_for_room = True
        try:
            if not self._is_watched:
                self._shared.room.watch(self._socket.fileno(), self._on_room)
                self._is_watched = True
            elif not is_known_full:
                self._shared.room.ask_again(self._socket.fileno())
        except OSError as error:
            self.close(f"a slow peer cannot be waited for: {error}")

    def _on_room(self) -> None:
        if self._waits_for_room and not self._closed:
            self._drain()


def _release_slices(parts: Iterable[Part]) -> None:
    for part in parts:
        if type(part) is FileSlice:
            part.release()
