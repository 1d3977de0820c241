"""What every session has, whatever carries its requests: the window, the queue, the listeners, and what a lost
connection means.

Requests leave in the order of the calls, at most `max_in_flight` at a time. While the connection is away they wait;
a read that was under way when it went is sent again, a write is not: its outcome is unknown. With the session all of
them fail. Each connection is a generation; an answer or an event of an earlier one is dropped.

    connected ---- lost ----> disconnected ---- same session ----> connected        Disconnected, Resync
                                   |
                                   +-- session over --> no session --> connected     Expired, Resync(new_session)

Runs on one event loop. The two implementations are `session` and `memory`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zk_schema.ops import (
    Op,
    OpResult,
    OutcomeUnknown,
    SessionLost,
    Stat,
    Znode,
    check_acceptable,
    is_acceptable_path,
)
from zk_schema.port import Disconnected, Expired, Listener, Resync, ZooKeeperEvent

log = logging.getLogger(__name__)

DEFAULT_MAX_IN_FLIGHT: Final = 10


@dataclass(frozen=True, slots=True)
class GetData:
    """Answered by a Znode or NodeMissing, which arms nothing."""

    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class GetStat:
    """Answered by a Stat or None; the watch is armed either way."""

    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class GetChildren:
    """Answered by the names or NodeMissing, which arms nothing."""

    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class Write:
    """Answered by one result per operation, or a WriteRefused."""

    operations: tuple[Op, ...]


Request = GetData | GetStat | GetChildren | Write
Answer = Znode | Stat | list[str] | tuple[OpResult, ...] | None


class ReadMissed(Exception):
    """The answer of a read whose znode is not there. Never leaves a session."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A request under way. `generation` is the connection on which it was sent last."""

    request: Request
    answer: "asyncio.Future[Answer]"
    generation: int = -1


