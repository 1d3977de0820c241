import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from zk_schema.readiness import await_ready

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def fill(sender: socket.socket) -> None:
    """Until it takes no more."""
    sender.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while sender.send(bytes(65536)):
            pass


def test_nobody_is_ready_when_the_time_is_up(pair: Pair) -> None:
    fill(pair[0])
    assert await_ready([pair[0]], [pair[0]], 0.001) == ([], [])


def test_who_has_something_to_read_is_named_and_nobody_else(pair: Pair) -> None:
    here, there = pair
    there.send(b"x")
    assert await_ready([there, here], [], None) == ([here], [])


def test_who_can_be_written_is_told_apart_from_who_can_be_read(pair: Pair) -> None:
    here, there = pair
    assert await_ready([here], [here], 0) == ([], [here])
    fill(there)
    assert await_ready([there], [there], 0) == ([], [])
    assert await_ready([here], [here], 0) == ([here], [here])


def test_an_end_can_be_read(pair: Pair) -> None:
    pair[1].close()
    assert await_ready([pair[0]], [], 0) == ([pair[0]], [])


def test_a_refused_connection_can_be_written() -> None:
    with socket.socket() as unheard, socket.socket() as client:
        unheard.bind(("127.0.0.1", 0))
        client.setblocking(False)
        client.connect_ex(unheard.getsockname())
        assert await_ready([], [client], 1) == ([], [client])
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def test_a_closed_one_is_refused(pair: Pair) -> None:
    pair[0].close()
    with pytest.raises(ValueError, match="negative"):
        await_ready([pair[0]], [], 0)


def test_a_descriptor_beyond_what_select_takes_is_ready_too() -> None:
    with ExitStack() as opened:
        pairs = [socket.socketpair() for _ in range(520)]
        for pair in pairs:
            opened.enter_context(pair[0])
            opened.enter_context(pair[1])
        here, there = pairs[-1]
        there.send(b"x")
        assert await_ready([here], [], 0) == ([here], [])
        assert here.fileno() > 1024
