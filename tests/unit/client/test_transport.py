"""Frames are cut the same way however the bytes arrive, and leave at once."""

import asyncio
import itertools
import random
import socket

import pytest

from barnabas.client.transport import TcpChannel, connect_tcp
from tests.unit.runtime.test_within_host import PACES, control_of


class Frames:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.lost: str | None = None

    def frame_received(self, frame: bytearray) -> None:
        self.frames.append(bytes(frame))

    def channel_lost(self, reason: str) -> None:
        self.lost = reason


def feed(channel: TcpChannel, data: bytes, most: int) -> None:
    """Deliver `data` as a socket does: into the buffer that the channel gives, `most` bytes at a time."""
    while data:
        buffer = channel.get_buffer(-1)
        count = min(len(buffer), len(data), most)
        buffer[:count] = data[:count]
        channel.buffer_updated(count)
        del buffer
        data = data[count:]


@pytest.mark.parametrize("most", [1, 3, 4, 7, 100, 65_536, 1 << 30])
def test_frames_are_whole_whatever_the_pieces(most: int, seed: int) -> None:
    dice = random.Random(seed)
    sizes = [4, 5, 300] if most <= 100 else [4, 70_000, 5, 65_535, 65_536, 1_100_000, 4, 5_000_000]
    wanted = [dice.randbytes(size) for size in sizes]
    receiver = Frames()
    feed(TcpChannel(receiver), b"".join(len(frame).to_bytes(4, "big") + frame for frame in wanted), most)
    assert receiver.frames == wanted


def test_a_frame_is_not_allocated_before_it_arrives() -> None:
    channel = TcpChannel(Frames())
    feed(channel, (200_000_000).to_bytes(4, "big") + bytes(100_000), 1 << 30)
    assert len(channel.get_buffer(-1)) <= 2_000_000


async def test_a_connection_to_a_broker_on_the_same_host_is_not_paced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = await connect_tcp("127.0.0.1", server.getsockname()[1], Frames())
        assert isinstance(channel, TcpChannel)
        assert channel._transport is not None
        assert control_of(channel._transport.get_extra_info("socket")) != PACES
        channel.close()


async def test_who_gives_up_while_it_connects_leaves_no_connection() -> None:
    """At whatever point of the way that is."""
    accepted: asyncio.Queue[asyncio.Task[bytes]] = asyncio.Queue()

    def accept(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        accepted.put_nowait(asyncio.create_task(reader.read()))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for turns in itertools.count():
            connecting = asyncio.create_task(connect_tcp("127.0.0.1", port, Frames()))
            for _ in range(turns):
                await asyncio.sleep(0)
            if connecting.done():
                break
            connecting.cancel()
            await asyncio.wait([connecting])
        last = connecting.result()
        last.send([b"the last"])
        last.close()
        async with asyncio.timeout(5):
            while await (await accepted.get()) != b"the last":
                pass
    assert turns > 3


async def test_who_waits_for_room_goes_on_when_the_channel_is_closed() -> None:
    channel = TcpChannel(Frames())
    channel.pause_writing()
    waiting = asyncio.ensure_future(channel.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    channel.close()
    await asyncio.wait_for(waiting, 5)
    assert channel.is_writable
