"""Answers to several peers in one turn of the loop leave together.

A send to a process that sleeps wakes it, which costs about as much as the rest of the send. A process with many
connections sleeps before the first of several answers only, so a connection that comes right after others leaves its
answer to the end of the turn. It leaves earlier where many wait, or where it has waited for a millisecond when the
next peer has its say. A connection that has the loop for itself, or shares it with one other, sends at once.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

TOGETHER: Final = 64
LONGEST_S: Final = 0.001


class Sender(Protocol):
    """A connection whose frames were handed over."""

    def send_gathered(self) -> None: ...


class GatheredSends:
    """Of the connections that a broker has accepted."""

    __slots__ = ("_before", "_is_due", "_latest", "_now_s", "_since_s", "_waiting")

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._latest: Sender | None = None
        self._before: Sender | None = None
        """The one before the latest, another one."""
        self._waiting: list[Sender] = []
        self._since_s = 0.0
        self._is_due = False

    @property
    def is_waiting(self) -> bool:
        """Whether `send_overdue` is to be called before more is handed over."""
        return bool(self._waiting)

    def add(self, sender: Sender) -> None:
        """Have the sender send, now or at the end of this turn at the latest."""
        is_one_of_two = sender is self._latest or sender is self._before
        if sender is not self._latest:
            self._before, self._latest = self._latest, sender
        if not self._waiting:
            if is_one_of_two:
                self._tell(sender)
                return
            self._since_s = self._now_s()
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._end_turn)
        self._waiting.append(sender)
        if len(self._waiting) >= TOGETHER:
            self._send()

    def send_overdue(self) -> None:
        """Let go of those who wait if the first of them has waited for long."""
        if self._now_s() - self._since_s > LONGEST_S:
            self._send()

    def forget(self, sender: Sender) -> None:
        """The connection has ended."""
        if sender is self._latest:
            self._latest = None
        if sender is self._before:
            self._before = None

    def _end_turn(self) -> None:
        self._is_due = False
        self._send()

    def _send(self) -> None:
        waiting = self._waiting
        self._waiting = []
        for sender in waiting:
            self._tell(sender)

    def _tell(self, sender: Sender) -> None:
        try:
            sender.send_gathered()
        except Exception as error:  # noqa: BLE001 - the others send in any case
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "a connection failed to send", "exception": error})
