"""Which committed offsets have outlived their retention (KIP-211), and in what pieces their tombstones are written.

What counts is how long nobody has needed them:

- a group that was a group and is Empty: since it is Empty, or, where that is not known, since each commit;
- a consumer group with members: since its commit, for topics that no member subscribes to. Only a Stable group knows
  that: one that rebalances may be about to subscribe (KAFKA-13636), and one whose subscriptions cannot be read never;
- a group with members of another protocol type: never;
- offsets without a group: since the commit.

An offset that was committed with a time of expiry goes by that alone. What an open transaction may yet change stays.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from barnabas.coordinator.group_records import NO_TIMESTAMP, OffsetAndMetadata
from barnabas.coordinator.offsets.committed import CommittedOffsets, TopicPartition
from barnabas.coordinator.outcome import CoordinatorRecord

PIECE_BYTES: Final = 16 * 1024
"""Keys of tombstones in one batch; far below any sensible max.message.bytes (KAFKA-13099)."""

_CONSUMER: Final = "consumer"
_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupUse:
    """What a group says of its need for its offsets."""

    protocol_type: str | None
    """None or "" where it has never been a group."""
    is_empty: bool
    is_stable: bool
    state_since_ms: int | None
    """Wall clock; None where the log does not tell."""
    subscribed_topics: AbstractSet[str] | None
    """None where that cannot be known."""


NO_GROUP: Final = GroupUse(None, is_empty=True, is_stable=False, state_since_ms=None, subscribed_topics=None)


def expired_partitions(
    offsets: CommittedOffsets, use: GroupUse, *, retention_ms: int, wall_ms: int
) -> list[TopicPartition]:
    """The partitions whose offsets may go now."""
    since_ms: int | None = None
    subscribed: AbstractSet[str] = _NOTHING
    if use.protocol_type and use.is_empty:
        since_ms = use.state_since_ms
    elif use.protocol_type:
        if use.protocol_type != _CONSUMER or not use.is_stable or use.subscribed_topics is None:
            return []
        subscribed = use.subscribed_topics
    kept = offsets.pending_partitions() if offsets.has_pending else frozenset()
    return [
        (topic, partition)
        for topic, partitions in offsets.topics()
        if topic not in subscribed
        for partition, value in partitions.items()
        if (topic, partition) not in kept and _is_expired(value, since_ms, retention_ms=retention_ms, wall_ms=wall_ms)
    ]


def _is_expired(value: OffsetAndMetadata, since_ms: int | None, *, retention_ms: int, wall_ms: int) -> bool:
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= value.expire_timestamp_ms
    return wall_ms - (value.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms


def pieces(records: Iterable[CoordinatorRecord]) -> Iterator[list[CoordinatorRecord]]:
    """Tombstones in their order, in lists of at most PIECE_BYTES of keys, or of a single record."""
    piece: list[CoordinatorRecord] = []
    size = 0
    for record in records:
        if piece and size + len(record.key) > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(record)
        size += len(record.key)
    if piece:
        yield piece
