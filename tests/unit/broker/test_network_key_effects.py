"""What each key of listeners and connections does, over loopback sockets: from the text of the key to the peer."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from barnabas.runtime.network import Connection
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.tasks import Supervisor
from broker.config import resolve_broker_config
from broker.system_ports import open_network


class Sink:
    """Holds the frames that it gets, so that they count as unfinished."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytearray] = []

    def frame_received(self, frame: bytearray) -> None:
        self.frames.append(frame)

    def frames_done(self) -> None: ...

    def drained(self) -> None: ...

    def disconnected(self) -> None: ...


class Side:
    """A broker's listening sockets and what arrived at them."""

    def __init__(self, network: Any, port: int) -> None:
        self.network = network
        self.port = port
        self.sinks: list[Sink] = []

    def accept(self, connection: Connection) -> Sink:
        self.sinks.append(Sink(connection))
        return self.sinks[-1]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    @property
    def frames(self) -> int:
        return sum(len(sink.frames) for sink in self.sinks)


Open = Callable[..., Awaitable[Side]]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(10):
        try:
            return await reader.read(1) == b""
        except ConnectionError:
            return True


@pytest.fixture
async def open_side() -> AsyncIterator[Open]:
    supervisor = Supervisor(lambda what, error: pytest.fail(f"{what}: {error!r}"))
    offload = SystemOffload()
    networks = []

    async def start(**keys: str) -> Side:
        given = {name.replace("_", "."): text for name, text in keys.items()}
        config = resolve_broker_config({"zookeeper.connect": "z", "listeners": "PLAINTEXT://127.0.0.1:0"} | given)
        network = open_network(config, offload, supervisor)
        networks.append(network)
        (bound,) = config.listeners.bound
        listener = await network.listen(bound.host, bound.port)
        side = Side(network, listener.port)
        listener.start(side.accept)
        return side

    yield start
    for network in networks:
        network.close()
    await supervisor.stop()
    offload.close()


def frame(size: int) -> bytes:
    return struct.pack(">i", size) + b"x" * size


async def test_a_frame_of_the_greatest_size_is_taken_and_a_greater_one_ends_the_connection(open_side: Open) -> None:
    side = await open_side(socket_request_max_bytes="100")
    reader, writer = await side.connect()
    writer.write(frame(100))
    await until(lambda: side.frames == 1)
    writer.write(struct.pack(">i", 101))
    assert await is_closed(reader)
    writer.close()


async def test_no_more_connections_from_one_address_than_allowed(open_side: Open) -> None:
    side = await open_side(max_connections_per_ip="1")
    _, first = await side.connect()
    await until(lambda: len(side.sinks) == 1)
    reader, second = await side.connect()
    assert await is_closed(reader)
    first.close()
    second.close()


async def test_an_address_may_have_a_limit_of_its_own(open_side: Open) -> None:
    side = await open_side(max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.1:2")
    writers = [(await side.connect())[1] for _ in range(2)]
    await until(lambda: len(side.sinks) == 2)
    reader, third = await side.connect()
    assert await is_closed(reader)
    for writer in (*writers, third):
        writer.close()


async def test_connections_beyond_the_limit_wait_for_room(open_side: Open) -> None:
    side = await open_side(max_connections="1")
    _, first = await side.connect()
    await until(lambda: len(side.sinks) == 1)
    _, second = await side.connect()
    second.write(frame(3))
    await second.drain()
    assert len(side.sinks) == 1
    first.close()
    await until(lambda: side.frames == 1)
    second.close()


async def test_a_connection_on_which_nothing_happens_is_closed_after_its_time(open_side: Open) -> None:
    side = await open_side(connections_max_idle_ms="150")
    reader, writer = await side.connect()
    assert await is_closed(reader)
    writer.close()


async def test_requests_that_are_not_finished_are_bounded_in_all(open_side: Open) -> None:
    side = await open_side(queued_max_request_bytes="1000000", socket_request_max_bytes="1000000")
    peers = [await side.connect() for _ in range(8)]
    for _, writer in peers:
        writer.write(frame(900_000)[:450_000])
    await until(lambda: side.network.budget.is_contended)
    # One connection may go beyond the bound, so that there is always one that ends.
    assert side.network.budget.used_bytes < 1_000_000 + 900_000 + 8 * 65_536
    assert side.frames == 0
    for _, writer in peers:
        writer.write(b"x" * 450_004)
    finished = 0
    while finished < len(peers):
        for sink in side.sinks:
            while sink.frames:
                sink.connection.frame_finished(sink.frames.pop())
                finished += 1
        await asyncio.sleep(0.002)
    for _, writer in peers:
        writer.close()


@pytest.mark.parametrize(
    ("key", "option"),
    [("socket_send_buffer_bytes", socket.SO_SNDBUF), ("socket_receive_buffer_bytes", socket.SO_RCVBUF)],
)
async def test_socket_buffers_have_the_size_that_was_set(open_side: Open, key: str, option: int) -> None:
    side = await open_side(**{key: "30000"})
    _, writer = await side.connect()
    await until(lambda: len(side.sinks) == 1)
    transport = side.sinks[0].connection._transport  # type: ignore[attr-defined]
    # Linux doubles what it is asked for, for its own bookkeeping.
    assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option) in (30_000, 60_000)
    writer.close()


async def test_what_is_received_within_the_host_has_a_large_buffer_unless_it_is_left_to_the_system(
    open_side: Open,
) -> None:
    async def receive_bytes(**keys: str) -> int:
        side = await open_side(**keys)
        _, writer = await side.connect()
        await until(lambda: len(side.sinks) == 1)
        sock = side.sinks[0].connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
        size: int = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        writer.close()
        return size

    assert await receive_bytes() > await receive_bytes(socket_receive_buffer_bytes="-1")
