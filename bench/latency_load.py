"""Latency at a steady rate: records that arrive at fixed times, when each was acknowledged, and when it was read.

Run as a process of its own (`python -m bench.latency_load HOST PORT TOPIC FIRST RATE SECONDS ACKS`). Every millisecond
the records that are due by then leave as one batch, whether earlier ones were answered or not, so a broker that stalls
is seen with all that it holds up. Batches of up to ten milliseconds' records are made before; where this process was
held up for longer, several leave. A second connection reads them by long polls. Both count from when a record was due.
One partition, which has FIRST records and which the load alone writes to, so the n-th of it has offset FIRST + n.
Prints one JSON line: percentiles in milliseconds, weighted by records, and what the load cost in how many seconds.
"""

import json
import math
import selectors
import socket
import struct
import sys
import time
from collections import deque
from typing import Any, Final

from bench import frames
from bench.percentiles import percentiles

RECORD_BYTES: Final = 100
_TICK_S: Final = 0.001
_MOST_TICKS: Final = 10
"""So many ticks' records are one batch at most."""
_WARM_S: Final = 1.0
_PATIENCE_S: Final = 30.0
_FETCH_BYTES: Final = 1 << 20
_SIZE: Final = struct.Struct(">i")
_ERROR: Final = struct.Struct(">h")
# Of a batch in a Fetch answer: base offset, length; the last offset's delta stands at 23.
_BATCH: Final = struct.Struct(">qi")
_LAST_DELTA: Final = struct.Struct(">i")


class _Connection:
    """Frames out and in, without blocking."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._unsent = bytearray()
        self._unread = bytearray()

    def send(self, frame: bytes) -> None:
        self._unsent += frame
        self.flush()

    def flush(self) -> bool:
        """Whether nothing is left."""
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        except BlockingIOError:
            return False
        return True

    def take(self) -> list[bytes]:
        """The answers that are whole."""
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._unread += data
        found = []
        while len(self._unread) >= 4 and len(self._unread) >= (size := 4 + _SIZE.unpack_from(self._unread)[0]):
            found.append(bytes(self._unread[4:size]))
            del self._unread[:size]
        return found


def batches(topic: str, *, most: int, acks: int) -> dict[int, bytes]:
    """Produce frames of 1 to `most` records, by their number."""
    return {
        count: frames.produce(topic, 0, records=count, record_bytes=RECORD_BYTES, acks=acks).frame
        for count in range(1, most + 1)
    }


def sizes(count: int, *, most: int) -> list[int]:
    """Batches of `most` records at most that together have `count`."""
    return [min(most, count - begin) for begin in range(0, count, most)]


class _Load:
    def __init__(self, host: str, port: int, topic: str, first: int, *, rate: float, acks: int) -> None:
        self._topic = topic
        self._first = first
        self._rate = rate
        self._writer = _Connection(host, port)
        self._reader = _Connection(host, port)
        self._frames = batches(topic, most=math.ceil(rate * _TICK_S * _MOST_TICKS), acks=acks)
        self._open: deque[tuple[int, int]] = deque()
        self._sent = self._seen = 0
        self.acknowledged: list[float] = []
        self.read: list[float] = []

    def run(self, seconds: float) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._writer.socket, selectors.EVENT_READ, self._writer)
        selector.register(self._reader.socket, selectors.EVENT_READ, self._reader)
        self._fetch()
        self._began = time.perf_counter()
        total = int(self._rate * seconds)
        tick = 0
        while self._seen < total or self._open:
            now = time.perf_counter() - self._began
            due = min(total, int(now * self._rate))
            if due > self._sent and now >= tick * _TICK_S:
                tick = int(now / _TICK_S) + 1
                self._produce(due - self._sent)
            if now > seconds + _PATIENCE_S:
                raise TimeoutError(f"{total - self._seen} of {total} records are missing after {_PATIENCE_S:g} s")
            wait_s = max(0.0, tick * _TICK_S - now) if self._sent < total else 0.1
            if not self._writer.flush():
                selector.modify(self._writer.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self._writer)
            else:
                selector.modify(self._writer.socket, selectors.EVENT_READ, self._writer)
            for key, _ in selector.select(wait_s):
                answers = key.data.take()
                if key.data is self._writer:
                    self._on_acknowledged(answers)
                else:
                    self._on_read(answers)

    def _produce(self, count: int) -> None:
        for size in sizes(count, most=len(self._frames)):
            self._open.append((self._sent, size))
            self._sent += size
            self._writer.send(self._frames[size])

    def _on_acknowledged(self, answers: list[bytes]) -> None:
        now = time.perf_counter() - self._began
        for answer in answers:
            if error := frames.produce_error(answer, self._topic):
                raise RuntimeError(f"the broker answers error {error}")
            first, count = self._open.popleft()
            self.acknowledged += latencies_ms(first, first + count, now, rate=self._rate)

    def _on_read(self, answers: list[bytes]) -> None:
        now = time.perf_counter() - self._began
        for answer in answers:
            end = self._seen
            # Correlation id, throttle, one topic, one partition: number, error, two offsets, aborted ones, size.
            position = 4 + 4 + 4 + 2 + len(self._topic) + 4 + 4
            (error,) = _ERROR.unpack_from(answer, position)
            if error:
                raise RuntimeError(f"the broker answers error {error}")
            (aborted,) = _SIZE.unpack_from(answer, position + 18)
            position += 22 + max(0, aborted) * 16 + 4
            while position + 61 <= len(answer):
                base, length = _BATCH.unpack_from(answer, position)
                if position + 12 + length > len(answer):
                    break
                end = base + _LAST_DELTA.unpack_from(answer, position + 23)[0] + 1 - self._first
                position += 12 + length
            if end > self._seen:
                self.read += latencies_ms(self._seen, end, now, rate=self._rate)
                self._seen = end
            self._fetch()

    def _fetch(self) -> None:
        self._reader.send(
            frames.fetch(
                self._topic, [(0, self._first + self._seen)], max_bytes=_FETCH_BYTES, max_wait_ms=500, min_bytes=1
            )
        )


def latencies_ms(first: int, end: int, now: float, *, rate: float) -> list[float]:
    """Of each record from `first` to `end`, from when it was due until now; the first second is for warming."""
    return [(now - number / rate) * 1000 for number in range(max(first, int(rate * _WARM_S)), end)]


def _percentiles(latencies: list[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return dict(zip(shares, percentiles(latencies, *shares.values()), strict=True))


def main() -> None:
    host, port, topic, first, rate, seconds, acks = sys.argv[1:]
    load = _Load(host, int(port), topic, int(first), rate=float(rate), acks=int(acks))
    cpu, began = time.process_time(), time.perf_counter()
    load.run(float(seconds) + _WARM_S)
    told: dict[str, Any] = {
        "acknowledged": _percentiles(load.acknowledged),
        "read": _percentiles(load.read),
        "records": len(load.read),
        "seconds": time.perf_counter() - began,
        "client_cpu_seconds": time.process_time() - cpu,
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
