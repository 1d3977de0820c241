"""A steady load: one Produce request at each tick, and for each how long after its tick the answer was there.

Run as a process of its own (`python -m bench.steady_load PORT TOPIC REQUESTS_PER_SECOND RECORD_BYTES`). It prints a
line for each answer: when the request was due, in seconds of the machine's monotonic clock, and the milliseconds that
it took from then on. It ends when its standard input does, and as an error where a batch is refused: who takes none is
quick. Ticks do not wait for answers, so a broker that stalls is seen with all the requests that it holds up.
"""

import contextlib
import os
import selectors
import socket
import sys
import time
from collections import deque

from bench import frames

_MOST_OPEN = 20_000


def main() -> None:
    port, topic, rate, record_bytes = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    frame = frames.produce(topic, 0, records=1, record_bytes=record_bytes).frame
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    os.set_blocking(sys.stdin.fileno(), False)
    open_since: deque[float] = deque()
    unsent = bytearray()
    unread = bytearray()
    due = time.monotonic()
    while True:
        now = time.monotonic()
        while due <= now:
            unsent += frame
            open_since.append(due)
            due += 1 / rate
        if len(open_since) > _MOST_OPEN:
            raise TimeoutError(f"{len(open_since)} requests are unanswered")
        if unsent:
            with contextlib.suppress(BlockingIOError):
                del unsent[: connection.send(unsent)]
        for key, _ in selector.select(max(0.0, due - time.monotonic())):
            if key.fileobj is sys.stdin:
                if not sys.stdin.buffer.read(1):
                    return
                continue
            data = connection.recv(1 << 16)
            if not data:
                raise ConnectionError("the broker closed the connection")
            unread += data
            arrived = time.monotonic()
            while len(unread) >= 4 and len(unread) >= (size := 4 + int.from_bytes(unread[:4], "big")):
                if error := frames.produce_error(unread[4:size], topic):
                    raise RuntimeError(f"the broker answers error {error}")
                del unread[:size]
                since = open_since.popleft()
                sys.stdout.write(f"{since:.4f} {(arrived - since) * 1000:.3f}\n")


if __name__ == "__main__":
    main()
