"""Keeps late requests from opening transactions that nobody will end (KIP-890, part 1). Pure.

The batch with which a producer's transaction begins in a partition needs a guard that its coordinator has confirmed:
the partition is part of the transaction now. A guard is made when such a batch comes, and is gone with whatever may
make the coordinator's answer untrue: a marker of the producer, another epoch of it, the end of this leadership. So an
answer that was under way when the marker came confirms nothing.

    batch -> no guard -> ask the coordinator ------------> confirmed -> batch, again -> appended
    batch, late -> ask the coordinator -> marker appended -> confirmed too late: the batch needs another guard
"""

from typing import Final

from barnabas.protocol.batch import (
    CONTROL_BIT,
    CURRENT_MAGIC,
    TRANSACTIONAL_BIT,
    CorruptBatch,
    read_header,
    verify_crc,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.producer_state import NO_COORDINATOR_EPOCH, ProducerRejection, ProducerState

_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22
_OF_INTEREST: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_CONFIRMED: Final = ErrorCode.NONE


class Guard:
    """One question to a coordinator. `answer` is None until it is there.

    `marked_epoch` is the coordinator epoch of the producer's last marker here: a coordinator of an earlier one does not
    know what has become of the producer's transactions.
    """

    __slots__ = ("answer", "marked_epoch", "producer_epoch", "producer_id")

    def __init__(self, producer_id: int, producer_epoch: int, marked_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.marked_epoch = marked_epoch
        self.answer: ErrorCode | None = None


class NotVerified(Exception):
    """The batch would begin a transaction, and no coordinator has confirmed that: ask it, and tell the guards."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(f"no open transaction of producer {guard.producer_id}, epoch {guard.producer_epoch}")
        self.guard = guard


def is_transactional(records: memoryview) -> bool:
    """Whether these are a data batch of a transaction, as far as its header says."""
    return (
        len(records) > _ATTRIBUTES_AT
        and records[_MAGIC_AT] == CURRENT_MAGIC
        and records[_ATTRIBUTES_AT] & _OF_INTEREST == TRANSACTIONAL_BIT
    )


class TransactionGuards:
    """The guards of one leadership of a partition, at most one for each producer."""

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def require(self, records: memoryview, producers: ProducerState) -> None:
        """Let a transactional batch pass that goes on with an open transaction, or whose beginning was confirmed.

        What will be refused or is a duplicate passes as well: the log says so. Raises NotVerified for the rest.
        """
        try:
            header = read_header(records)
            if self._may_begin(header.producer_id, header.producer_epoch, producers):
                return
            verify_crc(records, 0, header)
            if producers.check_batch(header) is not None:
                return
        except (CorruptBatch, ProducerRejection):
            return
        raise NotVerified(self.of(header.producer_id, header.producer_epoch, producers))

    def needed(self, producer_id: int, producer_epoch: int, producers: ProducerState) -> Guard | None:
        """The guard that a batch of this broker in a transaction needs yet; None where it may be appended."""
        if self._may_begin(producer_id, producer_epoch, producers):
            return None
        return self.of(producer_id, producer_epoch, producers)

    def _may_begin(self, producer_id: int, producer_epoch: int, producers: ProducerState) -> bool:
        entry = producers.get(producer_id)
        if entry is not None and entry.epoch == producer_epoch and entry.txn_first_offset >= 0:
            return True
        guard = self._guards.get(producer_id)
        return guard is not None and guard.producer_epoch == producer_epoch and guard.answer is _CONFIRMED

    def of(self, producer_id: int, producer_epoch: int, producers: ProducerState) -> Guard:
        """The producer's guard; a new one if it has none in this epoch."""
        guard = self._guards.get(producer_id)
        if guard is None or guard.producer_epoch != producer_epoch:
            entry = producers.get(producer_id)
            marked_epoch = NO_COORDINATOR_EPOCH if entry is None else entry.coordinator_epoch
            guard = self._guards[producer_id] = Guard(producer_id, producer_epoch, marked_epoch)
        return guard

    def answer(self, guard: Guard, answer: ErrorCode) -> None:
        """The coordinator has answered. Where it says no, the next batch asks anew."""
        guard.answer = answer
        if answer is not _CONFIRMED:
            self._forget(guard)

    def on_marker(self, producer_id: int) -> None:
        """The producer's transaction has ended here: what was asked before means nothing any more."""
        self._guards.pop(producer_id, None)

    def clear(self) -> None:
        """Another leadership begins."""
        self._guards.clear()

    def _forget(self, guard: Guard) -> None:
        if self._guards.get(guard.producer_id) is guard:
            del self._guards[guard.producer_id]

    def __len__(self) -> int:
        return len(self._guards)
