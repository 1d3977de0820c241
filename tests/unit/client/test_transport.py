"""Frames are cut the same way however the bytes arrive."""

import random

import pytest

from barnabas.client.transport import TcpChannel


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
