"""What clients did and what they were told: the operations that the history checker judges.

An operation is made when a client sends (`History.produce`, `History.poll`) and closed once, when the client knows
how it ended: `ok`, `fail` (it surely did not and will not happen) or `unknown`. One never closed counts as unknown.
Times are of one monotonic clock, in any unit; of two operations one is first if it ended before the other began.
A `client` is one incarnation: what starts again with a new producer id takes a new name.

What members of groups did stands in `group_history`, `check` in `history_check`, the text form in `history_lines`, the
self-describing values in `history_values`.
"""

from dataclasses import dataclass, field
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.group_history import GroupHistory
from barnabas.simulation.outcome import Outcome

__all__ = ["ACKS_ALL", "History", "Outcome", "Poll", "Produce", "Transaction", "outcome_of_produce"]

ACKS_ALL: Final = -1


@dataclass(slots=True)
class Produce:
    """One record that a client sent. `value` is unique in the whole history.

    `idempotent`: the producer promises that a record stands once, and in the order in which the client sent them.
    `offset` is what the acknowledgement named; a record acknowledged with `acks` 0 has none. `key` matters where logs
    are compacted (`History.compacted`); a record that `is_tombstone` says that its key has no value any more, and bears
    its own value where compaction does not look. `source` is the record that this one was made of, by who reads,
    transforms and writes in transactions.
    """

    client: str
    topic_partition: TopicPartition
    value: bytes
    invoked_at: int
    acks: int = ACKS_ALL
    idempotent: bool = True
    transaction: str | None = None
    outcome: Outcome = Outcome.UNKNOWN
    completed_at: int | None = None
    offset: int | None = None
    error: str = ""
    key: bytes | None = None
    is_tombstone: bool = False
    source: tuple[TopicPartition, int] | None = None

    def ok(self, offset: int | None, now: int) -> None:
        """The broker acknowledged the record at this offset."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.offset, self.completed_at = Outcome.OK, offset, now

    def fail(self, error: str, now: int) -> None:
        """The record was not written and never will be."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.error, self.completed_at = Outcome.FAIL, error, now

    def unknown(self, error: str, now: int) -> None:
        """The client gave up; the record may be there, or come yet."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.error, self.completed_at = Outcome.UNKNOWN, error, now


@dataclass(slots=True)
class Poll:
    """One answered or failed read of one partition.

    `position`: the offset asked for, when the client knows it. `session`: polls of one client with the same number go
    on where the last one ended; a seek, a new assignment or a reset takes the next number. `final`: one of the reads at
    the end, from the start of the partition to its end, after all faults healed. `high_watermark` and `leader_epoch`:
    what the leader told with it (of a follower no epoch: what it knows of the high watermark is late). `group`: for
    which group a member read it; such a poll is closed when the records are handed out, before they are worked on.
    """

    client: str
    topic_partition: TopicPartition
    invoked_at: int
    position: int | None = None
    session: int = 0
    read_committed: bool = False
    final: bool = False
    outcome: Outcome = Outcome.UNKNOWN
    completed_at: int | None = None
    records: list[tuple[int, bytes]] = field(default_factory=list)
    high_watermark: int | None = None
    leader_epoch: int | None = None
    error: str = ""
    group: str | None = None

    def ok(
        self,
        records: list[tuple[int, bytes]],
        now: int,
        *,
        high_watermark: int | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        """Offset and value of each record that was given, in the order in which they came; none is a good answer."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.records, self.completed_at = Outcome.OK, records, now
        self.high_watermark, self.leader_epoch = high_watermark, leader_epoch

    def fail(self, error: str, now: int) -> None:
        """Nothing was read."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.error, self.completed_at = Outcome.FAIL, error, now


@dataclass(slots=True)
class Transaction:
    """How a transaction ended: `OK` committed, `FAIL` aborted, `UNKNOWN` either. `name` is unique in the whole history.

    `commit_asked_at`: when the client began to ask for its commit; of one that was never asked to commit nothing may
    ever be read, however its client ended. `completed_at`: when the client heard of its end. Records bear its name in
    `Produce.transaction`, offsets in `OffsetCommit.transaction`.
    """

    name: str
    outcome: Outcome = Outcome.UNKNOWN
    transactional_id: str = ""
    client: str = ""
    began_at: int | None = None
    timeout_ms: int | None = None
    commit_asked_at: int | None = None
    completed_at: int | None = None
    error: str = ""

    def end(self, outcome: Outcome, now: int, error: str = "") -> None:
        """The client heard how it ended, or that it will not."""
        assert self.completed_at is None, f"{self} ends twice"
        self.outcome, self.completed_at, self.error = outcome, now, error


@dataclass(slots=True)
class History:
    """All operations, in the order in which each client invoked its own."""

    produces: dict[TopicPartition, list[Produce]] = field(default_factory=dict)
    polls: dict[TopicPartition, list[Poll]] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    compacted: dict[TopicPartition, None] = field(default_factory=dict)
    """Partitions in which a record may go when a later one has its key, and a tombstone with time."""

    groups: GroupHistory = field(default_factory=GroupHistory)

    def produce(
        self,
        client: str,
        topic_partition: TopicPartition,
        value: bytes,
        now: int,
        *,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
        transaction: str | None = None,
        key: bytes | None = None,
        is_tombstone: bool = False,
    ) -> Produce:
        """A client sends a record now; close what is returned when the answer came."""
        operation = Produce(client, topic_partition, value, now, acks, idempotent, transaction)
        operation.key, operation.is_tombstone = key, is_tombstone
        self.add(operation)
        return operation

    def poll(
        self,
        client: str,
        topic_partition: TopicPartition,
        now: int,
        *,
        position: int | None = None,
        session: int = 0,
        read_committed: bool = False,
        final: bool = False,
    ) -> Poll:
        """A client asks for records now; close what is returned when the answer came."""
        operation = Poll(client, topic_partition, now, position, session, read_committed, final)
        self.add(operation)
        return operation

    def add(self, operation: Produce | Poll) -> None:
        """Take an operation that was made elsewhere."""
        if isinstance(operation, Produce):
            self.produces.setdefault(operation.topic_partition, []).append(operation)
        else:
            self.polls.setdefault(operation.topic_partition, []).append(operation)

    def begin_transaction(
        self, name: str, now: int, *, transactional_id: str, client: str, timeout_ms: int
    ) -> Transaction:
        """A client begins a transaction now; close what is returned when it knows the end."""
        assert name not in self.transactions, f"two transactions are called {name}"
        made = Transaction(name, transactional_id=transactional_id, client=client, began_at=now, timeout_ms=timeout_ms)
        self.transactions[name] = made
        return made

    def end_transaction(self, name: str, outcome: Outcome) -> None:
        """A transaction that nobody ended stays unknown."""
        self.transactions[name] = Transaction(name, outcome)

    def settle_transactions(self) -> None:
        """At the end: what no client ever asked to commit is aborted, or will be."""
        for each in self.transactions.values():
            if each.outcome is Outcome.UNKNOWN and each.began_at is not None and each.commit_asked_at is None:
                each.outcome = Outcome.FAIL

    def allow_deletion(self, topic_partition: TopicPartition, before_offset: int) -> None:
        """Somebody deletes the records below this offset, or retention may: nobody has to see them from now on."""
        self.start_offsets[topic_partition] = max(before_offset, self.start_offsets.get(topic_partition, 0))

    def committed_end(self, topic_partition: TopicPartition) -> int:
        """The offset behind all that was acknowledged with acks=all, or read."""
        produces, polls = self.produces.get(topic_partition, ()), self.polls.get(topic_partition, ())
        placed = (one.offset for one in produces if one.acks == ACKS_ALL and one.offset is not None)
        return 1 + max((*placed, *(poll.records[-1][0] for poll in polls if poll.records)), default=-1)

    @property
    def acknowledged_count(self) -> int:
        """Records with a positive answer."""
        return sum(one.outcome is Outcome.OK for some in self.produces.values() for one in some)


_NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def outcome_of_produce(error: ErrorCode, *, earlier_attempt_unknown: bool = False) -> Outcome:
    """What an answer proves. Whoever retried after a lost answer no longer knows, whatever the last answer says."""
    if error is ErrorCode.NONE:
        return Outcome.OK
    return Outcome.FAIL if error in _NOT_WRITTEN and not earlier_attempt_unknown else Outcome.UNKNOWN
