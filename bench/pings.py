"""How long a broker's loop stands still, as a client feels it: a question every 10 ms, one under way at a time.

Run as a process of its own (`python -m bench.pings HOST PORT`), so that what else measures does not delay it. Says
`ready` after the first answer; when its standard input ends it prints one JSON line: `answers`, and `longest_ms` from
a question to its answer. Waits for a core of the machine are in it: the broker's stall is at most that.
"""

import json
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final

from bench import frames

_EVERY_S: Final = 0.01
_ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Pinged:
    """What the questions of one process showed."""

    answers: int
    longest_ms: float


class Pings:
    """The process that asks one broker, from its start until `stop`."""

    def __init__(self, host: str, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pings", host, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"no answer from {host}:{port}")

    def stop(self) -> Pinged:
        """Ask no more."""
        told, _ = self._process.communicate()
        return Pinged(**json.loads(told))


def ping(host: str, port: int) -> Pinged:
    """Ask until standard input ends."""
    question, answers, longest_s = frames.api_versions(), 0, 0.0
    with socket.create_connection((host, port), timeout=_ANSWER_S) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        incoming = wire.makefile("rb")
        while not select.select([sys.stdin], [], [], _EVERY_S if answers else 0)[0]:
            asked_s = time.monotonic()
            wire.sendall(question)
            head = incoming.read(4)
            size = int.from_bytes(head, "big")
            if len(head) < 4 or len(incoming.read(size)) < size:
                raise ConnectionError("the broker closed the connection")
            longest_s = max(longest_s, time.monotonic() - asked_s)
            answers += 1
            if answers == 1:
                longest_s = 0.0
                sys.stdout.write("ready\n")
                sys.stdout.flush()
    return Pinged(answers, longest_s * 1000)


def main() -> int:
    """See the module."""
    pinged = ping(sys.argv[1], int(sys.argv[2]))
    sys.stdout.write(json.dumps({"answers": pinged.answers, "longest_ms": pinged.longest_ms}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
