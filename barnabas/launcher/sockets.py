"""Ports of this machine, and blocking reads of a known size, for probes."""

import contextlib
import errno
import socket


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port of `host` on which nobody listens now."""
    with contextlib.closing(_socket_for(host)) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(host: str, port: int) -> bool:
    """Whether somebody could listen on `port` of `host` now.

    Raises:
        OSError: `host` is no address of this machine, or the port is not ours to use.
    """
    with contextlib.closing(_socket_for(host)) as probe:
        # As servers do: connections of an earlier server that linger are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        # Two sockets with that option may be bound to one port while neither listens.
        try:
            probe.listen(1)
        except OSError:
            return False
        return True


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes.

    Raises:
        OSError: the connection ended before, or took too long.
    """
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("closed before the answer was whole")
        data += part
    return bytes(data)


def reachable(host: str) -> str:
    """Where to connect on this machine to what listens on `host`, which may mean any address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared with, not bound to


def address(host: str, port: int) -> str:
    """HOST:PORT, with brackets where the host is an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _socket_for(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
