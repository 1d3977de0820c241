"""What becomes of the congestion control of real sockets, on loopback."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.runtime.within_host import is_within_host, spare_pacing

CONTROLS = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text(encoding="ascii").split()
"""Those that every process may choose on this machine."""


def unpaced(control: str) -> str:
    return "reno" if control == "bbr" else control


def control_of(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


@contextlib.contextmanager
def connected(host: str, control: str) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server, socket.socket(family) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        sock.connect(server.getsockname()[:2])
        yield sock


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1"])
@pytest.mark.parametrize("control", CONTROLS)
def test_a_connection_of_this_host_is_not_paced(control: str, host: str) -> None:
    with connected(host, control) as sock:
        spare_pacing(sock)
        assert control_of(sock) == unpaced(control)


def test_a_socket_that_has_no_peer_is_left_alone() -> None:
    with socket.socket() as sock:
        before = control_of(sock)
        spare_pacing(sock)
        assert control_of(sock) == before


@pytest.mark.parametrize(
    ("own", "peer", "within"),
    [
        ("10.0.0.7", "10.0.0.7", True),
        ("fd00::7", "fd00::7", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("fd00::7", "fd00::8", False),
        ("192.0.2.1", "12.7.0.1", False),
    ],
)
def test_what_stays_on_the_host(own: str, peer: str, within: bool) -> None:
    assert is_within_host(own, peer) is within
