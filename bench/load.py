"""A load that is not the limit: pre-encoded frames on several connections, answers counted and thrown away.

Run as a process of its own (`python -m bench.load ...`); prints one JSON line. Answer bodies are discarded by the
kernel (MSG_TRUNC), so a drain of fetched data costs the client next to nothing.
"""

import json
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from bench import frames

_SIZE = struct.Struct(">i")


class Drive:
    """One connection: at most `window` requests unanswered."""

    def __init__(self, host: str, port: int, window: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.window = window
        self.in_flight = 0
        self.answered = 0
        self.answer_bytes = 0
        self._out: deque[memoryview] = deque()
        self._head = bytearray()
        self._left = 0

    def send(self, request: bytes) -> None:
        self._out.append(memoryview(request))
        self.in_flight += 1

    def write(self) -> bool:
        """Send what can be sent; whether nothing is left."""
        try:
            while self._out:
                buffers = list(self._out)[:32]
                sent = self.socket.sendmsg(buffers)
                while sent:
                    first = self._out.popleft()
                    if sent < len(first):
                        self._out.appendleft(first[sent:])
                        break
                    sent -= len(first)
        except BlockingIOError:
            return False
        return True

    def read(self) -> None:
        try:
            while True:
                if self._left:
                    got = self._skip()
                    if not got:
                        raise ConnectionError("the broker closed the connection")
                    self._left -= got
                    if not self._left:
                        self.answered += 1
                        self.in_flight -= 1
                    continue
                got_bytes = self.socket.recv(4 - len(self._head))
                if not got_bytes:
                    raise ConnectionError("the broker closed the connection")
                self._head += got_bytes
                if len(self._head) == 4:
                    (self._left,) = _SIZE.unpack(self._head)
                    self.answer_bytes += self._left
                    self._head.clear()
        except BlockingIOError:
            return

    def _skip(self) -> int:
        return self.socket.recv_into(_DISCARDED, min(self._left, len(_DISCARDED)), socket.MSG_TRUNC)


_DISCARDED = bytearray(1 << 20)


def run(
    host: str, port: int, *, connections: int, window: int, seconds: float, requests: Iterator[bytes]
) -> dict[str, Any]:
    """Keep every connection's window full for `seconds`."""
    drives = [Drive(host, port, window) for _ in range(connections)]
    selector = selectors.DefaultSelector()
    for drive in drives:
        selector.register(drive.socket, selectors.EVENT_READ, drive)
    started = time.perf_counter()
    cpu = time.process_time()
    until = started + seconds
    stopping = False
    while True:
        if time.perf_counter() >= until:
            stopping = True
        for drive in drives:
            while not stopping and drive.in_flight < drive.window:
                drive.send(next(requests))
            wants = selectors.EVENT_READ if drive.write() else selectors.EVENT_READ | selectors.EVENT_WRITE
            if selector.get_key(drive.socket).events != wants:
                selector.modify(drive.socket, wants, drive)
        if stopping and not any(drive.in_flight for drive in drives):
            break
        for key, events in selector.select(1.0):
            if events & selectors.EVENT_READ:
                key.data.read()
        if time.perf_counter() > until + 30:
            raise TimeoutError("answers are missing 30 s after the end")
    elapsed = time.perf_counter() - started
    return {
        "seconds": elapsed,
        "answers": sum(drive.answered for drive in drives),
        "answer_bytes": sum(drive.answer_bytes for drive in drives),
        "client_cpu_seconds": time.process_time() - cpu,
    }


def _repeat(requests: list[bytes]) -> Iterator[bytes]:
    while True:
        yield from requests


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    kinds: dict[str, Callable[[], list[bytes]]] = {
        "produce": lambda: [
            frames.produce(
                given["topic"],
                partition,
                records=given["records"],
                record_bytes=given["record_bytes"],
                acks=given.get("acks", 1),
            ).frame
            for partition in range(given["partitions"])
        ],
        "fetch": lambda: [
            frames.fetch(given["topic"], [(partition, offset)], max_bytes=given["max_bytes"])
            for partition in range(given["partitions"])
            for offset in range(0, given["offsets"], given["step"])
        ],
    }
    requests = _repeat(kinds[given["kind"]]())
    result = run(
        given["host"],
        given["port"],
        connections=given["connections"],
        window=given["window"],
        seconds=given["seconds"],
        requests=requests,
    )
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
