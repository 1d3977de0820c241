"""What idempotent producers sent behind a batch that was refused: it is refused alike, until that batch comes again.

Up to five requests of a producer are under way at once. The first may be refused, for lack of replicas or of a leader,
and the cause be gone when the second is looked at. Kafka then finds a gap and says OUT_OF_ORDER_SEQUENCE_NUMBER: to
librdkafka that means to begin a new epoch, in which it sends again what was not acknowledged, persisted or not, and no
broker can know that for a duplicate. With the error of the first the client tries all of them again, in order.

Four can stand behind the first. A producer that sends more without it has given it up, and is told of its gap.

A gap also stands before what a producer sends first to a new leader while its answers from the old one are still out
(`is_moving_over`). librdkafka gives up on those by itself, and what it had kept back may then overtake what it has to
try again. For a while such a gap gets NOT_ENOUGH_REPLICAS, which is what clients try again (as in KIP-890).
"""

from struct import Struct
from typing import Final

from barnabas.protocol.batch import CURRENT_MAGIC, HEADER_BYTES
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.producer_state import MAX_SEQUENCE, ProducerEntry, ProducerState
from replication.acknowledgements import PartitionRefused
from replication.leader import LeaderState

IN_FLIGHT_BEHIND: Final = 4
PRODUCERS_KEPT: Final = 1000
MOVING_MS: Final = 120_000
"""How long after a leader began a producer may take to settle what it had sent to the one before: Kafka's default of
`delivery.timeout.ms`."""

_MAGIC_AT: Final = 16
_PRODUCER_AT: Final = 43
_unpack_producer = Struct(">qhi").unpack_from


class _Refused:
    """The error is kept and not the exception: its traceback would hold the request."""

    __slots__ = ("behind", "epoch", "error", "message", "sequence")

    def __init__(self, epoch: int, sequence: int, error: ErrorCode, message: str) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.error = error
        self.message = message
        self.behind = 0


class RefusedBatches:
    """Of one partition: the first refused batch of each producer, of the latest producers that had one."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def note(self, records: memoryview, refusal: PartitionRefused) -> None:
        """This batch of a client was refused, for a reason that may pass."""
        producer = _producer_of(records)
        if producer is None:
            return
        producer_id, epoch, sequence = producer
        known = self._by_producer.get(producer_id)
        if known is not None and known.epoch == epoch and _is_behind(sequence, known.sequence):
            return
        self._by_producer.pop(producer_id, None)
        self._by_producer[producer_id] = _Refused(epoch, sequence, refusal.error, refusal.message or "")
        if len(self._by_producer) > PRODUCERS_KEPT:
            del self._by_producer[next(iter(self._by_producer))]

    def check(self, records: memoryview, producers: ProducerState) -> None:
        """Let the batch pass unless it stands behind a refused one. Raises PartitionRefused, as that one was.

        What was refused may be in the log: another leader took it meanwhile, or it was one that came again. Then what
        the log lacks next is waited for.
        """
        producer = _producer_of(records)
        known = None if producer is None else self._by_producer.get(producer[0])
        if producer is None or known is None:
            return
        producer_id, epoch, sequence = producer
        if epoch == known.epoch:
            waited = _waited_for(known, producers.get(producer_id))
            if _is_behind(sequence, waited):
                known.behind += 1
                if known.behind <= IN_FLIGHT_BEHIND:
                    raise PartitionRefused(known.error, known.message)
            elif sequence not in (waited, known.sequence):
                # One that was sent before it, and is tried again.
                return
        del self._by_producer[producer_id]


def is_moving_over(
    records: memoryview, producers: ProducerState, leadership: LeaderState | None, *, now_ms: int
) -> bool:
    """Whether this batch leaves a gap behind what its producer sent to an earlier leader."""
    producer = _producer_of(records)
    entry = None if producer is None else producers.get(producer[0])
    if producer is None or entry is None or not entry.batches or leadership is None:
        return False
    _, epoch, sequence = producer
    return (
        epoch == entry.epoch
        and _is_behind(sequence, entry.last_sequence)
        and entry.batches[-1].last_offset < leadership.epoch_start_offset
        and now_ms - leadership.began_ms < MOVING_MS
    )


def _waited_for(refused: _Refused, entry: ProducerEntry | None) -> int:
    """The sequence that must come first: the refused one's, or the next where the log has that one."""
    if entry is None or entry.epoch != refused.epoch or not entry.batches:
        return refused.sequence
    last = entry.last_sequence
    return refused.sequence if _is_behind(refused.sequence, last) else (last + 1) & MAX_SEQUENCE


def _is_behind(sequence: int, other: int) -> bool:
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE // 2


def _producer_of(records: memoryview) -> tuple[int, int, int] | None:
    """Producer id, epoch and base sequence of a batch; None where it has none."""
    if len(records) < HEADER_BYTES or records[_MAGIC_AT] != CURRENT_MAGIC:
        return None
    producer: tuple[int, int, int] = _unpack_producer(records, _PRODUCER_AT)
    return producer if producer[0] >= 0 else None
