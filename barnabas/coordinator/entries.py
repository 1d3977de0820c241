"""What a shard appends: outcomes of its machine, and markers that end transactions in its partition. And who waits."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.coordinator.batches import batch_of, batch_size, marker_batch
from barnabas.coordinator.outcome import Outcome, ProducerStamp
from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.completion import Completion

Lost = Callable[[ErrorCode], Any]
"""Makes a response of the coordinator's error, which is 14, 15 or 16 or what `coordinator_error` makes of it."""


@dataclass(slots=True)
class Waiting:
    """One request whose reply is to come."""

    reply: Completion[Any]
    on_lost: Lost


@dataclass(slots=True)
class Marker:
    """The end of a producer's transaction, and who waits for it to be committed."""

    producer: ProducerStamp
    commit: bool
    coordinator_epoch: int
    written: "asyncio.Future[None]"


@dataclass(slots=True)
class Entry:
    """An outcome, or a marker, on its way to being committed."""

    outcome: Outcome
    deadline_ms: int
    marker: Marker | None = None
    size_bytes: int = 0
    end_offset: int = -1
    """The log's end that has to be committed first."""
    is_answered: bool = False


def refusal_behind(entry: Entry, producer: ProducerStamp, marker_coordinator_epoch: int | None) -> ErrorCode | None:
    """Why the log will refuse a producer's batch, or with a coordinator's epoch its marker, that follows `entry`.

    Nothing may follow the end of its transaction, and no epoch a later one.
    """
    ended = entry.marker
    before = entry.outcome.producer if ended is None else ended.producer
    if before is None or before.producer_id != producer.producer_id:
        return None
    if ended is not None and marker_coordinator_epoch is None:
        return ErrorCode.INVALID_TXN_STATE
    if producer.producer_epoch < before.producer_epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if (
        ended is not None
        and marker_coordinator_epoch is not None
        and marker_coordinator_epoch < ended.coordinator_epoch
    ):
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return None


def take_batch(queue: deque[Entry], max_batch_bytes: int) -> list[Entry]:
    """What goes into one append: at least one entry, and as many of the next as fit, taken off the queue."""
    first = queue.popleft()
    taken = [first]
    if first.marker is not None or first.outcome.producer is not None:
        return taken
    room = max_batch_bytes - batch_size(first.size_bytes)
    while queue:
        entry = queue[0]
        if entry.marker is not None or entry.outcome.producer is not None or entry.size_bytes > room:
            break
        room -= entry.size_bytes
        taken.append(queue.popleft())
    return taken


def encode_batch(entries: list[Entry], wall_ms: int, codec: Codec) -> bytes | None:
    """The batch for entries that were taken together; None where they have nothing to write."""
    marker = entries[0].marker
    if marker is not None:
        return marker_batch(marker.producer, marker.coordinator_epoch, wall_ms, commit=marker.commit)
    records = [record for entry in entries for record in entry.outcome.records]
    return batch_of(records, wall_ms, codec, entries[0].outcome.producer) if records else None
