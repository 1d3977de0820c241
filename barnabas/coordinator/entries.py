"""What a shard appends: outcomes of its machine, and markers that end transactions in its partition."""

import asyncio
from dataclasses import dataclass

from barnabas.coordinator.outcome import Outcome, ProducerStamp


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
