"""Answers to several peers in one turn of the loop leave together.

A send to a process that sleeps wakes it, which costs about as much as the rest of the send. A process with many
connections sleeps before the first of several answers only, so a connection that comes right after another one leaves
its answer to the end of the turn, or to when many wait, or one has waited long. One that has the loop for itself sends
at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

log = logging.getLogger(__name__)

TOGETHER: Final = 32
LONGEST_S: Final = 0.0005


class Sender(Protocol):
    """A connection whose frames were handed over."""

    @property
    def peer_host(self) -> str: ...

    def send_gathered(self) -> None: ...

    def close(self, reason: str) -> None: ...


class GatheredSends:
    """Of the connections of one loop."""

    __slots__ = ("_is_due", "_latest", "_loop", "_now_s", "_since_s", "_waiting")

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_s = now_s
        self._latest: Sender | None = None
        self._waiting: list[Sender] = []
        self._since_s = 0.0
        self._is_due = False

    def add(self, sender: Sender) -> None:
        """Have the sender send, now or at the end of this turn at the latest."""
        waiting = self._waiting
        if not waiting:
            if sender is self._latest:
                sender.send_gathered()
                return
            self._since_s = self._now_s()
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._end_turn)
        self._latest = sender
        waiting.append(sender)
        if len(waiting) >= TOGETHER or self._now_s() - self._since_s > LONGEST_S:
            self._send()

    def _end_turn(self) -> None:
        self._is_due = False
        self._send()

    def _send(self) -> None:
        waiting = self._waiting
        self._waiting = []
        for sender in waiting:
            try:
                sender.send_gathered()
            except Exception:
                log.exception("%s: sending failed; closing the connection", sender.peer_host)
                sender.close("its answers could not be sent")
