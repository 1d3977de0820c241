"""The physical rate: a loop that answers every request with a MiB of a file by sendfile, and does nothing else.

`python -m bench.bare_sendfile SEND_BUFFER_BYTES FILE...` prints the port it listens on; a buffer of 0 bytes is the
system's. Requests are Fetch frames of `bench.frames`, whose partition is the number of a file and whose offset is a
position in it; answers have a size in front. So the same drain reads it that reads a broker, and touches as much. A
position less than a MiB from the end stands for the last MiB. It ends with its standard input. Like those of Barnabas,
its connections within the host are not paced: a physical rate is not one of the system's timers.
"""

import contextlib
import os
import selectors
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from barnabas.runtime.within_host import choose_unpaced

ANSWER_BYTES: Final = 1 << 20
_SIZE: Final = struct.Struct(">i")
_LAST_FIELDS: Final = struct.Struct(">iqi")
"""What a Fetch of one partition ends with: its number, the offset and the most bytes."""


class _Peer:
    def __init__(self, connection: socket.socket, files: Sequence[int]) -> None:
        self.connection = connection
        self._files = files
        self._last = [os.fstat(file).st_size - ANSWER_BYTES for file in files]
        self._unread = bytearray()
        self._owed: deque[tuple[int, int]] = deque()
        self._head = b""
        self._number = self._position = self._left = 0

    def read(self) -> bool:
        """Take what came; whether the peer is still there."""
        data = self.connection.recv(1 << 16)
        self._unread += data
        while len(self._unread) >= 4 and len(self._unread) >= (size := 4 + _SIZE.unpack_from(self._unread)[0]):
            number, offset, _ = _LAST_FIELDS.unpack_from(self._unread, size - _LAST_FIELDS.size)
            del self._unread[:size]
            self._owed.append((number, min(offset, self._last[number])))
        return bool(data)

    def write(self) -> None:
        """Send what goes."""
        try:
            while self._step():
                pass
        except BlockingIOError:
            pass

    @property
    def is_behind(self) -> bool:
        return bool(self._owed or self._left or self._head)

    def _step(self) -> bool:
        if self._head:
            self._head = self._head[self.connection.send(self._head) :]
        elif self._left:
            sent = os.sendfile(self.connection.fileno(), self._files[self._number], self._position, self._left)
            self._position += sent
            self._left -= sent
        elif self._owed:
            self._number, self._position = self._owed.popleft()
            self._head, self._left = _SIZE.pack(ANSWER_BYTES), ANSWER_BYTES
        else:
            return False
        return True


@contextlib.contextmanager
def serving(files: Sequence[Path], *, send_buffer_bytes: int) -> Iterator[int]:
    """Such a loop in a process of its own; yields its port."""
    command = [sys.executable, "-m", "bench.bare_sendfile", str(send_buffer_bytes), *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


def main() -> None:
    send_buffer_bytes = int(sys.argv[1])
    selector = selectors.DefaultSelector()
    with socket.socket() as server, contextlib.ExitStack() as opened:
        choose_unpaced(server)
        server.bind(("127.0.0.1", 0))
        server.listen()
        files = [opened.enter_context(Path(path).open("rb")).fileno() for path in sys.argv[2:]]
        sys.stdout.write(f"{server.getsockname()[1]}\n")
        sys.stdout.flush()
        selector.register(server, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, events in selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is server:
                    connection, _ = server.accept()
                    connection.setblocking(False)
                    if send_buffer_bytes:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
                    peer = _Peer(connection, files)
                    selector.register(connection, selectors.EVENT_READ, peer)
                    continue
                if events & selectors.EVENT_READ and not key.data.read():
                    selector.unregister(key.fileobj)
                    key.data.connection.close()
                    continue
                key.data.write()
                wants = selectors.EVENT_READ | (selectors.EVENT_WRITE if key.data.is_behind else 0)
                if key.events != wants:
                    selector.modify(key.fileobj, wants, key.data)


if __name__ == "__main__":
    main()
