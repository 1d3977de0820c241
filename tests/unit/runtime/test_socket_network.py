"""Connections of the machine's network, over real loopback sockets and under uvloop."""

import asyncio
import contextlib
import gc
import os
import random
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from barnabas.runtime import socket_network
from barnabas.runtime.disk import SystemDisk
from barnabas.runtime.files import FileSlice
from barnabas.runtime.network import (
    Connection,
    ConnectionGate,
    ConnectionLimits,
    ConnectionOptions,
    PeerOptions,
)
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.socket_network import SocketListener, SocketNetwork
from barnabas.runtime.tasks import Supervisor
from tests.support.lifetime import watch
from tests.unit.runtime.test_within_host import PACES, control_of


class Sink:
    """Keeps what it is told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.arrived = asyncio.Event()
        self.gone = asyncio.Event()
        self.empty = asyncio.Event()

    def frame_received(self, frame: bytearray) -> None:
        self.frames.append(bytes(frame))
        self.connection.frame_finished(frame)
        self.arrived.set()

    def frames_done(self) -> None:
        self.connection.flush()

    def drained(self) -> None:
        self.empty.set()

    def disconnected(self) -> None:
        self.gone.set()


class Side:
    """A listening network and the sinks of its connections."""

    def __init__(self, network: SocketNetwork) -> None:
        self.network = network
        self.sinks: list[Sink] = []
        self.listener: SocketListener | None = None

    def accept(self, connection: Connection) -> Sink:
        self.sinks.append(Sink(connection))
        return self.sinks[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Sink]:
        assert self.listener is not None
        before = len(self.sinks)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        await until(lambda: len(self.sinks) > before)
        return reader, writer, self.sinks[before]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


Open = Callable[..., "asyncio.Future[Side]"]


@pytest.fixture
async def open_side() -> AsyncIterator[Callable[..., object]]:
    failures: list[str] = []
    supervisor = Supervisor(lambda what, error: failures.append(f"{what}: {error!r}"))
    offload = SystemOffload()
    sides: list[Side] = []

    async def start(
        *, budget: int = 1 << 28, frame: int = 1 << 26, idle_ms: int = 60_000, total: int = 100, per_host: int = 100
    ) -> Side:
        network = SocketNetwork(
            options=ConnectionOptions(max_frame_bytes=frame, idle_ms=idle_ms),
            gate=ConnectionGate(ConnectionLimits(total, per_host, {})),
            offload=offload,
            supervisor=supervisor,
            receive_budget_bytes=budget,
        )
        side = Side(network)
        side.listener = await network.listen("127.0.0.1", 0)
        side.listener.start(side.accept)
        sides.append(side)
        return side

    yield start
    for side in sides:
        side.network.close()
    await supervisor.stop()
    offload.close()
    assert failures == []


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


async def test_frames_arrive_whole_however_the_stream_is_cut(open_side, seed: int) -> None:
    rng = random.Random(seed)
    side = await open_side()
    _, writer, sink = await side.connect()
    bodies = [rng.randbytes(rng.choice([1, 3, 100, 5000, 65_532, 65_533, 200_000])) for _ in range(60)]
    stream = b"".join(framed(body) for body in bodies)
    position = 0
    while position < len(stream):
        step = rng.choice([1, 2, 3, 5, 100, 4096, 70_000])
        writer.write(stream[position : position + step])
        await writer.drain()
        if rng.random() < 0.2:
            await asyncio.sleep(0)
        position += step
    await until(lambda: len(sink.frames) == len(bodies))
    assert sink.frames == bodies
    assert side.network.budget.used_bytes == 0, side.network.budget.used_bytes
    writer.close()


@pytest.mark.parametrize("announced", [0, -1, (1 << 26) + 1, (1 << 31) - 1])
async def test_an_impossible_frame_size_closes_the_connection_and_allocates_nothing(open_side, announced: int) -> None:
    side = await open_side()
    reader, writer, sink = await side.connect()
    writer.write(struct.pack(">i", announced))
    assert await reader.read() == b""
    await asyncio.wait_for(sink.gone.wait(), 5)
    assert sink.frames == []
    assert side.network.budget.used_bytes == 0, side.network.budget.used_bytes


async def test_memory_follows_what_arrived_and_not_what_was_announced(open_side) -> None:
    side = await open_side()
    _, writer, sink = await side.connect()
    writer.write(struct.pack(">i", 1 << 26) + b"x" * 1000)
    await until(lambda: side.network.budget.used_bytes > 0)
    assert side.network.budget.used_bytes <= 64 * 1024
    writer.close()
    await asyncio.wait_for(sink.gone.wait(), 5)
    assert side.network.budget.used_bytes == 0, side.network.budget.used_bytes


async def test_a_large_frame_that_comes_slowly_holds_at_most_twice_what_has_arrived(open_side) -> None:
    side = await open_side()
    _, writer, sink = await side.connect()
    mebibyte = 1 << 20
    writer.write(struct.pack(">i", 1 << 26))
    held: list[int] = []
    for _ in range(34):
        writer.write(bytes(mebibyte))
        await writer.drain()
        # Its buffer is never full: what has arrived is in it when it is larger.
        await until(lambda: side.network.budget.used_bytes > (len(held) + 1) * mebibyte)
        held.append(side.network.budget.used_bytes)
    assert all(size <= 2 * arrived * mebibyte for arrived, size in enumerate(held, 1)), held
    writer.close()
    await asyncio.wait_for(sink.gone.wait(), 5)


async def test_bytes_and_slices_leave_in_the_order_of_send(open_side, tmp_path: Path) -> None:
    side = await open_side()
    reader, writer, sink = await side.connect()
    content = os.urandom(3_000_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    file = SystemDisk().open(str(path), writable=False)
    expected = bytearray()
    for index in range(20):
        start, size = index * 1000, 140_000 * (1 + index % 3)
        sink.connection.send([b"head%d" % index, FileSlice(file, start, size), b"tail"])
        expected += b"head%d" % index + content[start : start + size] + b"tail"
    sink.connection.flush()
    assert await asyncio.wait_for(reader.readexactly(len(expected)), 10) == expected
    assert side.network.traffic.sendfile_bytes == sum(140_000 * (1 + index % 3) for index in range(20))
    writer.close()


class Pin:
    def __init__(self) -> None:
        self.count = 0

    def pin(self) -> None:
        self.count += 1

    def unpin(self) -> None:
        self.count -= 1


async def test_a_peer_that_never_reads_lets_go_of_its_slices_when_it_leaves(open_side, tmp_path: Path) -> None:
    side = await open_side()
    _, writer, sink = await side.connect()
    path = tmp_path / "segment"
    path.write_bytes(bytes(64_000_000))
    file = SystemDisk().open(str(path), writable=False)
    pin = Pin()
    sink.connection.send([FileSlice(file, 0, 64_000_000, pin), FileSlice(file, 0, 10, pin)])
    sink.connection.flush()
    await asyncio.sleep(0.05)
    assert pin.count == 2
    writer.transport.abort()
    await asyncio.wait_for(sink.gone.wait(), 5)
    await until(lambda: pin.count == 0)


async def test_a_file_shorter_than_announced_closes_the_connection(open_side, tmp_path: Path) -> None:
    side = await open_side()
    reader, _, sink = await side.connect()
    path = tmp_path / "segment"
    path.write_bytes(b"abc")
    pin = Pin()
    sink.connection.send([FileSlice(SystemDisk().open(str(path)), 0, 10, pin)])
    sink.connection.flush()
    assert await asyncio.wait_for(reader.read(), 5) == b"abc"
    await until(lambda: pin.count == 0)


async def test_a_spent_budget_stops_reading_until_others_are_done(open_side) -> None:
    side = await open_side(budget=200_000)
    _, first, first_sink = await side.connect()
    _, second, second_sink = await side.connect()
    _, third, third_sink = await side.connect()
    for writer in (first, second, third):
        writer.write(struct.pack(">i", 1_000_000) + b"x" * 500_000)
    await until(lambda: side.network.budget.is_contended)
    assert side.network.budget.used_bytes < 200_000 + 1_000_000 + 2 * 65_536
    for writer in (first, second, third):
        writer.write(b"x" * 500_000)
    await until(lambda: all(sink.frames for sink in (first_sink, second_sink, third_sink)))
    assert side.network.budget.used_bytes == 0, side.network.budget.used_bytes
    for writer in (first, second, third):
        writer.close()


async def test_neither_end_of_a_connection_within_the_host_is_paced(open_side) -> None:
    """As far as the host's default paces."""
    side = await open_side()
    assert side.listener is not None
    connection = await side.network.connect(
        "127.0.0.1", side.listener.port, Sink, options=PeerOptions(max_frame_bytes=1024, user_timeout_ms=1000)
    )
    await until(lambda: bool(side.sinks))
    # A socket that was paced once stays so: what is accepted must be born with it.
    ends = (side.listener._socket, side.sinks[0].connection._socket, connection._socket)
    assert PACES not in map(control_of, ends)


