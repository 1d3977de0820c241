"""What a log knows of its producers: the rules of idempotence (KIP-98) and the open transactions.

Per producer id the last five batches are kept, so that a retry is recognised and answered with the offsets of the
original. `check_*` say what is wrong with a batch and change nothing; `apply_*` record it and cannot fail. Between the
two the batch is written. What a leader once accepted is applied whatever it says: only a client's batch is checked.

A transaction is open from its first batch to its marker, and unstable until the high watermark has passed the marker:
no record from `first_unstable_offset` on may be shown to a read_committed consumer.

`end_offset` is the offset up to which the log has been applied. Snapshots are made by producer_snapshot.py.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.error_code import ErrorCode

BATCHES_KEPT: Final = 5
RECENT_SEQUENCES: Final = 2**20
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
NO_COORDINATOR_EPOCH: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1


class ProducerRejection(Exception):
    """A batch or marker that its producer may not write now."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class BatchMetadata(NamedTuple):
    """A batch that was appended; `timestamp` is its greatest."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


@dataclass(slots=True)
class ProducerEntry:
    """One producer: its epoch, its last batches of that epoch (oldest first) and its open transaction.

    `unbroken`: so many sequences up to the last one are known to have been appended, one after the other. A snapshot
    tells of the last batch only: what lies before `restored_at`, where that one begins, stands in the log.

    `is_active`: something was applied since the last look at who is idle; `active_ms`: the last look that found it so.
    Timestamps are the client's: they may be years old, or none, of a producer that writes just now (KAFKA-6817).
    """

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = -1
    txn_first_offset: int = NO_OFFSET
    batches: list[BatchMetadata] = field(default_factory=list)
    unbroken: int = field(default=0, compare=False)
    restored_at: int = field(default=NO_OFFSET, compare=False)
    is_active: bool = field(default=False, compare=False)
    active_ms: int = field(default=-1, compare=False)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def has_in_open_txn(self, batch: BatchMetadata) -> bool:
        return 0 <= self.txn_first_offset <= batch.first_offset


class EndTxn(NamedTuple):
    """What a control batch says of its producer's transaction."""

    commit: bool
    coordinator_epoch: int


