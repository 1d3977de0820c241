"""A load that is not the limit: pre-encoded frames on several connections, answers counted and thrown away.

Run as a process of its own (`python -m bench.load JSON`); prints one JSON line. The bodies of large answers are
discarded by the kernel (MSG_TRUNC), so a drain of fetched data costs the client next to nothing. Small answers are
read: they say whether a batch was written, and an answer without records is small. What failed ends the load.

The JSON says `kind` (produce or fetch), `topic`, `endpoints` (a list of host, port, connections and partitions),
`window` (requests unanswered on each connection), and either `seconds` or `answers`, after which it ends. So many
answers are shared out beforehand: a partition gets the same of them whichever broker is faster, and of produced batches
exactly the same where `answers` is a multiple of connections by partitions. With `once` connections share the requests
out, a run of neighbours for each, and it ends when each was answered once.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.protocol.batch import Codec
from barnabas.runtime.machine import raise_descriptor_limit
from bench import frames

_SIZE: Final = struct.Struct(">i")
_PATIENCE_S: Final = 30.0
_SMALL_BYTES: Final = 1024
"""Up to here an answer is looked at."""

Check = Callable[[bytes], None]
"""Looks at a small answer, without its size. Raises Refused."""


class Refused(Exception):
    """A broker did not do what it was asked; the text says what it answered."""


class Drive:
    """One connection: at most `window` unanswered of those that `requests` has. Small answers go to `check`."""

    def __init__(self, endpoint: "Endpoint", requests: Iterator[bytes], *, window: int, check: Check) -> None:
        self.socket = socket.create_connection((endpoint.host, endpoint.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.requests = requests
        self.window = window
        self.in_flight = 0
        self.answered = 0
        self.answer_bytes = 0
        self._out: deque[memoryview] = deque()
        self._check = check
        self._head = bytearray()
        self._body = b""
        self._left = 0
        self._is_small = False
        self.wants = selectors.EVENT_READ
        """What its socket is watched for."""

    def send(self, request: bytes) -> None:
        self._out.append(memoryview(request))
        self.in_flight += 1

    def write(self) -> bool:
        """Send what can be sent; whether nothing is left."""
        try:
            while self._out:
                first = self._out[0]
                sent = self.socket.send(first) if len(self._out) == 1 else self.socket.sendmsg(list(self._out)[:32])
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
                    got = self._keep() if self._is_small else self._skip()
                    if not got:
                        raise ConnectionError("the broker closed the connection")
                    self._left -= got
                    if not self._left:
                        self._take()
                        if not self.in_flight:
                            # Nothing more comes: the next read would say so with an exception.
                            return
                    continue
                got_bytes = self.socket.recv(4 - len(self._head))
                if not got_bytes:
                    raise ConnectionError("the broker closed the connection")
                self._head += got_bytes
                if len(self._head) == 4:
                    (self._left,) = _SIZE.unpack(self._head)
                    self._is_small = self._left <= _SMALL_BYTES
                    self.answer_bytes += self._left
                    self._head.clear()
        except BlockingIOError:
            return

    def _take(self) -> None:
        if self._is_small:
            self._check(self._body)
            self._body = b""
        self.answered += 1
        self.in_flight -= 1

    def _keep(self) -> int:
        got = self.socket.recv(self._left)
        # As good as always it is whole at once.
        self._body = self._body + got if self._body else got
        return len(got)

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
    check: Check,
    seconds: float = math.inf,
    answers: int | None = None,
    once: bool = False,
) -> dict[str, Any]:
    """Keep every connection's window full for `seconds`, or until so many answers are due or all was asked `once`.

    Raises:
        Refused: by `check`.
        TimeoutError: answers are missing long after the last request.
    """
    if once:
        endpoints = [part for endpoint in endpoints for part in shared_out(endpoint)]
        answers = sum(len(endpoint.requests) for endpoint in endpoints)
    drives = [
        Drive(endpoint, itertools.islice(itertools.cycle(endpoint.requests), count), window=window, check=check)
        for endpoint, counts in zip(endpoints, shares(endpoints, answers), strict=True)
        for count in counts
    ]
    selector = selectors.DefaultSelector()
    for drive in drives:
        selector.register(drive.socket, drive.wants, drive)
    # Those that something happened to: a look at all of many connections each time would be most of the work.
    touched = drives
    started = time.perf_counter()
    cpu = time.process_time()
    until = started + seconds
    due = math.inf if answers is None else answers
    sent = 0
    stopping = False
    patience_ends = math.inf
    while True:
        now = time.perf_counter()
        if not stopping and (now >= until or sent >= due):
            stopping, patience_ends = True, now + _PATIENCE_S
        for drive in touched:
            while not stopping and drive.in_flight < drive.window:
                request = next(drive.requests, None)
                if request is None:
                    break
                drive.send(request)
                sent += 1
            wants = selectors.EVENT_READ if drive.write() else selectors.EVENT_READ | selectors.EVENT_WRITE
            if drive.wants != wants:
                drive.wants = wants
                selector.modify(drive.socket, wants, drive)
        if stopping and not any(drive.in_flight for drive in drives):
            break
        touched = []
        for key, events in selector.select(1.0):
            touched.append(key.data)
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


def shares(endpoints: Sequence[Endpoint], answers: int | None) -> list[list[int | None]]:
    """How many answers each connection of each endpoint is to get, by the requests that go round; None has no end."""
    if answers is None:
        return [[None] * endpoint.connections for endpoint in endpoints]
    weights = list(itertools.accumulate((len(endpoint.requests) for endpoint in endpoints), initial=0))
    bounds = [answers * weight // weights[-1] for weight in weights]
    return [
        [
            count // endpoint.connections + (number < count % endpoint.connections)
            for number in range(endpoint.connections)
        ]
        for endpoint, count in zip(endpoints, (end - begin for begin, end in itertools.pairwise(bounds)), strict=True)
    ]


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


def answer_check(kind: str, topic: str) -> Check:
    """What small answers of a load mean: a produced batch was written, or a Fetch brought records."""
    empty_bytes = frames.fetch_overhead(topic)

    def check(answer: bytes) -> None:
        if kind == "produce":
            if error := frames.produce_error(answer, topic):
                raise Refused(f"a batch is answered error {error}")
        elif len(answer) <= empty_bytes:
            raise Refused(f"a Fetch is answered without records, error {frames.fetch_error(answer, topic)}")

    return check


def main() -> None:
    raise_descriptor_limit()
    given: dict[str, Any] = json.loads(sys.argv[1])
    endpoints = [
        Endpoint(each["host"], each["port"], each["connections"], _requests(given, each["partitions"]))
        for each in given["endpoints"]
    ]
    limits = {name: given[name] for name in ("seconds", "answers", "once") if name in given}
    check = answer_check(given["kind"], given["topic"])
    sys.stdout.write(json.dumps(run(endpoints, window=given["window"], check=check, **limits)) + "\n")


if __name__ == "__main__":
    main()
