"""Brokers whose answers a test chooses, and runs of rows on something that is no cluster of processes."""

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from bench.side_by_side.contestants import HOST, RunningCluster
from bench.side_by_side.row import Run


def run_on(cluster: object, scratch: Path, *, scale: float = 0.0001) -> Run:
    """A run of a row, as small as there is."""
    return Run(cast("RunningCluster", cluster), scratch, scale)


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def requests_of(peer: socket.socket) -> Iterator[bytes]:
    """Each without its size, until the peer is gone."""
    with peer, peer.makefile("rb") as stream, contextlib.suppress(ConnectionError):
        while size := stream.read(4):
            yield stream.read(int.from_bytes(size, "big"))


@contextlib.contextmanager
def serving(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yields the port; each connection is talked to in a thread of its own."""
    with socket.create_server((HOST, 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()


@contextlib.contextmanager
def answering(answer: Callable[[int], bytes]) -> Iterator[int]:
    """Yields the port; `answer` is asked what to say to the first request, the second and so on."""
    numbers = itertools.count(1)

    def talk(peer: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            for _ in requests_of(peer):
                peer.sendall(framed(answer(next(numbers))))

    with serving(talk) as port:
        yield port
