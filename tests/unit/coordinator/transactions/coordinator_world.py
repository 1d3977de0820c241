"""A transaction coordinator under a test's hand: its log is a list, and the test moves its clock."""

from collections.abc import Callable, Hashable
from typing import Any

from barnabas.coordinator.batches import batch_size, most_bytes
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, Ticket
from barnabas.coordinator.transaction_records import TransactionMetadata, decode_transaction_value
from barnabas.coordinator.transactions.effects import SendMarkers
from barnabas.coordinator.transactions.producer_identity import NewIdNeeded, ProducerIdentity
from barnabas.coordinator.transactions.requests import Initialise, Initialised, Producer
from barnabas.coordinator.transactions.transaction_coordinator import TransactionCoordinator, TransactionSettings
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
WALL_MS = 1_700_000_000_000


class CoordinatorWorld:
    """The machine with what a shard does for it. `refused` makes the log refuse what comes next."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.log: list[CoordinatorRecord] = []
        self.batches: list[list[CoordinatorRecord]] = []
        self.now_ms = 1_000
        self.wall_ms = WALL_MS
        self.refused: ErrorCode | None = None
        self.most_bytes = 1_000_000
        """The log's max.message.bytes."""
        self.replies: dict[Ticket, Any] = {}
        self.effects: list[SendMarkers] = []
        self.timers: dict[Hashable, int] = {}
        self.notes: list[str] = []
        self._next_ticket = 0
        self._next_producer_id = 100
        self.machine = TransactionCoordinator(self.settings)
        self.epoch = 0
        self.load()

    def load(self) -> None:
        """Another coordinator takes over, with nothing but the log."""
        self.machine = TransactionCoordinator(self.settings)
        self.effects, self.timers = [], {}
        self.epoch += 1
        for record in self.log:
            self.machine.replay(record, None)
        self._take(self.machine.loaded(coordinator_epoch=self.epoch, now_ms=self.now_ms, wall_ms=self.wall_ms))
        self.run_timers()

    def _take(self, outcome: Outcome) -> None:
        self.notes += outcome.notes
        for key, due_ms in outcome.timers:
            self.timers.pop(key, None)
            if due_ms is not None:
                self.timers[key] = due_ms
        refusal = self._refusal(outcome)
        if refusal is not None:
            assert outcome.if_failed is not None, "the shard would drop the machine"
            self.replies.update(outcome.if_failed(refusal))
            return
        for record in outcome.records:
            self.machine.replay(record, None)
        if outcome.records:
            self.batches.append(outcome.records)
        self.log += outcome.records
        self.replies.update(outcome.replies)
        for effect in outcome.effects:
            assert isinstance(effect, SendMarkers)
            self.effects.append(effect)

    def _refusal(self, outcome: Outcome) -> ErrorCode | None:
        if outcome.records and batch_size(most_bytes(outcome.records)) > self.most_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE
        return self.refused if outcome.records else None

    def ask(self, call: Callable[[Ticket], Outcome]) -> Ticket:
        self._next_ticket += 1
        ticket = Ticket(self._next_ticket)
        self._take(call(ticket))
        self.run_timers()
        return ticket

    def run_timers(self) -> None:
        while due := [key for key, due_ms in self.timers.items() if due_ms <= self.now_ms]:
            del self.timers[due[0]]
            self._take(self.machine.on_timer(due[0], now_ms=self.now_ms, wall_ms=self.wall_ms))

    def advance(self, ms: int) -> None:
        """Time passes, and each timer runs when it is due."""
        end_ms, began_ms = self.now_ms + ms, self.now_ms
        while self.timers and (next_ms := min(self.timers.values())) <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.run_timers()
        self.now_ms = end_ms
        self.wall_ms += end_ms - began_ms

    # -- requests

    def begin_initialise(
        self, transactional_id: str = "a", *, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000
    ) -> Ticket:
        def call(ticket: Ticket, fresh: int | None = None) -> Outcome:
            request = Initialise(transactional_id, timeout_ms, expected, fresh)
            return self.machine.initialise(ticket, request, now_ms=self.now_ms, wall_ms=self.wall_ms)

        ticket = self.ask(call)
        if isinstance(self.replies.get(ticket), NewIdNeeded):
            self._next_producer_id += 1
            ticket = self.ask(lambda again: call(again, self._next_producer_id))
        return ticket

    def initialise(
        self, transactional_id: str = "a", *, expected: ProducerIdentity | None = None, timeout_ms: int = 60_000
    ) -> Initialised:
        ticket = self.begin_initialise(transactional_id, expected=expected, timeout_ms=timeout_ms)
        reply = self.replies[ticket]
        assert isinstance(reply, Initialised)
        return reply

    def producer(self, transactional_id: str = "a", *, timeout_ms: int = 60_000) -> Producer:
        """A producer that has just begun."""
        reply = self.initialise(transactional_id, timeout_ms=timeout_ms)
        assert reply.error is ErrorCode.NONE
        return Producer(transactional_id, *reply.identity)

    def begin_add(self, producer: Producer, *partitions: TopicPartition) -> Ticket:
        return self.ask(
            lambda ticket: self.machine.add_partitions(
                ticket, producer, frozenset(partitions), now_ms=self.now_ms, wall_ms=self.wall_ms
            )
        )

    def add(self, producer: Producer, *partitions: TopicPartition) -> Any:
        return self.replies[self.begin_add(producer, *partitions)]

    def end(self, producer: Producer, *, commit: bool) -> Any:
        ticket = self.ask(
            lambda ticket: self.machine.end(ticket, producer, commit=commit, now_ms=self.now_ms, wall_ms=self.wall_ms)
        )
        return self.replies[ticket]

    def write_markers(self, *partitions: TopicPartition) -> None:
        """The oldest decision's markers are written, in these partitions or all of them."""
        decided = self.effects[0]
        if not partitions:
            del self.effects[0]
        self._take(
            self.machine.markers_written(
                decided, partitions or decided.partitions, now_ms=self.now_ms, wall_ms=self.wall_ms
            )
        )
        self.run_timers()

    # -- what stands in the log

    def last(self) -> TransactionMetadata:
        value = self.log[-1].value
        assert value is not None
        return decode_transaction_value(value)

    def states(self) -> list[str]:
        return [decode_transaction_value(each.value).state.name for each in self.log if each.value is not None]
