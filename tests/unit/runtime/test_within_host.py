"""What becomes of the congestion control of real sockets, on loopback."""

import select
import socket
from pathlib import Path

import pytest

from barnabas.runtime.within_host import (
    choose_unpaced,
    enlarge_receive_buffer,
    is_within_host,
    restore_pacing,
)

CONTROLS = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text(encoding="ascii").split()
"""Those that every process may choose on this machine."""
PACES = "bbr"


def unpaced(control: str) -> str:
    return "reno" if control == PACES else control


def control_of(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def set_control(sock: socket.socket, control: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())


class FromElsewhere(socket.socket):
    """What is accepted on loopback, as if it came from another host."""

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.1", 9


def pair(host: str, control: str) -> tuple[socket.socket, socket.socket]:
    """Who connected and what was accepted, where the listening socket was given the control."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        set_control(server, control)
        connecting = socket.create_connection(server.getsockname()[:2])
        return connecting, server.accept()[0]


@pytest.mark.parametrize("control", CONTROLS)
def test_only_what_paces_is_replaced(control: str) -> None:
    with socket.socket() as sock:
        set_control(sock, control)
        replaced = choose_unpaced(sock)
        assert replaced == (PACES.encode() if control == PACES else None)
        assert control_of(sock) == unpaced(control)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1"])
def test_what_stays_on_the_host_keeps_what_does_not_pace(host: str) -> None:
    connecting, accepted = pair(host, "reno")
    with connecting, accepted:
        restore_pacing(accepted, CONTROLS[-1].encode())
        assert control_of(accepted) == "reno"


@pytest.mark.parametrize("control", CONTROLS)
def test_a_peer_elsewhere_gets_the_control_of_the_host_s_owner(control: str) -> None:
    connecting, accepted = pair("127.0.0.1", "reno")
    with connecting, FromElsewhere(fileno=accepted.detach()) as elsewhere:
        restore_pacing(elsewhere, None)
        assert control_of(elsewhere) == "reno"
        restore_pacing(elsewhere, control.encode())
        assert control_of(elsewhere) == control


@pytest.mark.parametrize("control", CONTROLS)
def test_a_control_that_came_with_the_route_is_left_alone(control: str) -> None:
    connecting, accepted = pair("127.0.0.1", control)
    with connecting, FromElsewhere(fileno=accepted.detach()) as elsewhere:
        restore_pacing(elsewhere, b"reno")
        assert control_of(elsewhere) == control


def test_a_socket_that_has_no_peer_is_left_alone() -> None:
    with socket.socket() as sock:
        before = control_of(sock)
        restore_pacing(sock, b"reno")
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


def test_a_large_receive_buffer_holds_a_mib_and_a_reader_is_told_of_each_byte() -> None:
    connecting, accepted = pair("127.0.0.1", "reno")
    with connecting, accepted:
        enlarge_receive_buffer(accepted)
        largest = int(Path("/proc/sys/net/ipv4/tcp_rmem").read_text(encoding="ascii").split()[2])
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= min(1024 * 1024, largest // 2)
        connecting.sendall(b"x")
        accepted.settimeout(5)
        assert select.select([accepted], [], [], 5)[0] == [accepted]
        assert accepted.recv(10) == b"x"
