"""Which id and epoch a producer gets that begins or goes on: the rules of InitProducerId (KIP-98, KIP-360). Pure.

An epoch rises by one each time a producer of the same transactional id begins, so that its predecessor is told from it.
The last two epochs of an id are kept back: one that was handed out can always be fenced once more.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from barnabas.coordinator.transaction_records import TransactionMetadata

EXHAUSTED_EPOCH: Final = 2**15 - 2
"""From here on an id is given no further epoch: the next producer gets a new id."""


class ProducerIdentity(NamedTuple):
    """An id with an epoch."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """`current` was handed out to the producer that had `last`, whose request may come once more.

    Not in the log, whose value of version 0 has no place for it: a retry that meets another coordinator is fenced, as
    in Kafka 2.7.
    """

    current: ProducerIdentity
    last: ProducerIdentity


@dataclass(frozen=True, slots=True)
class Identified:
    """The producer is to have `identity`; `renewal` remembers whom it replaces."""

    identity: ProducerIdentity
    renewal: Renewal | None


class NewIdNeeded:
    """Nobody has had an identity yet, or its epochs are used up: an id has to be fetched first."""


class Fenced:
    """The asking producer has been replaced."""


def is_exhausted(producer_epoch: int) -> bool:
    """Whether no producer may be given the epoch after this one."""
    return producer_epoch >= EXHAUSTED_EPOCH


def identify(
    known: TransactionMetadata | None,
    renewal: Renewal | None,
    *,
    expected: ProducerIdentity | None,
    fresh_producer_id: int | None,
) -> Identified | NewIdNeeded | Fenced:
    """The identity for a producer that asks.

    `known` is what the log holds of the transactional id, `renewal` who last renewed its identity in this coordinator's
    life. `expected` is the identity that the producer says it has (versions 3 and later), None for one that begins.
    `fresh_producer_id` is an id never used, None if none has been fetched yet.
    """
    if known is None:
        return NewIdNeeded() if fresh_producer_id is None else _fresh(fresh_producer_id, None)
    current = ProducerIdentity(known.producer_id, known.producer_epoch)
    if expected not in {None, current}:
        if renewal is not None and renewal.current == current and renewal.last == expected:
            return Identified(current, renewal)
        return Fenced()
    if is_exhausted(current.producer_epoch):
        return NewIdNeeded() if fresh_producer_id is None else _fresh(fresh_producer_id, expected)
    bumped = ProducerIdentity(current.producer_id, current.producer_epoch + 1)
    return Identified(bumped, None if expected is None else Renewal(bumped, expected))


def _fresh(producer_id: int, expected: ProducerIdentity | None) -> Identified:
    identity = ProducerIdentity(producer_id, 0)
    return Identified(identity, None if expected is None else Renewal(identity, expected))
