"""A load that is not the limit: pre-encoded frames on several connections, answers counted and thrown away.

Run as a process of its own (`python -m bench.load JSON`); prints one JSON line. Answer bodies are discarded by the
kernel (MSG_TRUNC), so a drain of fetched data costs the client next to nothing.

The JSON says `kind` (produce or fetch), `topic`, `endpoints` (a list of host, port, connections and partitions),
`window` (requests unanswered on each connection), and either `seconds` or `answers`, after which it ends. With `once`
connections share the requests out, a run of neighbours for each, and it ends when each was answered once.
"""

import itertools
import json
import math
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.protocol.batch import Codec
from bench import frames

_SIZE: Final = struct.Struct(">i")
_PATIENCE_S: Final = 30.0


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


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker, how many connections it gets, and the requests that go round on each."""

    host: str
    port: int
    connections: int
    requests: Sequence[bytes]


def run(
    endpoints: Sequence[Endpoint],
    *,
    window: int,
    seconds: float = math.inf,
    answers: float = math.inf,
    once: bool = False,
) -> dict[str, Any]:
    """Keep every connection's window full for `seconds`, or until so many answers are due or all was asked `once`."""
    if once:
        endpoints = [part for endpoint in endpoints for part in shared_out(endpoint)]
        answers = sum(len(endpoint.requests) for endpoint in endpoints)
    drives = {
        Drive(endpoint.host, endpoint.port, window): iter(endpoint.requests) if once else _repeat(endpoint.requests)
        for endpoint in endpoints
        for _ in range(endpoint.connections)
    }
    selector = selectors.DefaultSelector()
    for drive in drives:
        selector.register(drive.socket, selectors.EVENT_READ, drive)
    started = time.perf_counter()
    cpu = time.process_time()
    until = started + seconds
    sent = 0
    stopping = False
    patience_ends = math.inf
    while True:
        now = time.perf_counter()
        if not stopping and (now >= until or sent >= answers):
            stopping, patience_ends = True, now + _PATIENCE_S
        for drive, requests in drives.items():
            while not stopping and drive.in_flight < drive.window and sent < answers:
                request = next(requests, None)
                if request is None:
                    break
                drive.send(request)
                sent += 1
            wants = selectors.EVENT_READ if drive.write() else selectors.EVENT_READ | selectors.EVENT_WRITE
            if selector.get_key(drive.socket).events != wants:
                selector.modify(drive.socket, wants, drive)
        if stopping and not any(drive.in_flight for drive in drives):
            break
        for key, events in selector.select(1.0):
            if events & selectors.EVENT_READ:
                key.data.read()
        if time.perf_counter() > patience_ends:
            raise TimeoutError(f"answers are missing {_PATIENCE_S:g} s after the end")
    return {
        "seconds": time.perf_counter() - started,
        "answers": sum(drive.answered for drive in drives),
        "answer_bytes": sum(drive.answer_bytes for drive in drives),
        "client_cpu_seconds": time.process_time() - cpu,
    }


def _repeat(requests: Sequence[bytes]) -> Iterator[bytes]:
    while True:
        yield from requests


def shared_out(endpoint: Endpoint) -> list[Endpoint]:
    """One endpoint for each connection, with its part of the requests."""
    count = endpoint.connections
    bounds = [len(endpoint.requests) * number // count for number in range(count + 1)]
    parts = [endpoint.requests[begin:end] for begin, end in itertools.pairwise(bounds)]
    return [Endpoint(endpoint.host, endpoint.port, 1, part) for part in parts if part]


def _requests(given: Mapping[str, Any], partitions: Sequence[int]) -> list[bytes]:
    if given["kind"] == "produce":
        return [
            frames.produce(
                given["topic"],
                partition,
                records=given["records"],
                record_bytes=given["record_bytes"],
                acks=given.get("acks", 1),
                codec=Codec[given.get("codec", "none").upper()],
            ).frame
            for partition in partitions
        ]
    offsets = range(0, given["offsets"], given["step"])
    return [
        frames.fetch(given["topic"], [(partition, offset)], max_bytes=given["max_bytes"])
        for partition in partitions
        for offset in offsets
    ]


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    endpoints = [
        Endpoint(each["host"], each["port"], each["connections"], _requests(given, each["partitions"]))
        for each in given["endpoints"]
    ]
    limits = {name: given[name] for name in ("seconds", "answers", "once") if name in given}
    sys.stdout.write(json.dumps(run(endpoints, window=given["window"], **limits)) + "\n")


if __name__ == "__main__":
    main()
