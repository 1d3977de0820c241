"""One connection of the machine's network and a peer that reads when the test says so.

Both ends are in this process, so that what fits between them is known: the peer's end takes nothing by itself.
"""

import asyncio
import errno
import gc
import itertools
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.runtime import socket_connection
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import File, FileSlice
from barnabas.runtime.network import ConnectionOptions, Part, TrafficCount
from barnabas.runtime.receive_budget import ReceiveBudget
from barnabas.runtime.socket_connection import STAGING_BYTES, SharedBuffers, SocketConnection
from barnabas.runtime.socket_protocol import SocketProtocol
from barnabas.runtime.socket_room import SocketRoom
from tests.support.file_around import FileAround
from tests.support.lifetime import watch
from tests.unit.runtime.test_socket_network import Pin, Sink, framed, until

BETWEEN_BYTES = 64 * 1024
"""About what the kernel keeps between the ends; Linux makes it up to twice as much."""
MUCH_BYTES = 1_000_000
DATA_SEGMENTS_SENT_AT = 156
"""Where tcpi_data_segs_out stands in Linux' struct tcp_info."""


class CountingSink(Sink):
    """Knows how many reads brought its frames."""

    reads = 0

    def frames_done(self) -> None:
        self.reads += 1
        super().frames_done()


class Device:
    """Where slices are read ahead from; it answers when the test lets it."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = 0
        self.error: Exception | None = None

    async def read_ahead(self, part: FileSlice) -> None:
        self.asked += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        part.file.read_ahead(part.position, part.size)


class Wire:
    """A connection and the other end of its socket."""

    def __init__(self, own: socket.socket, peer: socket.socket) -> None:
        own.setblocking(False)
        peer.setblocking(False)
        self.own, self.peer = own, peer
        self.traffic = TrafficCount()
        self.budget = ReceiveBudget(1 << 28)
        self.device = Device()
        shared = SharedBuffers(
            budget=self.budget,
            traffic=self.traffic,
            warm=self.device.read_ahead,
            forget=lambda _: None,
            gathers=True,
        )
        options = ConnectionOptions(max_frame_bytes=1 << 26, idle_ms=60_000)
        self.connection = SocketConnection(shared, own, "peer", options)
        self.sink = CountingSink(self.connection)
        self.connection.bind(self.sink)

    def send(self, parts: Sequence[Part]) -> None:
        self.connection.send(parts)
        self.connection.flush()

    async def brings(self, expected: bytes) -> bool:
        """Whether exactly that is what the peer reads next: pytest takes long to show where so many bytes differ."""
        loop = asyncio.get_running_loop()
        got = bytearray()
        async with asyncio.timeout(10):
            while len(got) < len(expected) and (more := await loop.sock_recv(self.peer, len(expected) - len(got))):
                got += more
        return got == expected


async def unix_wire() -> Wire:
    own, peer = socket.socketpair()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BETWEEN_BYTES)
    wire = Wire(own, peer)
    await asyncio.get_running_loop().create_unix_connection(lambda: SocketProtocol(wire.connection), sock=own)
    return wire


async def tcp_wire() -> Wire:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        own, _ = server.accept()
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire = Wire(own, peer)
    await asyncio.get_running_loop().create_connection(lambda: SocketProtocol(wire.connection), sock=own)
    return wire


OpenWire = Callable[..., Awaitable[Wire]]


@pytest.fixture
async def open_wire() -> AsyncIterator[OpenWire]:
    opened: list[tuple[socket.socket, asyncio.Event]] = []

    async def start(kind: Callable[[], Awaitable[Wire]] = unix_wire) -> Wire:
        wire = await kind()
        # Not the wire itself: a test looks whether anybody keeps its connection.
        opened.append((wire.peer, wire.sink.gone))
        return wire

    yield start
    for peer, gone in opened:
        peer.close()
        await asyncio.wait_for(gone.wait(), 5)


def numbered(size: int) -> bytes:
    """Bytes in which no place looks like another."""
    return b"".join(struct.pack(">I", number) for number in range(size // 4))


MUCH = numbered(MUCH_BYTES)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    path = tmp_path / "segment"
    path.write_bytes(MUCH)
    file = SystemDisk().open(str(path), writable=False)
    yield file
    file.close()


class FarFile(FileAround):
    """A file whose pages are never found in memory."""

    def is_cached(self, position: int, size: int) -> bool:
        return False


def fill(sock: socket.socket) -> int:
    """Put in what fits between the ends; how many bytes that was."""
    filled = 0
    try:
        while True:
            filled += sock.send(b"x", socket.MSG_DONTWAIT)
    except BlockingIOError:
        return filled


WAYS: dict[str, Callable[[File], list[Part]]] = {
    "one part": lambda _: [MUCH],
    "many parts": lambda _: [MUCH[at : at + 10_000] for at in range(0, MUCH_BYTES, 10_000)],
    "a slice": lambda file: [FileSlice(file, 0, MUCH_BYTES)],
    "parts and slices": lambda file: [MUCH[:400_000], FileSlice(file, 400_000, 200_000), MUCH[600_000:]],
}
every_way = pytest.mark.parametrize("parts_of", WAYS.values(), ids=WAYS)


@every_way
async def test_what_the_peer_takes_in_pieces_arrives_whole_and_weighs_nothing_after(
    open_wire: OpenWire, file: File, parts_of: Callable[[File], list[Part]]
) -> None:
    wire = await open_wire()
    wire.send(parts_of(file))
    assert 0 < wire.traffic.sent_bytes < MUCH_BYTES, "the peer must not take it at once"
    assert wire.connection.unsent_bytes > 0
    assert await wire.brings(MUCH)
    await asyncio.wait_for(wire.sink.empty.wait(), 5)
    assert wire.connection.unsent_bytes == 0
    wire.send([b"next"])
    assert await wire.brings(b"next")


async def test_slices_that_were_sent_do_not_weigh_on_the_connection(open_wire: OpenWire, file: File) -> None:
    wire = await open_wire()
    for position in range(0, 20_000, 100):
        wire.send([b"head", FileSlice(file, position, 100)])
        assert await wire.brings(b"head" + MUCH[position : position + 100])
    assert wire.connection.unsent_bytes == 0


@every_way
async def test_what_a_slow_reader_takes_keeps_its_connection_from_being_idle(
    open_wire: OpenWire, file: File, parts_of: Callable[[File], list[Part]]
) -> None:
    wire = await open_wire()
    assert wire.connection.active_since(1.0) == 1.0
    assert wire.connection.active_since(2.0) == 1.0
    wire.send(parts_of(file))
    assert wire.connection.active_since(3.0) == 3.0
    before = wire.traffic.sent_bytes
    assert wire.connection.active_since(4.0) == 3.0, "the peer has taken nothing more"
    assert await wire.brings(MUCH[:before])
    await until(lambda: wire.traffic.sent_bytes > before)
    assert wire.connection.active_since(5.0) == 5.0


async def test_a_connection_that_is_closed_on_a_slow_peer_leaves_no_writer_in_the_loop(open_wire: OpenWire) -> None:
    wire = await open_wire()
    wire.send([MUCH])
    assert wire.connection.unsent_bytes > 0, "the peer must not take it at once"
    # From its next turn on the loop watches the socket.
    await asyncio.sleep(0)
    is_there, gone = watch(wire.connection), wire.sink.gone
    gc.disable()
    try:
        # By us: where the peer is gone the loop lets go of the socket by itself.
        wire.connection.close("it is slow")
        del wire
        await asyncio.wait_for(gone.wait(), 5)
        await until(lambda: not is_there())
    finally:
        gc.enable()


async def test_a_slice_that_was_read_ahead_waits_for_a_peer_that_became_slow_meanwhile(
    open_wire: OpenWire, file: File
) -> None:
    wire = await open_wire()
    wire.device.answers.clear()
    wire.send([FileSlice(FarFile(file), 0, 300_000)])
    await asyncio.sleep(0)
    assert wire.traffic.sendfile_calls == 0, "the slice must be read ahead first"
    filled = fill(wire.own)
    wire.device.answers.set()
    await until(lambda: wire.traffic.slices_read_ahead == 1)
    assert wire.traffic.sendfile_calls == 0, "there must be no room"
    assert await wire.brings(b"x" * filled + MUCH[:300_000])
    assert wire.connection.unsent_bytes == 0


async def test_a_slice_is_held_until_the_last_of_it_was_sent(open_wire: OpenWire, file: File) -> None:
    wire = await open_wire()
    pin = Pin()
    wire.send([FileSlice(file, 0, MUCH_BYTES, pin)])
    assert wire.connection.unsent_bytes > 0, "the peer must not take it at once"
    assert pin.count == 1
    assert await wire.brings(MUCH)
    await until(lambda: pin.count == 0)
    assert wire.connection.unsent_bytes == 0


async def test_room_that_comes_while_a_slice_is_read_ahead_does_not_have_it_read_again(
    open_wire: OpenWire, file: File
) -> None:
    wire = await open_wire()
    wire.device.answers.clear()
    wire.send([FileSlice(file, 0, 300_000), FileSlice(FarFile(file), 300_000, 300_000)])
    assert wire.device.asked == 0, "the first must wait for room"
    # The last of it is between the ends when the second is asked for, and makes room as it is read.
    assert await wire.brings(MUCH[:300_000])
    await until(lambda: wire.device.asked > 0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert wire.device.asked == 1
    wire.device.answers.set()
    assert await wire.brings(MUCH[300_000:600_000])
    assert wire.traffic.slices_read_ahead == 1


async def test_a_connection_that_ends_while_a_slice_is_read_ahead_lets_go_of_all(
    open_wire: OpenWire, file: File
) -> None:
    wire = await open_wire()
    wire.device.answers.clear()
    pin = Pin()
    wire.send([FileSlice(FarFile(file), 0, 300_000, pin), b"tail", FileSlice(file, 0, 10, pin)])
    await until(lambda: wire.device.asked == 1)
    wire.connection.close("it is not wanted any more")
    await asyncio.wait_for(wire.sink.gone.wait(), 5)
    assert pin.count == 2, "the file is being read"
    wire.device.answers.set()
    await until(lambda: pin.count == 0)
    assert wire.connection._socket.fileno() == -1


@pytest.mark.parametrize(
    "error", [OSError(5, "gone"), RuntimeError("the offload is closed")], ids=["device", "offload"]
)
async def test_a_connection_ends_whose_slice_cannot_be_read_ahead(
    open_wire: OpenWire, file: File, error: Exception
) -> None:
    wire = await open_wire()
    wire.device.error = error
    wire.send([FileSlice(FarFile(file), 0, 300_000)])
    async with asyncio.timeout(10):
        assert await asyncio.get_running_loop().sock_recv(wire.peer, 1) == b""
    assert wire.connection.unsent_bytes == 0


@pytest.mark.interpreted
async def test_a_connection_with_many_slices_sends_a_share_in_each_turn_and_lets_others_go_on(
    open_wire: OpenWire, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = 4096
    # As long as it is, it does not fit between two ends on every machine.
    monkeypatch.setattr(socket_connection, "_SENDFILE_BYTES", share)
    wire = await open_wire()
    loop = asyncio.get_running_loop()
    sent = [0]

    def watch() -> None:
        sent.append(wire.traffic.sendfile_bytes)
        if sent[-1] < 40_000:
            loop.call_soon(watch)

    wire.send([FileSlice(file, position, 1000) for position in range(0, 40_000, 1000)])
    watch()
    assert await wire.brings(MUCH[:40_000])
    await until(lambda: sent[-1] == 40_000)
    assert max(later - earlier for earlier, later in itertools.pairwise(sent)) <= share + 1000


@pytest.mark.parametrize("around", [lambda file: file, FarFile], ids=["in memory", "read ahead"])
async def test_of_a_slice_the_kernel_is_asked_for_a_mebibyte_at_a_time(
    open_wire: OpenWire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, around: Callable[[File], File]
) -> None:
    path = tmp_path / "large"
    path.write_bytes(MUCH * 3)
    file = SystemDisk().open(str(path), writable=False)
    wire = await open_wire()
    asked: list[int] = []
    sendfile = os.sendfile

    def asking(to: int, source: int, position: int, size: int) -> int:
        if to == wire.connection._socket.fileno():
            asked.append(size)
        return sendfile(to, source, position, size)

    monkeypatch.setattr(os, "sendfile", asking)
    wire.send([FileSlice(around(file), 0, 3 * MUCH_BYTES)])
    assert await wire.brings(MUCH * 3)
    assert max(asked) == 1 << 20
    file.close()


async def test_a_head_and_its_slice_leave_in_one_segment(open_wire: OpenWire, file: File) -> None:
    wire = await open_wire(tcp_wire)

    def segments() -> int:
        info = wire.own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
        return int(struct.unpack_from("=I", info, DATA_SEGMENTS_SENT_AT)[0])

    wire.send([b"alone"])
    assert await wire.brings(b"alone")
    assert segments() == 1
    wire.send([b"head", FileSlice(file, 0, 3000)])
    assert await wire.brings(b"head" + MUCH[:3000])
    assert segments() == 2
    wire.send([b"first", b"second", FileSlice(file, 0, 3000)])
    assert await wire.brings(b"firstsecond" + MUCH[:3000])
    assert segments() == 3


async def test_small_frames_after_a_large_one_come_many_in_a_read_again(open_wire: OpenWire) -> None:
    wire = await open_wire()
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(wire.peer, framed(MUCH))
    await until(lambda: len(wire.sink.frames) == 1)
    await loop.sock_sendall(wire.peer, framed(b"small"))
    await until(lambda: len(wire.sink.frames) == 2)
    wire.sink.reads = 0
    # At once into the socket, so that it can be read at once.
    wire.peer.sendall(framed(b"x" * 96) * 100)
    await until(lambda: len(wire.sink.frames) == 102)
    assert wire.sink.reads == 1


async def test_a_large_frame_is_trusted_only_right_after_another(open_wire: OpenWire) -> None:
    wire = await open_wire()
    loop = asyncio.get_running_loop()
    begun = struct.pack(">i", MUCH_BYTES) + b"begun"
    await loop.sock_sendall(wire.peer, framed(MUCH) + begun)
    await until(lambda: len(wire.sink.frames) == 1 and wire.budget.used_bytes > 0)
    assert wire.budget.used_bytes == MUCH_BYTES
    await loop.sock_sendall(wire.peer, MUCH[5:] + framed(b"small"))
    await until(lambda: len(wire.sink.frames) == 3 and wire.budget.used_bytes == 0)
    await loop.sock_sendall(wire.peer, begun)
    await until(lambda: wire.budget.used_bytes > 0)
    assert wire.budget.used_bytes == STAGING_BYTES


async def test_a_peer_of_large_frames_is_trusted_with_a_mebibyte_and_no_more(open_wire: OpenWire) -> None:
    wire = await open_wire()
    loop = asyncio.get_running_loop()
    large = bytes(3_000_000)
    await loop.sock_sendall(wire.peer, framed(large))
    await until(lambda: len(wire.sink.frames) == 1 and wire.budget.used_bytes == 0)
    await loop.sock_sendall(wire.peer, struct.pack(">i", len(large)) + b"begun")
    await until(lambda: wire.budget.used_bytes > 0)
    assert wire.budget.used_bytes == 1 << 20


async def test_a_frame_begins_with_four_times_what_has_arrived(open_wire: OpenWire) -> None:
    wire = await open_wire()
    arrived = 60_000
    await asyncio.get_running_loop().sock_sendall(wire.peer, struct.pack(">i", 3_000_000) + bytes(arrived))
    await until(lambda: wire.connection._filled == arrived)
    assert arrived < wire.budget.used_bytes <= 4 * arrived


async def test_a_file_that_ends_while_a_slow_peer_takes_it_ends_the_connection(
    open_wire: OpenWire, tmp_path: Path
) -> None:
    path = tmp_path / "cut"
    path.write_bytes(MUCH)
    file = SystemDisk().open(str(path))
    # TCP tells of room only who was told that there was none.
    wire = await open_wire(tcp_wire)
    wire.own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BETWEEN_BYTES)
    wire.send([FileSlice(file, 0, MUCH_BYTES)])
    begun = wire.traffic.sent_bytes
    assert 0 < begun < MUCH_BYTES, "the peer must not take it at once"
    # It fits in whole, so that the kernel never says that there is no room.
    file.truncate(begun + 1000)
    assert await wire.brings(MUCH[: begun + 1000])
    await asyncio.wait_for(wire.sink.gone.wait(), 5)
    file.close()


@pytest.mark.interpreted
async def test_a_slow_peer_that_cannot_be_waited_for_is_given_up(
    open_wire: OpenWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: object) -> None:
        raise OSError(errno.ENOSPC, "too many are watched")

    monkeypatch.setattr(SocketRoom, "watch", watch)
    wire = await open_wire()
    wire.send([MUCH])
    await asyncio.wait_for(wire.sink.gone.wait(), 5)
