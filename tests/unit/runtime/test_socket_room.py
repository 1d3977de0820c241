import asyncio
import os
import socket
from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.runtime.socket_room import SocketRoom
from tests.unit.runtime.test_socket_connection_sending import fill
from tests.unit.runtime.test_socket_network import until


class End:
    """One end of a connection, and how often it was told of room."""

    def __init__(self) -> None:
        self.socket, self.peer = socket.socketpair()
        self.socket.setblocking(False)
        self.peer.setblocking(False)
        self.told = 0

    def tell(self) -> None:
        self.told += 1

    def empty(self) -> None:
        try:
            while self.peer.recv(1 << 16):
                pass
        except BlockingIOError:
            return

    async def hears_of_room(self) -> None:
        """Return when it is told once more."""
        told = self.told
        await until(lambda: self.told > told)

    def close(self) -> None:
        self.socket.close()
        self.peer.close()


@pytest.fixture
def ends() -> Iterator[list[End]]:
    ends = [End(), End()]
    yield ends
    for end in ends:
        end.close()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def turns() -> None:
    """The loop has looked at its descriptors, more than once."""
    for _ in range(5):
        await asyncio.sleep(0.001)


async def test_a_socket_is_told_of_room_each_time_that_it_was_full(ends: list[End]) -> None:
    room, (end, other) = SocketRoom(), ends
    for each in ends:
        fill(each.socket)
        room.watch(each.socket.fileno(), each.tell)
    await turns()
    assert end.told == 0
    for _ in range(3):
        end.empty()
        await end.hears_of_room()
        fill(end.socket)
    assert other.told == 0
    for each in ends:
        room.forget(each.socket.fileno())


async def test_room_that_there_is_when_a_socket_is_watched_is_told(ends: list[End]) -> None:
    room, end = SocketRoom(), ends[0]
    fill(end.socket)
    end.empty()
    room.watch(end.socket.fileno(), end.tell)
    await end.hears_of_room()
    room.forget(end.socket.fileno())


async def test_room_costs_nothing_while_nobody_fills_the_socket(ends: list[End]) -> None:
    room, end = SocketRoom(), ends[0]
    room.watch(end.socket.fileno(), end.tell)
    await end.hears_of_room()
    told = end.told
    await turns()
    assert end.told == told
    room.forget(end.socket.fileno())


async def test_who_asks_again_is_told_at_once_of_room_that_there_is_and_else_when_there_is_some(
    ends: list[End],
) -> None:
    room, end = SocketRoom(), ends[0]
    room.watch(end.socket.fileno(), end.tell)
    await end.hears_of_room()
    await turns()
    room.ask_again(end.socket.fileno())
    await end.hears_of_room()
    fill(end.socket)
    told = end.told
    room.ask_again(end.socket.fileno())
    await turns()
    assert end.told == told
    end.empty()
    await end.hears_of_room()
    room.forget(end.socket.fileno())


async def test_who_is_forgotten_is_told_no_more_though_copies_of_the_socket_are_open(ends: list[End]) -> None:
    room, (end, other) = SocketRoom(), ends
    fill(other.socket)
    room.watch(other.socket.fileno(), other.tell)
    fill(end.socket)
    copy = end.socket.dup()
    room.watch(copy.fileno(), end.tell)
    room.forget(copy.fileno())
    copy.close()
    end.empty()
    other.empty()
    await other.hears_of_room()
    assert end.told == 0
    room.forget(other.socket.fileno())


async def test_who_is_forgotten_by_another_that_is_told_is_told_no_more(ends: list[End]) -> None:
    room, told = SocketRoom(), list[End]()

    def tell(end: End) -> None:
        told.append(end)
        for each in ends:
            room.forget(each.socket.fileno())

    for each in ends:
        room.watch(each.socket.fileno(), partial(tell, each))
    await until(lambda: bool(told))
    await turns()
    assert len(told) == 1


async def test_when_the_last_is_forgotten_nothing_is_left(ends: list[End]) -> None:
    room, before = SocketRoom(), open_descriptors()
    for _ in range(2):
        for each in ends:
            room.watch(each.socket.fileno(), each.tell)
        assert open_descriptors() == before + 1
        for each in ends:
            room.forget(each.socket.fileno())
        assert open_descriptors() == before
        await turns()


async def test_a_socket_that_cannot_be_watched_is_an_error_and_others_still_can(ends: list[End]) -> None:
    room, end = SocketRoom(), ends[0]
    with pytest.raises(OSError, match="descriptor"):
        room.watch(1 << 20, end.tell)
    fill(end.socket)
    room.watch(end.socket.fileno(), end.tell)
    end.empty()
    await end.hears_of_room()
    room.forget(end.socket.fileno())
