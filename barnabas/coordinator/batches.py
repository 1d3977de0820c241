"""Record batches as coordinators write them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, ProducerStamp
from barnabas.protocol.batch import HEADER_BYTES, Codec
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, Record, build_batch, build_end_txn_marker

_AROUND_A_RECORD_BYTES: Final = 1 + 5 + 1 + 5 + 5 + 5 + 1
"""Beside key and value: attributes, length, timestamp delta 0, offset delta, two lengths, no headers."""


def batch_of(records: Iterable[CoordinatorRecord], wall_ms: int, codec: Codec, producer: ProducerStamp | None) -> bytes:
    """A batch of at least one record; with a producer it is part of that one's transaction, and has no sequence."""
    entries = (Record(0, wall_ms, key, value) for key, value in records)
    if producer is None:
        return build_batch(entries, codec=codec)
    return build_batch(
        entries,
        codec=codec,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transactional=True,
    )


def marker_batch(producer: ProducerStamp, coordinator_epoch: int, wall_ms: int, *, commit: bool) -> bytes:
    """The control batch that ends a producer's transaction."""
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    return build_end_txn_marker(
        EndTxnMarker(kind, coordinator_epoch),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp=wall_ms,
    )


def most_bytes(records: Sequence[CoordinatorRecord]) -> int:
    """No batch without compression needs more for these records, beside its header."""
    return sum(_AROUND_A_RECORD_BYTES + len(key) + (0 if value is None else len(value)) for key, value in records)


def batch_size(records_bytes: int) -> int:
    """The size of a batch whose records take so many bytes."""
    return HEADER_BYTES + records_bytes


def pieces(outcome: Outcome, max_batch_bytes: int) -> list[Outcome]:
    """A divisible outcome in pieces whose records fit a batch each, or are a single one. All else is in the last."""
    if not outcome.is_divisible:
        return [outcome]
    found: list[list[CoordinatorRecord]] = [[]]
    size_bytes = HEADER_BYTES
    for record in outcome.records:
        record_bytes = most_bytes((record,))
        if found[-1] and size_bytes + record_bytes > max_batch_bytes:
            found.append([])
            size_bytes = HEADER_BYTES
        found[-1].append(record)
        size_bytes += record_bytes
    *first, last = found
    producer = outcome.producer
    return [*(Outcome(records=records, producer=producer) for records in first), replace(outcome, records=last)]
