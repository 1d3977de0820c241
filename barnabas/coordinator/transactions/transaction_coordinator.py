"""All transactional ids of one partition of `__transaction_state`: the machine that a shard runs. Pure.

It answers for who produces under a transactional id and what is open there. Each change is a record; `replay` alone
changes a `Transaction.metadata`. A change is seen by the next request at once and answered when it is committed, so
two changes of one id need not wait for each other: only a transaction that completes makes others wait.

    AddPartitions     EndTxn                markers, then
    Empty -> Ongoing -> PrepareCommit/Abort -> CompleteCommit/Abort -> Ongoing …
    `- InitProducerId raises the epoch; an Ongoing transaction is aborted in the raised epoch first -'

Who meets a completing transaction waits up to `completing_wait_ms` for it and is answered CONCURRENT_TRANSACTIONS then:
markers take some milliseconds, a client's next attempt 20 to 100.

Left out: sending markers (`SendMarkers` tells the driver, `markers_written` hears of it), fetching producer ids (the
handler asks again with one), and the answers' versions.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp, Replies, Ticket, coordinator_error
from barnabas.coordinator.transaction_records import (
    TransactionMetadata,
    TransactionState,
    decode_transaction_key,
    decode_transaction_value,
    encode_transaction_key,
    encode_transaction_value,
)
from barnabas.coordinator.transactions import transaction as steps
from barnabas.coordinator.transactions.description import describe, is_wanted
from barnabas.coordinator.transactions.effects import SendMarkers
from barnabas.coordinator.transactions.producer_identity import (
    Fenced,
    Identified,
    NewIdNeeded,
    ProducerIdentity,
    Renewal,
    identify,
)
from barnabas.coordinator.transactions.requests import Filters, Initialise, Initialised, Producer
from barnabas.coordinator.transactions.states import COMPLETED, END_ANSWERS
from barnabas.coordinator.transactions.sweeps import BatchRoom, is_forgotten, is_overdue
from barnabas.coordinator.transactions.transaction import Transaction
from barnabas.coordinator.transactions.waiting import Waiter, Waiters
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

NO_IDENTITY: Final = ProducerIdentity(-1, -1)
_COMPLETION_RETRY_MS: Final = 1000
_IDS_PER_TURN: Final = 5000
_SHOWN: Final = 200
"""Characters of a transactional id that go into a line of the log."""
_PAUSE_MS: Final = 10
"""Between the parts of a long sweep, for others."""

_TIMEOUTS: Final = ("timeouts",)
_COMPLETIONS: Final = ("completions",)
_EXPIRY: Final = ("expiry",)
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

_RESUME: Final = "resume"
_WAIT: Final = "wait"


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How long things may last, and how much is written at once."""

    timeout_sweep_ms: int = 10_000
    expiration_ms: int = 604_800_000
    expiration_sweep_ms: int = 3_600_000
    completing_wait_ms: int = 20
    max_batch_bytes: int = 16_384


