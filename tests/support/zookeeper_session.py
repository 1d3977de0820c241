"""Ends somebody else's ZooKeeper session from outside, as its expiry would: a session belongs to who has its password.

A ZooKeeper server makes the password of a session from its id: 16 bytes of java.util.Random, seeded with the id and a
constant. So a test can take over the session of a broker in another process, and close it.
"""

import contextlib
import socket
import struct
import time
from typing import Final

_SEED_CONSTANT: Final = 0xB3415C00
_CONNECT: Final = struct.Struct(">iiqiqi16s?")
_CONNECTED: Final = struct.Struct(">iiqi16s")
_PATIENCE_SECONDS: Final = 10.0
_CLOSE_SESSION: Final = struct.pack(">iii", 8, 1, -11)


def password_of(session_id: int) -> bytes:
    """The password that ZooKeeper gave to the session."""
    state = ((session_id ^ _SEED_CONSTANT) ^ 0x5DEECE66D) & ((1 << 48) - 1)
    words = []
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        words.append(struct.pack("<I", state >> 16))
    return b"".join(words)


def end_session(address: str, session_id: int) -> None:
    """Take the session over and close it; returns when ZooKeeper at `host:port` knows it no more.

    Its owner connects again at once and may so take it back before it is closed: then it is taken over again.
    """
    host, port = address.rsplit(":", 1)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _is_alive_after_close(host, int(port), session_id):
        assert time.monotonic() < deadline, f"session {session_id:#x} does not end"


def _is_alive_after_close(host: str, port: int, session_id: int) -> bool:
    request = _CONNECT.pack(_CONNECT.size - 4, 0, 0, 4000, session_id, 16, password_of(session_id), False)
    with contextlib.closing(socket.create_connection((host, port), 5)) as connection:
        connection.sendall(request)
        try:
            (length,) = struct.unpack(">i", _receive(connection, 4))
            _, granted_ms, granted_id, _, _ = _CONNECTED.unpack_from(_receive(connection, length))
            if granted_ms <= 0:
                return False
            assert granted_id == session_id
            connection.sendall(_CLOSE_SESSION)
            # The answer to the close; the session is over then.
            _receive(connection, 4)
        except ConnectionError:
            return True
    return False


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("closed before the answer was whole")
        data += part
    return bytes(data)