class PipelinedSession:
    """A ZooKeeper session less its carrier: `send` hands a ticket to the present connection."""

    def __init__(self, send: Callable[[Ticket], None], *, max_in_flight: int) -> None:
        assert max_in_flight > 0
        self._send = send
        self._max_in_flight = max_in_flight
        self._waiting: deque[Ticket] = deque()
        self._in_flight: dict[Ticket, None] = {}
        self._listeners: list[Listener] = []
        self._generation = 0
        self._session_id = 0
        self._previous_session_id = 0
        self._is_connected = False
        self._is_closed = False

    @property
    def session_id(self) -> int:
        """Of the present session, 0 while there is none."""
        return self._session_id

    @property
    def previous_session_id(self) -> int:
        """Of the session before the present one, 0 if this is the first; its ephemeral znodes may linger."""
        return self._previous_session_id

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hand events to `listener` from now on; what is returned ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """The znode, or None; `watch` arms one `DataChanged`, on a missing znode too."""
        while is_acceptable_path(path):
            try:
                znode = await self._perform(GetData(path, watch))
            except ReadMissed:
                # A read of what is not there arms no watch; a look at it does, and may find that it came meanwhile.
                if not watch or await self._perform(GetStat(path, watch=True)) is None:
                    return None
            else:
                assert isinstance(znode, Znode)
                return znode
        return None

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """The znode's stat, or None; `watch` arms one `DataChanged`, on a missing znode too."""
        if not is_acceptable_path(path):
            return None
        stat = await self._perform(GetStat(path, watch))
        assert stat is None or isinstance(stat, Stat)
        return stat

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Names of the children, sorted, or None; `watch` arms one `ChildrenChanged` if the znode is there."""
        if not is_acceptable_path(path):
            return None
        try:
            names = await self._perform(GetChildren(path, watch))
        except ReadMissed:
            return None
        assert isinstance(names, list)
        return sorted(names)

    async def write(self, *operations: Op) -> list[OpResult]:
        """Perform one operation, or several as one atomic multi.

        Raises:
            WriteRefused: (a subclass) nothing was done.
            OutcomeUnknown: the connection went; it may or may not have been done.
            SessionLost: it was not sent.
        """
        assert operations
        check_acceptable(operations)
        results = await self._perform(Write(operations))
        assert isinstance(results, tuple)
        assert len(results) == len(operations)
        return list(results)

    # What the carrier tells.

    def _on_connected(self, session_id: int) -> None:
        """The session is (again) on a connection; on a new session if the id is a new one."""
        assert session_id != 0
        assert not self._is_connected
        self._generation += 1
        new_session = session_id != self._session_id
        self._session_id = session_id
        self._is_connected = True
        log.info("session %#x: connected (%s)", session_id, "new" if new_session else "as before")
        self._emit(Resync(session_id, new_session))
        self._pump()

    def _on_disconnected(self) -> None:
        """The connection is gone."""
        if not self._is_connected:
            return
        self._is_connected = False
        self._generation += 1
        log.warning("session %#x: connection lost, %d requests under way", self._session_id, len(self._in_flight))
        under_way, self._in_flight = list(self._in_flight), {}
        again = [ticket for ticket in under_way if not isinstance(ticket.request, Write)]
        self._waiting.extendleft(reversed(again))
        self._emit(Disconnected())
        for ticket in under_way:
            if isinstance(ticket.request, Write):
                _fail(ticket, OutcomeUnknown(f"the connection went during {_operations(ticket.request.operations)}"))

    def _on_expired(self) -> None:
        """The session is over; there is none until the next `_on_connected`."""
        self._on_disconnected()
        if self._session_id == 0:
            return
        log.warning("session %#x: expired, %d requests not sent", self._session_id, len(self._waiting))
        self._previous_session_id, self._session_id = self._session_id, 0
        self._emit(Expired())
        self._fail_waiting("the session expired")

    def _on_answer(self, ticket: Ticket, generation: int, answer: "Answer | Exception") -> None:
        """What was sent on `generation` is answered."""
        if ticket not in self._in_flight or generation != self._generation:
            return
        del self._in_flight[ticket]
        if isinstance(answer, Exception):
            _fail(ticket, answer)
        elif not ticket.answer.done():
            ticket.answer.set_result(answer)
        self._pump()

    def _on_event(self, event: ZooKeeperEvent, generation: int) -> None:
        """A watch armed on `generation` fired."""
        if generation == self._generation and self._is_connected:
            self._emit(event)

    def _on_closed(self) -> None:
        """Nothing is sent any more; what waits has not been done."""
        self._is_closed = True
        self._fail_waiting("the session is closed")

    def _on_ended(self) -> None:
        """After a close: nothing is answered any more either."""
        self._is_connected = False
        self._generation += 1
        self._session_id = 0
        under_way, self._in_flight = self._in_flight, {}
        for ticket in under_way:
            _fail(ticket, OutcomeUnknown("the session was closed meanwhile"))

    # Inside.

    async def _perform(self, request: Request) -> Answer:
        if self._session_id == 0 or self._is_closed:
            raise SessionLost("the session is closed" if self._is_closed else "there is no session")
        ticket = Ticket(request, asyncio.get_running_loop().create_future())
        self._waiting.append(ticket)
        self._pump()
        return await ticket.answer

    def _pump(self) -> None:
        while self._waiting and self._is_connected and len(self._in_flight) < self._max_in_flight:
            ticket = self._waiting.popleft()
            if ticket.answer.done():
                continue  # nobody waits for it any more, and it was not sent
            ticket.generation = self._generation
            self._in_flight[ticket] = None
            self._send(ticket)

    def _emit(self, event: ZooKeeperEvent) -> None:
        for listener in tuple(self._listeners):
            listener(event)

    def _fail_waiting(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        for ticket in waiting:
            _fail(ticket, SessionLost(reason))


def _fail(ticket: Ticket, error: Exception) -> None:
    if not ticket.answer.done():
        ticket.answer.set_exception(error)


def _operations(operations: Sequence[Op]) -> str:
    first = f"{type(operations[0]).__name__} {operations[0].path}"
    return first if len(operations) == 1 else f"{first} and {len(operations) - 1} more"