class TransactionCoordinator:
    """See the module."""

    def __init__(self, settings: TransactionSettings) -> None:
        self._settings = settings
        self._coordinator_epoch = -1
        self._now_ms = 0
        self._transactions: dict[str, Transaction] = {}
        self._renewals: dict[str, Renewal] = {}
        self._ongoing: dict[str, None] = {}
        self._unmarked: dict[str, None] = {}
        """Completing transactions that lack no marker any more: their last record is to be written."""
        self._waiting = Waiters()
        self._max_batch_bytes = settings.max_batch_bytes
        self._looks_again = False
        """Whether a look at `_unmarked` is due."""
        self._unswept: list[str] = []

    # -- what the log holds

    def replay(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:  # noqa: ARG002
        transactional_id = decode_transaction_key(record.key)
        metadata = None if record.value is None else decode_transaction_value(record.value)
        if metadata is not None:
            steps.require_storable(metadata)
        self._ongoing.pop(transactional_id, None)
        self._unmarked.pop(transactional_id, None)
        if metadata is None:
            self._transactions.pop(transactional_id, None)
            self._renewals.pop(transactional_id, None)
            return
        known = self._transactions.get(transactional_id)
        if known is None:
            now_ms = self._now_ms
            known = Transaction(metadata, touched_ms=now_ms, started_ms=now_ms, awaiting=steps.awaiting_of(metadata))
            self._transactions[transactional_id] = known
        else:
            known.replayed(metadata, now_ms=self._now_ms)
        if metadata.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        elif metadata.state in COMPLETED and not known.awaiting:
            self._unmarked[transactional_id] = None

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """Nobody writes transactions into this topic, so their ends mean nothing here."""

    def loaded(self, *, coordinator_epoch: int, now_ms: int, wall_ms: int) -> Outcome:
        """Transactions whose decision stands are completed, open ones get their whole time once more.

        How long an id was idle before is told by the wall clock, once; a clock that steps later changes nothing.
        """
        self._now_ms = now_ms
        self._coordinator_epoch = coordinator_epoch
        settings = self._settings
        outcome = Outcome(
            timers=[
                (_TIMEOUTS, now_ms + settings.timeout_sweep_ms),
                (_EXPIRY, now_ms + settings.expiration_sweep_ms),
            ]
        )
        for transactional_id, transaction in self._transactions.items():
            metadata = transaction.metadata
            transaction.touched_ms = now_ms - max(0, wall_ms - metadata.last_update_timestamp_ms)
            transaction.started_ms = now_ms
            if metadata.state in COMPLETED and transaction.awaiting:
                outcome.effects.append(self._markers(transactional_id, metadata))
        if self._unmarked:
            outcome.timers.append((_COMPLETIONS, now_ms))
        return outcome

    def unload(self) -> list[Ticket]:
        return self._waiting.take_all()

    def contents(self) -> str:
        """See `Machine`."""
        return f"{len(self._transactions)} transactional ids, {len(self._ongoing)} with an open transaction"

    # -- requests

    def initialise(self, ticket: Ticket, request: Initialise, *, now_ms: int, wall_ms: int) -> Outcome:
        """Give a producer its identity; the reply is `Initialised` or `NewIdNeeded`.

        Whoever produced under the id before is fenced by the raised epoch; what it has open is aborted first.
        """
        return self._initialise(
            ticket, request, until_ms=now_ms + self._settings.completing_wait_ms, now_ms=now_ms, wall_ms=wall_ms
        )

    def _initialise(self, ticket: Ticket, request: Initialise, *, until_ms: int, now_ms: int, wall_ms: int) -> Outcome:
        self._now_ms = now_ms
        transactional_id = request.transactional_id
        transaction = self._transactions.get(transactional_id)
        known = None if transaction is None else transaction.metadata
        found = identify(
            known,
            self._renewals.get(transactional_id),
            expected=request.expected,
            fresh_producer_id=request.fresh_producer_id,
        )

        def again(now_ms: int, wall_ms: int) -> Outcome:
            return self._initialise(ticket, request, until_ms=until_ms, now_ms=now_ms, wall_ms=wall_ms)

        waiter = Waiter(again, _not_initialised)
        if isinstance(found, Fenced):
            return _answer(ticket, _not_initialised(ErrorCode.PRODUCER_FENCED))
        if known is not None and known.state in COMPLETED:
            return self._wait(transactional_id, ticket, waiter, until_ms=until_ms)
        if known is not None and known.state is TransactionState.ONGOING:
            if isinstance(found, Identified) and found.identity.producer_epoch == known.producer_epoch:
                # A renewal that comes once more, and late: its producer has gone on to this transaction since.
                return _answer(ticket, _not_initialised(ErrorCode.PRODUCER_FENCED))
            outcome = self._fence(transactional_id, known, "a producer begins anew", wall_ms=wall_ms)
            waiting = self._wait(transactional_id, ticket, waiter, until_ms=until_ms)
            outcome.timers += waiting.timers
            outcome.if_failed = lambda error: self._not_fenced(transactional_id, ticket, error)
            return outcome
        if isinstance(found, NewIdNeeded):
            return _answer(ticket, found)
        return self._hand_out(ticket, request, known, found, wall_ms=wall_ms)

    def _hand_out(
        self, ticket: Ticket, request: Initialise, known: TransactionMetadata | None, found: Identified, *, wall_ms: int
    ) -> Outcome:
        # An earlier renewal matches nothing once this record stands, but for one whose own record was refused: nobody
        # had its identity, and who begins anew is given it now. Its retry would make two producers of one.
        before = self._renewals.get(request.transactional_id)
        if found.renewal is not None:
            self._renewals[request.transactional_id] = found.renewal
        elif before is not None and before.current == found.identity:
            del self._renewals[request.transactional_id]
        metadata = steps.initialised(
            known,
            producer_id=found.identity.producer_id,
            producer_epoch=found.identity.producer_epoch,
            timeout_ms=request.timeout_ms,
            wall_ms=wall_ms,
        )
        return Outcome(
            records=[_record(request.transactional_id, metadata)],
            replies=[(ticket, Initialised(ErrorCode.NONE, found.identity))],
            if_failed=lambda error: [(ticket, _not_initialised(coordinator_error(error)))],
        )

    def add_partitions(
        self, ticket: Ticket, producer: Producer, partitions: frozenset[TopicPartition], *, now_ms: int, wall_ms: int
    ) -> Outcome:
        """Make `partitions` part of the producer's transaction, which begins if none is open; the reply is an error."""
        return self._add_partitions(
            ticket,
            producer,
            partitions,
            until_ms=now_ms + self._settings.completing_wait_ms,
            now_ms=now_ms,
            wall_ms=wall_ms,
        )

    def _add_partitions(
        self,
        ticket: Ticket,
        producer: Producer,
        partitions: frozenset[TopicPartition],
        *,
        until_ms: int,
        now_ms: int,
        wall_ms: int,
    ) -> Outcome:
        self._now_ms = now_ms
        known = self._owned(producer)
        if isinstance(known, ErrorCode):
            return _answer(ticket, known)

        def again(now_ms: int, wall_ms: int) -> Outcome:
            return self._add_partitions(ticket, producer, partitions, until_ms=until_ms, now_ms=now_ms, wall_ms=wall_ms)

        if known.state in COMPLETED:
            waiter = Waiter(again, _same)
            return self._wait(producer.transactional_id, ticket, waiter, until_ms=until_ms)
        if known.state is TransactionState.ONGOING and partitions.issubset(known.partitions):
            return _answer(ticket, ErrorCode.NONE)
        metadata = steps.with_partitions(known, partitions, wall_ms=wall_ms)
        return Outcome(
            records=[_record(producer.transactional_id, metadata)],
            replies=[(ticket, ErrorCode.NONE)],
            if_failed=lambda error: [(ticket, coordinator_error(error))],
        )

    def end(self, ticket: Ticket, producer: Producer, *, commit: bool, now_ms: int, wall_ms: int) -> Outcome:
        """Decide the producer's transaction. The reply, an error, leaves when the decision is committed."""
        self._now_ms = now_ms
        known = self._owned(producer)
        if isinstance(known, ErrorCode):
            return _answer(ticket, known)
        if known.state is not TransactionState.ONGOING:
            return _answer(ticket, END_ANSWERS[known.state, commit])
        metadata = steps.ended(known, commit=commit, wall_ms=wall_ms)
        outcome = self._decide(producer.transactional_id, metadata, wall_ms=wall_ms)
        outcome.replies.append((ticket, ErrorCode.NONE))
        outcome.if_failed = lambda error: [(ticket, coordinator_error(error))]
        return outcome

    def describe(self, ticket: Ticket, transactional_id: str) -> Outcome:
        """The reply is a `TransactionDescription`, or None for an id that is not known."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            return _answer(ticket, None)
        return _answer(ticket, describe(transactional_id, transaction, self._coordinator_epoch))

    def listing(self, ticket: Ticket, filters: Filters, *, wall_ms: int) -> Outcome:
        """The reply is a list of `TransactionDescription`, without those that the filters leave out."""
        found = [
            describe(transactional_id, transaction, self._coordinator_epoch)
            for transactional_id, transaction in self._transactions.items()
            if is_wanted(transaction.metadata, filters, wall_ms=wall_ms)
        ]
        return _answer(ticket, found)

    def markers_written(
        self, decided: SendMarkers, partitions: Iterable[TopicPartition], *, now_ms: int, wall_ms: int
    ) -> Outcome:
        """`partitions` have the marker of `decided`, or are gone; after the last one the transaction is complete."""
        self._now_ms = now_ms
        transaction = self._transactions.get(decided.transactional_id)
        if transaction is None or not _is_about(decided, transaction.metadata) or not transaction.awaiting:
            return Outcome()
        transaction.awaiting.difference_update(partitions)
        if transaction.awaiting:
            return Outcome()
        self._unmarked[decided.transactional_id] = None
        return self._complete([decided.transactional_id], wall_ms=wall_ms)

    # -- time

    def on_timer(self, key: Hashable, *, now_ms: int, wall_ms: int) -> Outcome:
        self._now_ms = now_ms
        if key == _TIMEOUTS:
            return self._abort_overdue(now_ms=now_ms, wall_ms=wall_ms)
        if key == _COMPLETIONS:
            return self._complete_unmarked(wall_ms=wall_ms)
        if key == _EXPIRY:
            return self._forget(now_ms=now_ms)
        assert isinstance(key, tuple), key
        kind, transactional_id, *rest = key
        if kind == _RESUME:
            return self._resume(transactional_id, now_ms=now_ms, wall_ms=wall_ms)
        assert kind == _WAIT, key
        return Outcome(replies=self._give_up(transactional_id, rest[0]))

    def _abort_overdue(self, *, now_ms: int, wall_ms: int) -> Outcome:
        """Abort what has lasted too long, in the epoch after its producer's: that one is told so when it asks next."""
        outcome = Outcome(if_failed=self._sweep_refused)
        room = BatchRoom(self._max_batch_bytes)
        due_ms = now_ms + self._settings.timeout_sweep_ms
        for transactional_id in self._ongoing:
            transaction = self._transactions[transactional_id]
            if not is_overdue(transaction, now_ms=now_ms):
                continue
            metadata = transaction.metadata
            why = f"it is open for longer than its {metadata.transaction_timeout_ms} ms"
            decided = self._fence(transactional_id, metadata, why, wall_ms=wall_ms)
            if not room.takes(decided.records):
                due_ms = now_ms + _PAUSE_MS
                break
            outcome.records += decided.records
            outcome.effects += decided.effects
            outcome.notes += decided.notes
        outcome.timers.append((_TIMEOUTS, due_ms))
        return outcome

    def _complete_unmarked(self, *, wall_ms: int) -> Outcome:
        """Write the last records that the log refused when their markers were written."""
        self._looks_again = False
        return self._complete([*self._unmarked], wall_ms=wall_ms)

    def _forget(self, *, now_ms: int) -> Outcome:
        """Tombstones for idle ids: in one turn some thousand ids are looked at, and no more is written than fits."""
        settings = self._settings
        if not self._unswept:
            self._unswept = [*self._transactions]
        room = BatchRoom(self._max_batch_bytes)
        outcome = Outcome(if_failed=self._sweep_refused)
        for _ in range(min(_IDS_PER_TURN, len(self._unswept))):
            transactional_id = self._unswept[-1]
            transaction = self._transactions.get(transactional_id)
            if transaction is not None and is_forgotten(
                transaction, now_ms=now_ms, expiration_ms=settings.expiration_ms
            ):
                tombstone = CoordinatorRecord(encode_transaction_key(transactional_id), None)
                if not room.takes([tombstone]):
                    break
                outcome.records.append(tombstone)
            self._unswept.pop()
        outcome.timers.append((_EXPIRY, now_ms + (_PAUSE_MS if self._unswept else settings.expiration_sweep_ms)))
        return outcome

    def _sweep_refused(self, error: ErrorCode) -> Replies:
        """Nothing was changed, and nobody waits: a later sweep does it, in smaller batches if these were too large."""
        if error in _TOO_LARGE:
            self._max_batch_bytes //= 2
        return []

    # -- waiting for a transaction that completes

    def _wait(self, transactional_id: str, ticket: Ticket, waiter: Waiter, *, until_ms: int) -> Outcome:
        self._waiting.add(transactional_id, ticket, waiter)
        return Outcome(timers=[((_WAIT, transactional_id, ticket), until_ms)])

    def _give_up(self, transactional_id: str, ticket: Ticket) -> Replies:
        waiter = self._waiting.take(transactional_id, ticket)
        return [] if waiter is None else [(ticket, waiter.answer(ErrorCode.CONCURRENT_TRANSACTIONS))]

    def _not_fenced(self, transactional_id: str, ticket: Ticket, error: ErrorCode) -> Replies:
        self._waiting.take(transactional_id, ticket)
        return [(ticket, _not_initialised(coordinator_error(error)))]

    def _resume(self, transactional_id: str, *, now_ms: int, wall_ms: int) -> Outcome:
        """The transaction is complete: who waited first goes on, the next one after it."""
        ticket = self._waiting.first(transactional_id)
        waiter = None if ticket is None else self._waiting.take(transactional_id, ticket)
        if ticket is None or waiter is None:
            return Outcome()
        outcome = waiter.again(now_ms, wall_ms)
        if self._waiting.has(transactional_id, ticket):
            # It completes still, or another one does already.
            return outcome
        outcome.timers.append(((_WAIT, transactional_id, ticket), None))
        if transactional_id in self._waiting:
            outcome.timers.append(((_RESUME, transactional_id), now_ms))
        return outcome

    # -- parts of outcomes

    def _owned(self, producer: Producer) -> TransactionMetadata | ErrorCode:
        """The transactional id's metadata if `producer` is who produces under it."""
        transaction = self._transactions.get(producer.transactional_id)
        if transaction is None or transaction.metadata.producer_id != producer.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.metadata.producer_epoch != producer.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return transaction.metadata

    def _fence(self, transactional_id: str, known: TransactionMetadata, why: str, *, wall_ms: int) -> Outcome:
        self._renewals.pop(transactional_id, None)
        outcome = self._decide(transactional_id, steps.fenced(known, wall_ms=wall_ms), wall_ms=wall_ms)
        who = f"producer {known.producer_id}, epoch {known.producer_epoch}"
        name = transactional_id[:_SHOWN]
        outcome.notes.append(f"transactional id {name}: the transaction of {who} is aborted: {why}")
        return outcome

    def _decide(self, transactional_id: str, metadata: TransactionMetadata, *, wall_ms: int) -> Outcome:
        """Write a decision down and have it carried into the partitions; without any it is complete at once."""
        records = [_record(transactional_id, metadata)]
        if not metadata.partitions:
            records.append(_record(transactional_id, steps.completed(metadata, wall_ms=wall_ms)))
            return Outcome(records=records)
        return Outcome(records=records, effects=[self._markers(transactional_id, metadata)])

    def _markers(self, transactional_id: str, metadata: TransactionMetadata) -> SendMarkers:
        return SendMarkers(
            transactional_id=transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            commit=metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._coordinator_epoch,
            partitions=tuple(TopicPartition(*each) for each in metadata.partitions),
        )

    def _complete(self, transactional_ids: Sequence[str], *, wall_ms: int) -> Outcome:
        """The last records of transactions whose markers are written, as many as fit; who waits for them goes on.

        Where the log refuses them, and where they do not fit, they stay in `_unmarked`, which is looked at again.
        """
        room = BatchRoom(self._max_batch_bytes)
        outcome = Outcome(if_failed=self._sweep_refused)
        if transactional_ids and not self._looks_again:
            self._looks_again = True
            outcome.timers.append((_COMPLETIONS, self._now_ms + _COMPLETION_RETRY_MS))
        for transactional_id in transactional_ids:
            metadata = steps.completed(self._transactions[transactional_id].metadata, wall_ms=wall_ms)
            record = _record(transactional_id, metadata)
            if not room.takes([record]):
                outcome.timers.append((_COMPLETIONS, self._now_ms + _PAUSE_MS))
                break
            outcome.records.append(record)
            if transactional_id in self._waiting:
                outcome.timers.append(((_RESUME, transactional_id), self._now_ms))
        return outcome


def _is_about(decided: SendMarkers, metadata: TransactionMetadata) -> bool:
    return (
        metadata.state in COMPLETED
        and (metadata.producer_id, metadata.producer_epoch) == (decided.producer_id, decided.producer_epoch)
        and (metadata.state is TransactionState.PREPARE_COMMIT) == decided.commit
    )


def _record(transactional_id: str, metadata: TransactionMetadata) -> CoordinatorRecord:
    return CoordinatorRecord(encode_transaction_key(transactional_id), encode_transaction_value(metadata))


def _answer(ticket: Ticket, answer: object) -> Outcome:
    return Outcome(replies=[(ticket, answer)])


def _not_initialised(error: ErrorCode) -> Initialised:
    return Initialised(error, NO_IDENTITY)


def _same(error: ErrorCode) -> ErrorCode:
    return error
