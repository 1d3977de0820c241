"""The way of one partition through a producer: what may be sent next, and what an answer means for what stands behind.

A lane holds its batches in order: those that have a sequence number (`sent`, from the oldest that is not decided on)
and those that have none yet (`queue`). At most `window` batches reach from the oldest undecided one to the newest, as a
broker knows a retry among the last five only; one, until a batch of the present epoch was acknowledged: a broker that
knows nothing of a producer takes any sequence, also that of a batch whose predecessor it has just refused.

Nothing new is sent while a batch waits to be tried again, and of those that wait only the oldest undecided one goes.
So the order of the records holds through every retry.

A batch that is given up leaves a gap, and no batch behind it can be written in this epoch. Those are then looked at:
whatever may have been written is tried once more with its old sequence, which shows whether it was; all others lose
their sequence; and the lane begins a new epoch at sequence 0 (KIP-360), in which no broker takes what is late from the
old one. The epoch is the lane's own, as brokers count epochs per partition; only a transaction has one for all.

Without sequences (`is_sequenced` off) a lane has one batch under way at a time, so that the order holds as well.
"""

from asyncio import TimerHandle
from collections import deque
from typing import Final

from barnabas.client.outgoing import EncodedRecords, Identity, OutgoingBatch, Stage
from barnabas.protocol.batch import NO_SEQUENCE
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

MAX_SEQUENCE: Final = 0x7FFFFFFF
LAST_EPOCH: Final = 32766

