"""Connecting, over real sockets on loopback."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from barnabas.runtime.dialing import dial
from tests.unit.runtime.test_within_host import CONTROLS, control_of, set_control, unpaced


class Watched(asyncio.SelectorEventLoop):
    """Knows the control that each socket had when it began to connect."""

    def __init__(self) -> None:
        super().__init__()
        self.controls: list[str] = []

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self.controls.append(control_of(sock))
        await super().sock_connect(sock, address)


@pytest.mark.parametrize("control", CONTROLS)
def test_a_socket_is_not_paced_from_before_it_connects(control: str) -> None:
    loop = Watched()
    with socket.create_server(("127.0.0.1", 0)) as server, asyncio.Runner(loop_factory=lambda: loop) as runner:
        port = server.getsockname()[1]
        with runner.run(dial("127.0.0.1", port, prepare=lambda sock: set_control(sock, control))) as sock:
            assert loop.controls == [control_of(sock)] == [unpaced(control)]
            assert sock.getpeername() == ("127.0.0.1", port)
            assert not sock.getblocking()
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_who_cannot_be_reached_is_an_error_of_the_system() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await dial("127.0.0.1", port)
    with pytest.raises(OSError, match="no host can be called") as raised:
        await dial("a" * 64 + ".example", port)
    assert raised.value.errno == errno.EINVAL


def test_the_next_address_of_a_host_is_tried() -> None:
    class TwoAddresses(asyncio.SelectorEventLoop):
        async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, host, (each, port)) for each in ("127.9.9.9", "127.0.0.1")]

    with socket.create_server(("127.0.0.1", 0)) as server, asyncio.Runner(loop_factory=TwoAddresses) as runner:
        port = server.getsockname()[1]
        with runner.run(dial("two.example", port)) as sock:
            assert sock.getpeername() == ("127.0.0.1", port)
