"""How long a broker keeps a client waiting, as `bench.pings` measures it."""

import socket
import threading

import pytest

from bench.pings import Pings
from bench.side_by_side.contestants import HOST

WITHHELD_MS = 150


class Slow:
    """Answers every question at once, but for the third."""

    def __init__(self) -> None:
        self._listening = socket.create_server((HOST, 0))
        self.port: int = self._listening.getsockname()[1]
        self.answered = 0
        self.has_answered_late = threading.Event()
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        wire, _ = self._listening.accept()
        with wire:
            while size := wire.recv(4, socket.MSG_WAITALL):
                wire.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                if self.answered == 2:
                    threading.Event().wait(WITHHELD_MS / 1000)
                wire.sendall(bytes.fromhex("00000006 00000001 0000"))
                self.answered += 1
                if self.answered > 3:
                    self.has_answered_late.set()

    def close(self) -> None:
        self._listening.close()
        self._serving.join()


def test_the_longest_wait_is_told_and_every_answer_counts() -> None:
    slow = Slow()
    pings = Pings(HOST, slow.port)
    assert slow.has_answered_late.wait(10)
    pinged = pings.stop()
    slow.close()
    assert pinged.answers == slow.answered > 3
    assert WITHHELD_MS <= pinged.longest_ms < WITHHELD_MS + 2000


def test_nobody_who_answers_is_told_at_once() -> None:
    with socket.create_server((HOST, 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(RuntimeError, match=f"no answer from {HOST}:{port}"):
        Pings(HOST, port)