async def test_an_idle_connection_is_closed(open_side) -> None:
    side = await open_side(idle_ms=200)
    reader, _, _ = await side.connect()
    assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_connection_that_ended_is_not_left_to_the_collector(open_side) -> None:
    side = await open_side()
    _, writer, sink = await side.connect()
    writer.write(framed(b"hello"))
    await until(lambda frames=sink.frames: frames == [b"hello"])
    is_there = watch(sink.connection)
    gone = sink.gone
    side.sinks.clear()
    gc.disable()
    try:
        del sink
        writer.transport.abort()
        await asyncio.wait_for(gone.wait(), 5)
        await until(lambda: not is_there())
    finally:
        gc.enable()


async def test_an_address_with_its_share_is_refused_and_others_wait_for_room(open_side) -> None:
    side = await open_side(per_host=1)
    _, writer, _ = await side.connect()
    assert side.listener is not None
    reader, _ = await asyncio.open_connection("127.0.0.1", side.listener.port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()

    full = await open_side(total=1)
    _, first, _ = await full.connect()
    assert full.listener is not None
    _, waiting = await asyncio.open_connection("127.0.0.1", full.listener.port)
    waiting.write(framed(b"hello"))
    await asyncio.sleep(0.05)
    assert len(full.sinks) == 1
    first.close()
    await until(lambda: len(full.sinks) == 2 and full.sinks[1].frames == [b"hello"])


async def test_an_address_in_use_cannot_be_bound(open_side) -> None:
    side = await open_side()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            await side.network.listen("127.0.0.1", taken.getsockname()[1])


def sockets() -> int:
    """How many this process has open."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(entry.readlink()).startswith("socket:")
    return found


@pytest.mark.interpreted
async def test_a_connection_that_the_loop_does_not_take_leaves_nothing(open_side, monkeypatch) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    side = await open_side()
    monkeypatch.setattr(socket_network, "hand_over", refuse)
    sinks: list[Sink] = []

    def accept(connection: Connection) -> Sink:
        sinks.append(Sink(connection))
        return sinks[-1]

    port, options = side.listener.port, PeerOptions(max_frame_bytes=1024, user_timeout_ms=1000)
    before = sockets()
    with pytest.raises(OSError, match="Cannot allocate memory"):
        await side.network.connect("127.0.0.1", port, accept, options=options)
    await until(lambda: bool(side.sinks) and side.sinks[0].gone.is_set() and sockets() == before)
    assert sinks[0].gone.is_set()
    assert not side.network._peers


@pytest.mark.interpreted
async def test_nor_does_one_that_was_accepted_and_others_are_served(open_side, monkeypatch) -> None:
    side = await open_side()
    loop = asyncio.get_running_loop()

    class Loop:
        """It takes no socket."""

        async def connect_accepted_socket(self, *_: object) -> None:
            raise OSError(12, "Cannot allocate memory")

        def __getattr__(self, name: str) -> object:
            return getattr(loop, name)

    before = sockets()
    with monkeypatch.context() as patch:
        patch.setattr(socket_network.asyncio, "get_running_loop", Loop)
        _, writer = await asyncio.open_connection("127.0.0.1", side.listener.port)
        await until(lambda: bool(side.sinks) and side.sinks[0].gone.is_set())
    writer.close()
    await until(lambda: sockets() == before)
    assert not side.network._connections
    side.sinks.clear()
    _, writer, sink = await side.connect()
    writer.write(framed(b"hello"))
    await until(lambda: sink.frames == [b"hello"])
    writer.close()
