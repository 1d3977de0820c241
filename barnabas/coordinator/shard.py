"""Runs one machine on one partition of an internal topic, for as long as this broker leads that in one epoch.

Owned by the event loop. Invariants:

- handlers run one after the other and never while the machine is loaded; what a handler wrote is replayed before the
  next one runs, and appended in the same order;
- a reply, also of a read, leaves when all that was written before it is committed, or becomes an error: a state that a
  failover could take back is never told (what is asked by `consult` tells none);
- effects begin when their records are committed, and not at all once their machine is gone;
- an append that fails after its records were replayed costs the machine: all that depend on it are answered, and a new
  one is loaded from the log. Nothing is rolled back by hand. What the log would refuse anyway is refused before.

Outcomes gather during a turn of the loop, and longer while an append is under way that has to wait; the next append
takes as many as fit a batch (group commit). Records in a producer's transaction, and the marker that ends one, are
batches of their own.

Who asked is told within the call that answers (`Completion`): there it may give up other requests, and not ask anew.

Where `append` has succeeded the records stand in the log, committed or not, and the machine agrees with it: who waits
too long for the commit hears of that, and nothing else changes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, Generic, TypeVar

from barnabas.coordinator.alarm import Alarm
from barnabas.coordinator.batches import batch_size, most_bytes, pieces
from barnabas.coordinator.effect import Effect
from barnabas.coordinator.entries import Entry, Lost, Marker, Waiting, encode_batch, refusal_behind, take_batch
from barnabas.coordinator.loading import Loading
from barnabas.coordinator.outcome import Machine, Outcome, ProducerStamp, Replies, Ticket, coordinator_error
from barnabas.coordinator.ports import CoordinatorLog, LogRefused
from barnabas.coordinator.shard_settings import ShardSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.clock import Clock
from barnabas.runtime.completion import Completion

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
T = TypeVar("T")

_COMMIT_AGAIN_S: Final = 0.1
_LOAD_AGAIN_S: Final = 10.0
_LOADED_LATELY_MS: Final = 1_000
_FOR_ANOTHERS_FAILURE: Final = ErrorCode.NOT_ENOUGH_REPLICAS
"""What outcomes hear that were to be appended after one that failed: nothing is wrong with them."""


@dataclass(slots=True)
class ShardCount:
    """What one shard did."""

    loads: int = 0
    load_ms: int = 0
    failed_appends: int = 0
    drops: int = 0
    """Machines that were replaced because they knew of records that are not there."""


class Shard(Generic[M]):
    """See the module. `open` begins it, `close` ends it."""

    def __init__(
        self,
        log_: CoordinatorLog,
        make_machine: Callable[[], M],
        *,
        coordinator_epoch: int,
        clock: Clock,
        spawn: Callable[..., "asyncio.Task[Any]"],
        carry_out: Callable[["Shard[M]", Effect], None],
        settings: ShardSettings,
    ) -> None:
        self.log = log_
        self.coordinator_epoch = coordinator_epoch
        self.settings = settings
        self.counts = ShardCount()
        # Asking for the running loop is a system call in Python 3.11, which would be felt with each request.
        self._loop = asyncio.get_running_loop()
        self._make_machine = make_machine
        self._clock = clock
        self._spawn = spawn
        self._carry_out = carry_out
        self._machine: M | None = None
        self._error: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._tickets = count(1)
        self._requests: dict[Ticket, Waiting] = {}
        self._queue: deque[Entry] = deque()
        self._appending: list[Entry] = []
        self._uncommitted: deque[Entry] = deque()
        self._end_offset = 0
        self._alarm = Alarm(clock, self._ring)
        # In the order in which they began, and not in that of their addresses: so they are cancelled.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._patience: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[Any] | None = None
        self._is_gathering = False
        self._is_committing = False
        self._is_over = False
        self._loaded_ms: int | None = None

    # For who asks.

    @property
    def machine(self) -> M | None:
        """The machine, for reading; another one after each load, None while it is loaded or gone."""
        return self._machine

    @property
    def is_loaded(self) -> bool:
        return self._machine is not None

    @property
    def error(self) -> ErrorCode | None:
        """Why a request cannot be served now; None when it can."""
        return self._error

    def ask(self, call: Callable[[M, Ticket, int, int], Outcome], *, on_lost: Lost) -> Completion[Any]:
        """Have the machine handle one request, `call(machine, ticket, now_ms, wall_ms)`; its response.

        That may be there at once or, for a request that is parked, much later; who waits no longer cancels. `on_lost`
        makes it where the coordinator cannot serve, or not any longer.
        """
        reply: Completion[Any] = Completion()
        machine = self._machine
        if machine is None:
            assert self._error is not None
            reply.set_result(on_lost(self._error))
            return reply
        ticket = Ticket(next(self._tickets))
        self._requests[ticket] = Waiting(reply, on_lost)
        try:
            self._take(call(machine, ticket, self._clock.monotonic_ms(), self._clock.wall_ms()))
        finally:
            if reply.done():
                del self._requests[ticket]
            else:
                reply.add_done_callback(lambda _: self._requests.pop(ticket, None))
        return reply

    async def run(self, call: Callable[[M, Ticket, int, int], Outcome], *, on_lost: Lost) -> Any:
        """The same, waited for."""
        return await self.ask(call, on_lost=on_lost)

    def consult(self, call: Callable[[M, int], T], *, on_lost: Callable[[ErrorCode], T]) -> T:
        """What the machine says at once, `call(machine, now_ms)`: it writes nothing and tells nothing of the log."""
        if self._machine is None:
            assert self._error is not None
            return on_lost(self._error)
        return call(self._machine, self._clock.monotonic_ms())

    def tell(self, call: Callable[[M, int, int], Outcome], *, of: M | None = None) -> bool:
        """Have the machine know something that nobody waits for, `call(machine, now_ms, wall_ms)`; False if it is gone.

        With `of`, only if it is still that machine.
        """
        machine = self._machine
        if machine is None or (of is not None and of is not machine):
            return False
        self._take(call(machine, self._clock.monotonic_ms(), self._clock.wall_ms()))
        return True

    async def write_marker(self, producer: ProducerStamp, *, commit: bool, coordinator_epoch: int) -> None:
        """Write the end of a producer's transaction and return when it is committed.

        Raises:
            LogRefused: COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR, or the log's error.
        """
        machine = self._machine
        if machine is None:
            assert self._error is not None
            raise LogRefused(self._error)
        refusal = self._refusal(producer, coordinator_epoch)
        if refusal is not None:
            raise LogRefused(refusal)
        machine.replay_marker(producer.producer_id, commit=commit)
        marker = Marker(producer, commit, coordinator_epoch, self._loop.create_future())
        self._put(Entry(Outcome(), self._deadline(), marker))
        await marker.written

    # Its life.

    def open(self) -> None:
        """Begin to load."""
        self._start(self._load(), "load")

    def close(self) -> None:
        """This broker leads the partition no longer: whoever waits hears NOT_COORDINATOR."""
        self._end()
        for task in tuple(self._tasks):
            task.cancel()

    async def _load(self, pause_s: float = 0.0) -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        if self._writer is not None and not self._writer.done():
            # What is being appended is part of what is to be read.
            await asyncio.wait((self._writer,))
        while not self._is_over:
            machine = self._make_machine()
            loading = Loading(self.log, machine, self._clock)
            began_ms = self._clock.monotonic_ms()
            try:
                self._end_offset = await loading.run(self.settings.load_buffer_bytes)
            except LogRefused as error:
                if not self._ends_with(error):
                    log.warning("%s: cannot be loaded now: %s", self.log.name, error)
                    await asyncio.sleep(_LOAD_AGAIN_S)
                continue
            if not self._is_over:
                self._begin(machine, loading, began_ms)
            return

    def _begin(self, machine: M, loading: Loading, began_ms: int) -> None:
        """Serve from now on."""
        self._loaded_ms = now_ms = self._clock.monotonic_ms()
        self.counts.loads += 1
        self.counts.load_ms = now_ms - began_ms
        log.info(
            "%s: loaded %d records up to offset %d in %d ms, %d left out: %s",
            self.log.name,
            loading.records,
            self._end_offset,
            self.counts.load_ms,
            loading.left_out,
            machine.contents(),
        )
        self._machine, self._error = machine, None
        # Not all of what was read may be committed: everything waits for that, first of all what follows from it.
        self._put(Entry(Outcome(), self._deadline()))
        self._take(
            machine.loaded(coordinator_epoch=self.coordinator_epoch, now_ms=now_ms, wall_ms=self._clock.wall_ms())
        )

    def _end(self) -> None:
        """This leadership has ended."""
        self._is_over = True
        for entry in self._unanswered():
            self._fail(entry, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._appending = []
        self._uncommitted.clear()
        if self._patience is not None:
            self._patience.cancel()
        self._unload(ErrorCode.NOT_COORDINATOR)

    def _drop(self) -> None:
        """The machine knows of records that are not there: load another. What is being appended goes on."""
        self.counts.drops += 1
        self._unload(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        lately = self._loaded_ms is not None and self._clock.monotonic_ms() - self._loaded_ms < _LOADED_LATELY_MS
        self._start(self._load(_LOADED_LATELY_MS / 1000 if lately else 0.0), "load again")

    def _unload(self, error: ErrorCode) -> None:
        """The machine is gone; `error` is for those who wait and those who come."""
        machine, self._machine, self._error = self._machine, None, error
        self._alarm.clear()
        for entry in self._queue:
            self._fail(entry, _FOR_ANOTHERS_FAILURE)
        self._queue.clear()
        for entry in chain(self._uncommitted, self._appending):
            # Another machine decides anew what has to be done.
            entry.outcome.effects = []
        if machine is not None:
            waiting = machine.unload()
            log.info("%s: unloaded %s; %d requests waited", self.log.name, machine.contents(), len(waiting))
            for ticket in waiting:
                self._lose(ticket, error)

    def _ends_with(self, error: LogRefused) -> bool:
        """Whether the log's error means that this leadership has ended; then it has."""
        if error.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._end()
        return self._is_over

    # What handlers want.

    def _take(self, outcome: Outcome) -> None:
        for note in outcome.notes:
            log.info("%s: %s", self.log.name, note)
        for key, due_ms in outcome.timers:
            self._alarm.set(key, due_ms)
        if outcome.records:
            self._write(outcome)
        elif outcome.replies or outcome.effects:
            if self._queue or self._appending or self._uncommitted:
                self._put(Entry(outcome, self._deadline()))
            else:
                self._finish(outcome)

    def _write(self, outcome: Outcome) -> None:
        machine = self._machine
        assert machine is not None
        limit = self.log.max_batch_bytes
        parts, deadline_ms = pieces(outcome, limit), self._deadline()
        entries = [Entry(part, deadline_ms, size_bytes=most_bytes(part.records)) for part in parts]
        is_too_large = any(self._is_larger(entry, limit) for entry in entries)
        refusal = ErrorCode.MESSAGE_TOO_LARGE if is_too_large else self._refusal(outcome.producer)
        if refusal is not None:
            self._refuse(outcome, refusal)
            return
        for record in outcome.records:
            machine.replay(record, outcome.producer)
        self._put(*entries)

    def _refusal(self, producer: ProducerStamp | None, marker_coordinator_epoch: int | None = None) -> ErrorCode | None:
        """Why the log would refuse this where it is to stand: behind what is still on its way there."""
        if producer is not None:
            for each in chain(self._appending, self._queue):
                refusal = refusal_behind(each, producer, marker_coordinator_epoch)
                if refusal is not None:
                    return refusal
        return self.log.refusal(producer, marker_coordinator_epoch=marker_coordinator_epoch)

    def _is_larger(self, entry: Entry, limit: int) -> bool:
        return batch_size(entry.size_bytes) > limit and len(self._encode([entry]) or b"") > limit

    def _refuse(self, outcome: Outcome, error: ErrorCode) -> None:
        """The log will not have these records: nothing of them was replayed."""
        if outcome.if_failed is not None:
            # The machine takes back what it changed; its reply tells nothing of the log.
            self._answer(outcome.if_failed(error))
            return
        log.warning("%s: %d records are refused: %s", self.log.name, len(outcome.records), error.name)
        for ticket, _ in outcome.replies:
            self._lose(ticket, coordinator_error(error))
        self._drop()

    def _put(self, *entries: Entry) -> None:
        self._queue += entries
        if not self._is_gathering and (self._writer is None or self._writer.done()):
            self._is_gathering = True
            self._loop.call_soon(self._append_gathered)
        if self._patience is None:
            self._set_patience(entries[0].deadline_ms)

    def _deadline(self) -> int:
        return self._clock.monotonic_ms() + self.settings.commit_timeout_ms

    def _ring(self, key: Hashable, now_ms: int) -> None:
        machine = self._machine
        assert machine is not None
        self._take(machine.on_timer(key, now_ms=now_ms, wall_ms=self._clock.wall_ms()))

    # Appending.

    def _append_gathered(self) -> None:
        """Append what waits for nothing but its turn; a task does the rest. What it raises is the process's end."""
        while self._queue:
            self._appending = entries = take_batch(self._queue, self.log.max_batch_bytes)
            batch = self._encode(entries)
            try:
                end_offset = self._end_offset if batch is None else self.log.try_append(batch)
            except LogRefused as error:
                self._append_failed(entries, error)
                continue
            if end_offset is None:
                self._writer = self._start(self._append_in_turn(entries, batch), "append")
                break
            self._appended(entries, end_offset)
        self._is_gathering = False

    async def _append_in_turn(self, entries: list[Entry], batch: bytes | None) -> None:
        while True:
            try:
                end_offset = self._end_offset if batch is None else await self.log.append(batch)
            except LogRefused as error:
                self._append_failed(entries, error)
            else:
                if self._appending is entries:
                    self._appended(entries, end_offset)
            if not self._queue:
                return
            self._appending = entries = take_batch(self._queue, self.log.max_batch_bytes)
            batch = self._encode(entries)

    def _encode(self, entries: list[Entry]) -> bytes | None:
        return encode_batch(entries, self._clock.wall_ms(), self.settings.codec)

    def _append_failed(self, entries: list[Entry], error: LogRefused) -> None:
        self.counts.failed_appends += 1
        log.warning("%s: an append was refused: %s", self.log.name, error)
        if self._ends_with(error):
            return
        for entry in entries:
            self._fail(entry, error.error)
        self._appending = []
        if self._machine is not None:
            self._drop()

    def _appended(self, entries: list[Entry], end_offset: int) -> None:
        self._end_offset = end_offset
        self._appending = []
        if not self._uncommitted and self.log.is_committed(end_offset):
            for entry in entries:
                self._complete(entry)
            return
        for entry in entries:
            entry.end_offset = end_offset
            self._uncommitted.append(entry)
        if not self._is_committing:
            self._is_committing = True
            self._start(self._commit_all(), "commit")

    # Committing.

    async def _commit_all(self) -> None:
        """Let go of what is committed, in the order in which it was appended."""
        try:
            while self._uncommitted:
                end_offset = self._uncommitted[0].end_offset
                try:
                    await self.log.committed(end_offset)
                except LogRefused as error:
                    if self._ends_with(error):
                        return
                    # It may be committed yet; those who wait are not kept for that.
                    for entry in self._uncommitted:
                        self._fail(entry, error.error)
                    await asyncio.sleep(_COMMIT_AGAIN_S)
                    continue
                while self._uncommitted and self._uncommitted[0].end_offset <= end_offset:
                    self._complete(self._uncommitted.popleft())
        finally:
            self._is_committing = False

    def _unanswered(self) -> Iterator[Entry]:
        """All that is on its way and has not been answered, oldest first."""
        on_their_way = (*self._uncommitted, *self._appending, *self._queue)
        return (entry for entry in on_their_way if not entry.is_answered)

    def _set_patience(self, deadline_ms: int) -> None:
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._patience = self._loop.call_later(delay_s, self._lose_patience)

    def _lose_patience(self) -> None:
        """Answer those who have waited long enough. Their records, and what follows from them, wait on."""
        self._patience = None
        now_ms = self._clock.monotonic_ms()
        for entry in self._unanswered():
            if entry.deadline_ms > now_ms:
                self._set_patience(entry.deadline_ms)
                return
            self._fail(entry, ErrorCode.REQUEST_TIMED_OUT)

    def _complete(self, entry: Entry) -> None:
        if entry.marker is not None and not entry.marker.written.done():
            entry.marker.written.set_result(None)
        self._finish(entry.outcome)

    def _finish(self, outcome: Outcome) -> None:
        self._answer(outcome.replies)
        for effect in outcome.effects:
            self._carry_out(self, effect)

    def _fail(self, entry: Entry, error: ErrorCode) -> None:
        if entry.is_answered:
            return
        entry.is_answered = True
        if entry.marker is not None and not entry.marker.written.done():
            entry.marker.written.set_exception(LogRefused(error))
        outcome = entry.outcome
        if outcome.if_failed is not None:
            self._answer(outcome.if_failed(error))
        for ticket, _ in outcome.replies:
            self._lose(ticket, coordinator_error(error))

    def _answer(self, replies: Replies) -> None:
        for ticket, response in replies:
            request = self._requests.get(ticket)
            # Who asked may be gone.
            if request is not None and not request.reply.done():
                request.reply.set_result(response)

    def _lose(self, ticket: Ticket, error: ErrorCode) -> None:
        request = self._requests.get(ticket)
        if request is not None and not request.reply.done():
            request.reply.set_result(request.on_lost(error))

    # Tasks.

    def _start(self, work: Coroutine[Any, Any, None], what: str) -> "asyncio.Task[Any]":
        task = self._spawn(work, name=f"{what} {self.log.name}")
        self._tasks[task] = None
        task.add_done_callback(self._tasks.__delitem__)
        return task