NOT_WRITTEN: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors that say that this attempt did not write. NOT_LEADER_OR_FOLLOWER does not: Kafka tells it also to who waits
for the replication of what was written when the leader is replaced."""

_OUT_OF_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class Lane:
    """See the module. `topic_partition` is where its batches go."""

    __slots__ = (
        "_is_established",
        "_is_sequenced",
        "_next_sequence",
        "_window",
        "filling",
        "identity",
        "is_broken",
        "is_due",
        "is_exhausted",
        "last_error",
        "pause_s",
        "queue",
        "records_taken",
        "retry_at_s",
        "sent",
        "timer",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, is_sequenced: bool, window: int) -> None:
        assert window >= 1
        self.topic_partition = topic_partition
        self.identity: Identity | None = None
        self.filling: OutgoingBatch | None = None
        self.is_due = False
        self.timer: TimerHandle | None = None
        """It makes what is filled due."""
        self.queue: deque[OutgoingBatch] = deque()
        self.sent: deque[OutgoingBatch] = deque()
        self.records_taken = 0
        self.retry_at_s = 0.0
        self.pause_s = 0.0
        self.last_error: Exception | None = None
        self.is_broken = False
        self.is_exhausted = False
        """Its producer id has no epoch left: it wants another id."""
        self._is_sequenced = is_sequenced
        self._window = window if is_sequenced else 1
        self._next_sequence = 0
        self._is_established = False

    # What comes in.

    def begin(self, timestamp: int) -> OutgoingBatch:
        """A new batch to fill."""
        assert self.filling is None
        self.filling = OutgoingBatch(self.topic_partition, first_record=self.records_taken, first_timestamp=timestamp)
        return self.filling

    def take_encoded(self, records: EncodedRecords) -> OutgoingBatch:
        """A batch of its own for records that come encoded, behind all that came before."""
        assert self.filling is None
        batch = OutgoingBatch(
            self.topic_partition, first_record=self.records_taken, first_timestamp=records.first_timestamp
        )
        batch.take_encoded(records)
        self.records_taken += batch.count
        self.queue.append(batch)
        return batch

    def close_filling(self) -> None:
        """The batch that is filled takes no more."""
        batch = self.filling
        if batch is not None:
            self._end_filling(batch)
            self.queue.append(batch)

    def _end_filling(self, batch: OutgoingBatch) -> None:
        self.is_due = False
        self.filling = None
        self.records_taken += batch.count
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def start_epoch(self, identity: Identity | None) -> None:
        """Sequences begin at 0 in a new epoch. Nothing may be under way."""
        assert not any(batch.stage is Stage.IN_FLIGHT for batch in self.sent)
        self.identity = identity
        self._next_sequence = 0
        self._is_established = False
        self.is_broken = False

    @property
    def in_flight(self) -> int:
        return sum(batch.stage is Stage.IN_FLIGHT for batch in self.sent)

    @property
    def undecided(self) -> list[OutgoingBatch]:
        """Every batch of which nothing is known yet, in order."""
        open_batches = [batch for batch in self.sent if batch.stage is not Stage.DONE]
        return [*open_batches, *self.queue, *(() if self.filling is None else (self.filling,))]

    # What may be sent.

    def next_batch(self) -> OutgoingBatch | None:
        """The batch that may be sent now, None where there is none. It is not marked; `on_sent` does that."""
        if self.is_broken and not self._mend():
            return None if self.in_flight else self.sent[0]
        if self.sent:
            waits = any(batch.stage is Stage.WAITING for batch in self.sent)
            if waits:
                oldest = self.sent[0]
                return oldest if oldest.stage is Stage.WAITING else None
            if len(self.sent) >= (self._window if self._is_established else 1):
                return None
        if not self.queue and self.filling is not None and self.is_due:
            self.close_filling()
        return self.queue[0] if self.queue else None

    def on_sent(self, batch: OutgoingBatch) -> None:
        """`next_batch` leaves."""
        if self.queue and batch is self.queue[0]:
            self.queue.popleft()
            if self._is_sequenced:
                batch.sequence = self._next_sequence
                self._next_sequence = (self._next_sequence + batch.count) & MAX_SEQUENCE
            self.sent.append(batch)
        batch.stage = Stage.IN_FLIGHT

    def _mend(self) -> bool:
        """Behind a gap: take sequences away once nothing is in doubt. False while something is."""
        if any(each.stage is Stage.IN_FLIGHT or _is_doubtful(each) for each in self.sent):
            # Those that were certainly not written must not be tried in between.
            self._unsequence([each for each in self.sent if each.stage is Stage.WAITING and not _is_doubtful(each)])
            self._forget()
            return False
        self._unsequence([each for each in self.sent if each.stage is Stage.WAITING])
        self.sent.clear()
        identity = self.identity
        assert identity is not None
        self.is_exhausted = identity.epoch >= LAST_EPOCH
        self.start_epoch(None if self.is_exhausted else identity._replace(epoch=identity.epoch + 1))
        return True

    def _unsequence(self, batches: list[OutgoingBatch]) -> None:
        for batch in batches:
            batch.sequence = NO_SEQUENCE
            self.sent.remove(batch)
        merged = sorted([*batches, *self.queue], key=lambda each: each.first_record)
        self.queue = deque(merged)

    # What becomes of it.

    def on_acknowledged(self, batch: OutgoingBatch) -> None:
        """`batch` is written and finished."""
        assert batch.stage is Stage.DONE
        self._is_established = True
        self.pause_s = 0.0
        self.last_error = None
        self._forget()

    def on_refused(self, batch: OutgoingBatch, error: ErrorCode) -> bool:
        """A broker answered an error. True when the batch waits to be tried again, False when it is to be given up."""
        if error not in NOT_WRITTEN:
            batch.may_be_written = True
        elif error in _OUT_OF_SEQUENCE:
            # Had an earlier attempt been written, this would have been known for its repetition.
            batch.may_be_written = False
            if self.is_broken or batch is not self.sent[0]:
                batch.stage = Stage.WAITING
                return True
        if error.retriable:
            batch.stage = Stage.WAITING
            return True
        return False

    def on_lost(self, batch: OutgoingBatch, *, was_sent: bool) -> None:
        """There was no answer. It waits to be tried again."""
        batch.may_be_written |= was_sent
        batch.stage = Stage.WAITING

    def on_divided(self, batch: OutgoingBatch, halves: tuple[OutgoingBatch, OutgoingBatch]) -> None:
        """`batch` was too large for its topic; its halves wait in its place."""
        place = self.sent.index(batch)
        del self.sent[place]
        self.sent.insert(place, halves[1])
        self.sent.insert(place, halves[0])

    def on_given_up(self, batch: OutgoingBatch) -> None:
        """`batch` is finished with an error and will not be sent again."""
        assert batch.stage is Stage.DONE
        if batch in self.sent:
            self.is_broken = self._is_sequenced
            self._forget()
        elif batch is self.filling:
            self._end_filling(batch)
        else:
            self.queue.remove(batch)

    def _forget(self) -> None:
        """The oldest go, as far as they are decided on; one behind an undecided one still counts for the window."""
        while self.sent and self.sent[0].stage is Stage.DONE:
            self.sent.popleft()


def _is_doubtful(batch: OutgoingBatch) -> bool:
    return batch.stage is Stage.WAITING and batch.may_be_written
