"""Requests that met a completing transaction and wait a little for it. Pure; soft state, gone with the coordinator."""

from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas.coordinator.outcome import Outcome, Ticket
from barnabas.protocol.error_code import ErrorCode


class Waiter(NamedTuple):
    """`again(now_ms, wall_ms)` handles the request once more, `answer` makes its response of an error."""

    again: Callable[[int, int], Outcome]
    answer: Callable[[ErrorCode], Any]


class Waiters:
    """Who waits, by transactional id and in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Ticket, Waiter]] = {}

    def __contains__(self, transactional_id: str) -> bool:
        return transactional_id in self._waiting

    def has(self, transactional_id: str, ticket: Ticket) -> bool:
        """Whether that request waits."""
        return ticket in self._waiting.get(transactional_id, {})

    def add(self, transactional_id: str, ticket: Ticket, waiter: Waiter) -> None:
        self._waiting.setdefault(transactional_id, {})[ticket] = waiter

    def first(self, transactional_id: str) -> Ticket | None:
        """Who has waited longest for this id."""
        return next(iter(self._waiting.get(transactional_id, {})), None)

    def take(self, transactional_id: str, ticket: Ticket) -> Waiter | None:
        """Who waits no longer; None if it has been taken before."""
        waiters = self._waiting.get(transactional_id, {})
        waiter = waiters.pop(ticket, None)
        if not waiters:
            self._waiting.pop(transactional_id, None)
        return waiter

    def take_all(self) -> list[Ticket]:
        """Nobody waits any more."""
        tickets = [ticket for waiters in self._waiting.values() for ticket in waiters]
        self._waiting.clear()
        return tickets
