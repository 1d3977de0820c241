"""What every network does, the machine's and the simulated one: frames, slices, order, ends."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from barnabas.runtime.files import FileSlice
from barnabas.runtime.network import (
    Connection,
    ConnectionGate,
    ConnectionLimits,
    ConnectionOptions,
    Listener,
    Network,
    PeerOptions,
)
from barnabas.runtime.offload import SystemOffload
from barnabas.runtime.socket_network import SocketNetwork
from barnabas.runtime.tasks import Supervisor
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.wires import Wires

MAX_FRAME_BYTES = 1 << 20
PEER = PeerOptions(max_frame_bytes=MAX_FRAME_BYTES, user_timeout_ms=10_000)


class Sink:
    """Keeps what it is told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.is_gone = False

    def frame_received(self, frame: bytearray) -> None:
        assert not self.is_gone
        self.frames.append(bytes(frame))
        self.connection.frame_finished(frame)

    def frames_done(self) -> None:
        self.connection.flush()

    def drained(self) -> None:
        pass

    def disconnected(self) -> None:
        assert not self.is_gone, "told twice"
        self.is_gone = True


class Place:
    """Two networks, a listener of the first, and connections from the second to it."""

    def __init__(self, server: Network, client: Network) -> None:
        self.server, self.client = server, client
        self.accepted: list[Sink] = []
        self.listener: Listener | None = None

    async def listen(self) -> None:
        self.listener = await self.server.listen("127.0.0.1", 0)
        self.listener.start(self._accept)

    def _accept(self, connection: Connection) -> Sink:
        self.accepted.append(Sink(connection))
        return self.accepted[-1]

    async def connect(self) -> tuple[Sink, Sink]:
        """Our end and theirs."""
        assert self.listener is not None
        made: list[Sink] = []

        def accept(connection: Connection) -> Sink:
            made.append(Sink(connection))
            return made[0]

        count = len(self.accepted)
        await self.client.connect("127.0.0.1", self.listener.port, accept, options=PEER)
        await until(lambda: len(self.accepted) > count)
        return made[0], self.accepted[-1]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


def frame(body: bytes) -> list[bytes]:
    return [len(body).to_bytes(4, "big"), body]


Story = Callable[[Place], Awaitable[None]]


def on_sockets(story: Story) -> None:
    async def run() -> None:
        failures: list[str] = []
        supervisor = Supervisor(lambda what, error: failures.append(f"{what}: {error!r}"))
        offload = SystemOffload()
        networks = [
            SocketNetwork(
                options=ConnectionOptions(max_frame_bytes=MAX_FRAME_BYTES, idle_ms=60_000),
                gate=ConnectionGate(ConnectionLimits(100, 100, {})),
                offload=offload,
                supervisor=supervisor,
                receive_budget_bytes=1 << 24,
            )
            for _ in range(2)
        ]
        place = Place(*networks)
        await place.listen()
        try:
            await story(place)
        finally:
            for network in networks:
                network.close()
            await supervisor.stop()
            offload.close()
        assert failures == []

    asyncio.run(run())


def simulated(story: Story) -> None:
    for seed in range(5):
        loop = SimulationLoop(random.Random(seed), shuffle=0.3)
        wires = Wires(loop, random.Random(seed))
        wires.weather.split_chance = 0.5
        wires.weather.window_bytes = 1000

        async def run(loop: SimulationLoop = loop, wires: Wires = wires) -> None:
            networks = [SimulatedNetwork(wires, loop.world, "127.0.0.1", max_frame_bytes=MAX_FRAME_BYTES)] * 2
            place = Place(*networks)
            await place.listen()
            await story(place)

        try:
            loop.run_until_complete(run())
        finally:
            loop.close()


@pytest.fixture(params=[on_sockets, simulated], ids=["sockets", "simulated"])
def play(request) -> Callable[[Story], None]:
    return request.param


def test_frames_pass_both_ways_in_order(play):
    async def story(place):
        ours, theirs = await place.connect()
        bodies = [bytes([number % 256]) * (1 + number * 37) for number in range(60)]
        for body in bodies:
            ours.connection.send(frame(body))
        ours.connection.flush()
        await until(lambda: len(theirs.frames) == 60)
        assert theirs.frames == bodies
        for body in bodies:
            theirs.connection.send(frame(body))
        theirs.connection.flush()
        await until(lambda: len(ours.frames) == 60)
        assert ours.frames == bodies

    play(story)


def test_nothing_leaves_before_it_is_flushed(play):
    async def story(place):
        ours, theirs = await place.connect()
        ours.connection.send(frame(b"held"))
        await asyncio.sleep(0.05)
        assert theirs.frames == []
        assert ours.connection.unsent_bytes == 8
        ours.connection.flush()
        await until(lambda: theirs.frames == [b"held"])
        assert ours.connection.unsent_bytes == 0

    play(story)


def test_a_close_reaches_both_ends_once(play):
    async def story(place):
        ours, theirs = await place.connect()
        ours.connection.close("done")
        ours.connection.close("done again")
        await until(lambda: ours.is_gone and theirs.is_gone)
        ours.connection.send(frame(b"too late"))
        ours.connection.flush()
        assert theirs.frames == []

    play(story)


def test_a_frame_that_is_too_large_ends_the_connection(play):
    async def story(place):
        ours, theirs = await place.connect()
        ours.connection.send([(MAX_FRAME_BYTES + 1).to_bytes(4, "big")])
        ours.connection.flush()
        await until(lambda: ours.is_gone and theirs.is_gone)
        assert theirs.frames == []

    play(story)


def test_who_does_not_read_gets_it_later(play):
    async def story(place):
        ours, theirs = await place.connect()
        theirs.connection.pause_reading()
        await asyncio.sleep(0.01)
        ours.connection.send(frame(b"a" * 5000))
        ours.connection.flush()
        await asyncio.sleep(0.05)
        assert theirs.frames == []
        theirs.connection.resume_reading()
        await until(lambda: theirs.frames == [b"a" * 5000])

    play(story)


def test_connections_are_refused_where_nobody_listens(play):
    async def story(place):
        port = place.listener.port
        place.listener.close()
        await asyncio.sleep(0.01)
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await place.client.connect("127.0.0.1", port, Sink, options=PEER)

    play(story)


def test_the_network_s_end_is_the_end_of_its_connections(play):
    async def story(place):
        ours, theirs = await place.connect()
        place.server.close()
        await until(lambda: ours.is_gone and theirs.is_gone)

    play(story)


class Owner:
    """Counts what is pinned."""

    def __init__(self) -> None:
        self.pins = 0

    def pin(self) -> None:
        self.pins += 1

    def unpin(self) -> None:
        self.pins -= 1


def test_slices_are_sent_in_their_place_and_released():
    async def story(place):
        disk, owner = SimulatedDisk(), Owner()
        file = disk.open("/a", create=True)
        file.pwrite(b"0123456789", 0)
        ours, theirs = await place.connect()
        ours.connection.send([(8).to_bytes(4, "big"), b"<", FileSlice(file, 2, 6, owner), b">"])
        ours.connection.flush()
        await until(lambda: theirs.frames == [b"<234567>"])
        assert owner.pins == 0
        ours.connection.send([FileSlice(file, 8, 6, owner)])
        ours.connection.flush()
        await until(lambda: ours.is_gone and theirs.is_gone)
        assert owner.pins == 0, "a file that ends early ends the connection"

    simulated(story)
