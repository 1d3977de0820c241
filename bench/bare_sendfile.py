"""The physical rate: a loop that answers every request with the next MiB of a file by sendfile, and does nothing else.

`python -m bench.bare_sendfile FILE [SEND_BUFFER_BYTES]` prints the port it listens on. Requests and answers are frames
with a size in front, so the same drain reads it that reads a broker. It ends with its standard input.
"""

import os
import selectors
import socket
import struct
import sys
from pathlib import Path
from typing import Final

ANSWER_BYTES: Final = 1 << 20
_SIZE: Final = struct.Struct(">i")


class _Peer:
    def __init__(self, connection: socket.socket, file: int, file_bytes: int) -> None:
        self.connection = connection
        self._file = file
        self._last = file_bytes - ANSWER_BYTES
        self._unread = bytearray()
        self._owed = 0
        self._head = b""
        self._position = self._left = 0

    def serve(self) -> bool:
        """Read what came, send what goes; whether the peer is still there."""
        try:
            data = self.connection.recv(1 << 16)
            if not data:
                return False
            self._unread += data
        except BlockingIOError:
            pass
        while len(self._unread) >= 4 and len(self._unread) >= (size := 4 + _SIZE.unpack_from(self._unread)[0]):
            del self._unread[:size]
            self._owed += 1
        try:
            while self._step():
                pass
        except BlockingIOError:
            pass
        return True

    @property
    def is_behind(self) -> bool:
        return bool(self._owed or self._left or self._head)

    def _step(self) -> bool:
        if self._head:
            self._head = self._head[self.connection.send(self._head) :]
        elif self._left:
            sent = os.sendfile(self.connection.fileno(), self._file, self._position, self._left)
            self._position += sent
            self._left -= sent
        elif self._owed:
            self._owed -= 1
            self._head, self._left = _SIZE.pack(ANSWER_BYTES), ANSWER_BYTES
            if self._position > self._last:
                self._position = 0
        else:
            return False
        return True


def main() -> None:
    path, send_buffer = Path(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    selector = selectors.DefaultSelector()
    with socket.create_server(("127.0.0.1", 0)) as server, path.open("rb") as file:
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        selector.register(server, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.setblocking(False)
                    for size in send_buffer:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
                    peer = _Peer(connection, file.fileno(), path.stat().st_size)
                    selector.register(connection, selectors.EVENT_READ, peer)
                    continue
                if not key.data.serve():
                    selector.unregister(key.fileobj)
                    key.data.connection.close()
                    continue
                wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if key.data.is_behind else 0)
                if key.events != wants:
                    selector.modify(key.fileobj, wants, key.data)


if __name__ == "__main__":
    main()
