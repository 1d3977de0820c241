"""Frames are cut the same way however the bytes arrive, and leave at once."""

import asyncio
import random
import socket

import pytest

from barnabas.client.transport import TcpChannel
from tests.unit.runtime.test_within_host import control_of


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
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport, channel = await asyncio.get_running_loop().create_connection(
            lambda: TcpChannel(Frames()), "127.0.0.1", port
        )
        sock: socket.socket = transport.get_extra_info("socket")
        assert control_of(sock) != "bbr"
        channel.close()