class CompletedTxn(NamedTuple):
    """A transaction whose marker was appended at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """The producers of one log."""

    __slots__ = ("_ongoing", "_producers", "_unreplicated", "end_offset", "first_unstable_offset")

    def __init__(self, entries: Iterable[ProducerEntry] = (), *, end_offset: int = 0) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        # First offset of each open transaction -> its producer; of each completed one -> the offset of its marker.
        self._ongoing: dict[int, int] = {}
        self._unreplicated: dict[int, int] = {}
        self.end_offset = end_offset
        self.first_unstable_offset: int | None = None
        for entry in entries:
            self._producers[entry.producer_id] = entry
            if entry.txn_first_offset >= 0:
                self._ongoing[entry.txn_first_offset] = entry.producer_id
        self._refresh_unstable()

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a shorter log would have to be read again for."""
        return not self._producers and not self._unreplicated

    def check_batch(self, header: BatchHeader) -> BatchMetadata | None:
        """Judge a client's data batch. The cached batch when it is a duplicate, None when it may be appended.

        Raises ProducerRejection: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE. A producer
        of which nothing is known may start anywhere (KIP-360): its earlier records may have been deleted.

        A producer settles what it sent before it ends a transaction. librdkafka does not when it aborts: it gives the
        sequences of what it was to try again to the next transaction. To call that a duplicate would lose its records.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return None
        first_sequence = header.base_sequence
        if header.producer_epoch == entry.epoch:
            last_sequence = NO_SEQUENCE
            if entry.batches:
                last_sequence = entry.batches[-1].last_sequence
                span = (header.last_sequence, header.last_offset_delta)
                for batch in entry.batches:
                    if batch.last_sequence == span[0] and batch.offset_delta == span[1]:
                        if header.is_transactional and not entry.has_in_open_txn(batch):
                            raise ProducerRejection(
                                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                                f"producer {header.producer_id} sent sequence {first_sequence}, which stands in a "
                                "transaction of its that has ended",
                            )
                        return batch
            if first_sequence != last_sequence + 1 and not (first_sequence == 0 and last_sequence == MAX_SEQUENCE):
                raise ProducerRejection(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} sent sequence {first_sequence}, {last_sequence} was its last",
                )
        elif header.producer_epoch < entry.epoch:
            raise _stale_epoch(entry, header.producer_epoch)
        elif first_sequence != 0 and entry.epoch != NO_EPOCH:
            raise ProducerRejection(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} began its epoch {header.producer_epoch} with sequence {first_sequence}",
            )
        _check_inside_txn(entry, header)
        return None

    def find_earlier(self, header: BatchHeader) -> int | None:
        """For a client's batch that is out of order: an offset that it was appended below, when it is a late retry.

        In the five batches that are kept it is not found. A producer that follows its partition to a new leader may
        have sent more than those there before the answers of the old leader let it try again what was in flight to
        that. What lies before the sequences that are known to be unbroken may never have been appended: a producer of
        which nothing was known may have begun behind a batch that was refused. One that begins again at sequence 0, or
        far back, is no such case; nor is one whose open transaction began later.
        """
        entry = self.late_retrier(header)
        if entry is None or (entry.last_sequence - header.base_sequence) & MAX_SEQUENCE >= entry.unbroken:
            return None
        return entry.batches[0].first_offset

    def late_retrier(self, header: BatchHeader) -> ProducerEntry | None:
        """The producer of a batch that is out of order, where it lies so that it may be a late retry."""
        entry = self._producers.get(header.producer_id)
        if entry is None or not entry.batches or header.producer_epoch != entry.epoch or header.base_sequence == 0:
            return None
        oldest = entry.batches[0]
        if header.is_transactional and not entry.has_in_open_txn(oldest):
            return None
        behind = (oldest.first_sequence - header.last_sequence) & MAX_SEQUENCE
        return entry if 1 <= behind <= RECENT_SEQUENCES else None

    def check_coordinator_batch(self, header: BatchHeader) -> None:
        """Judge a data batch that a coordinator writes for a producer: it has an epoch, but no sequence.

        Raises ProducerRejection: INVALID_PRODUCER_EPOCH or INVALID_TXN_STATE.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise _stale_epoch(entry, header.producer_epoch)
        _check_inside_txn(entry, header)

    def check_marker(self, header: BatchHeader, marker: EndTxn) -> None:
        """Judge a coordinator's marker.

        Raises ProducerRejection: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._producers.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise _stale_epoch(entry, header.producer_epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ProducerRejection(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker for producer {header.producer_id} is of coordinator epoch {marker.coordinator_epoch}, "
                f"{entry.coordinator_epoch} was seen",
            )

    def expects(self, header: BatchHeader) -> bool:
        """Whether a batch of the log is what its producer, known already, was to write next."""
        entry = self._producers.get(header.producer_id)
        return (
            entry is not None
            and header.producer_epoch == entry.epoch
            and header.base_sequence == entry.last_sequence + 1
            and header.is_transactional == (entry.txn_first_offset >= 0)
        )

    def apply_batch(self, header: BatchHeader, *, base_offset: int) -> None:
        """Record a data batch with a producer id that was appended at `base_offset`."""
        entry = self._entry(header.producer_id)
        batches = entry.batches
        if entry.epoch != header.producer_epoch:
            batches.clear()
            entry.epoch = header.producer_epoch
        if not batches or (header.base_sequence - batches[-1].last_sequence) & MAX_SEQUENCE != 1:
            entry.unbroken, entry.restored_at = 0, NO_OFFSET
        entry.unbroken += header.last_offset_delta + 1
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        last_offset = base_offset + header.last_offset_delta
        batches.append(BatchMetadata(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp))
        entry.last_timestamp = header.max_timestamp
        entry.is_active = True
        if entry.txn_first_offset < 0 and header.is_transactional:
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = header.producer_id
            self._refresh_unstable()

    def apply_marker(self, header: BatchHeader, marker: EndTxn, *, offset: int, timestamp: int) -> CompletedTxn:
        """Record a marker that was appended at `offset`; a transaction without a record begins at its marker."""
        entry = self._entry(header.producer_id)
        first_offset = entry.txn_first_offset if entry.txn_first_offset >= 0 else offset
        if entry.epoch != header.producer_epoch:
            entry.batches.clear()
            entry.epoch = header.producer_epoch
        entry.txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.is_active = True
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        self._refresh_unstable()
        return CompletedTxn(header.producer_id, first_offset, offset, aborted=not marker.commit)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset right after `completed` ended, the high watermark left aside (for the .txnindex)."""
        return min(self._ongoing, default=completed.last_offset + 1)

    def apply_high_watermark(self, high_watermark: int) -> None:
        """Forget the completed transactions whose marker is below the high watermark."""
        if not self._unreplicated:
            return
        passed = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
        for first in passed:
            del self._unreplicated[first]
        if passed:
            self._refresh_unstable()

    def remove_expired(self, *, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have been idle for that long and have no open transaction; how many.

        Who wrote since the last look is no idler, whatever the timestamps of the records.
        """
        expired = []
        for entry in self:
            if entry.is_active:
                entry.is_active, entry.active_ms = False, now_ms
            elif entry.txn_first_offset < 0 and now_ms - max(entry.last_timestamp, entry.active_ms) >= expiration_ms:
                expired.append(entry.producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry(producer_id)
        return entry

    def _refresh_unstable(self) -> None:
        candidates = [*self._ongoing, *self._unreplicated]
        self.first_unstable_offset = min(candidates) if candidates else None


def _check_inside_txn(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.txn_first_offset >= 0 and not header.is_transactional:
        raise ProducerRejection(
            ErrorCode.INVALID_TXN_STATE,
            f"producer {header.producer_id} has a transaction open and sent a batch outside of it",
        )


def _stale_epoch(entry: ProducerEntry, epoch: int) -> ProducerRejection:
    return ProducerRejection(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {entry.producer_id} is in epoch {entry.epoch}, the batch is of epoch {epoch}",
    )
