"""Offsets that nobody needs, and groups that nothing is left of, as tombstones a piece at a time. Pure.

A sweep is a generator that is asked for the next piece when the last one was replayed. Between two pieces groups go on:
what has changed since it was looked at stays. No piece is larger than a batch may be (KAFKA-13099), and none takes
long, though an empty one says only that the next may be asked for.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, TypeAlias

from barnabas.coordinator.group_records import OffsetAndMetadata, encode_group_key
from barnabas.coordinator.groups.group import Group
from barnabas.coordinator.groups.states import GroupState
from barnabas.coordinator.offsets.committed import AllOffsets, CommittedOffsets, TopicPartition
from barnabas.coordinator.offsets.deletion import leaves_nothing, partitions_of, tombstones
from barnabas.coordinator.offsets.expiry import NO_GROUP, PIECE_BYTES, GroupUse, expired_partitions
from barnabas.coordinator.outcome import CoordinatorRecord

_GROUPS_AT_ONCE: Final = 200
_REST_OF_KEY: Final = 260
"""Bytes of an offset's key beside its group: the longest name of a topic, and numbers."""

_Seen: TypeAlias = tuple[TopicPartition, OffsetAndMetadata | None, bool]
"""A partition, what was committed for it, and whether a transaction had sent an offset that does not count yet."""
Piece: TypeAlias = list[CoordinatorRecord]
Choice: TypeAlias = Callable[[CommittedOffsets, Group | None], list[TopicPartition]]
"""Which of a group's offsets have to go; the group is None where there are only offsets."""


def expired(*, retention_ms: int, wall_ms: int) -> Choice:
    """Those that have outlived offsets.retention.minutes."""
    return lambda offsets, group: expired_partitions(offsets, _use(group), retention_ms=retention_ms, wall_ms=wall_ms)


def of_deleted_partitions(gone: frozenset[TopicPartition]) -> Choice:
    """Those of partitions that exist no longer."""
    return lambda offsets, _: partitions_of(offsets, gone)


def sweep(groups: dict[str, Group], all_offsets: AllOffsets, choice: Choice) -> Iterator[Piece]:
    """Look at all groups that there are now; a group of which nothing is left then goes too."""
    piece: Piece = []
    size = 0
    for number, group_id in enumerate(list(dict.fromkeys((*all_offsets.group_ids(), *groups))), 1):
        offsets = all_offsets.of(group_id)
        if offsets is None:
            piece += end_of_group(group_id, groups.get(group_id))
            chosen: list[_Seen] = []
        else:
            chosen = [
                (each, offsets.get(*each), offsets.is_unstable(*each)) for each in choice(offsets, groups.get(group_id))
            ]
        for index, some in enumerate(_slices(chosen, _at_once(group_id))):
            if index or size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
            more = _tombstones(group_id, some, groups, all_offsets)
            piece += more
            size += sum(len(record.key) for record in more)
        if not number % _GROUPS_AT_ONCE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def first_piece(offsets: CommittedOffsets) -> tuple[Piece, bool]:
    """Tombstones for some of a group's offsets, and whether these are all."""
    known = ((topic, partition) for topic, partitions in offsets.topics() for partition in partitions)
    pending = (each for each in sorted(offsets.pending_partitions()) if offsets.get(*each) is None)
    some = list(islice(chain(known, pending), _at_once(offsets.group_id)))
    return tombstones(offsets, some), leaves_nothing(offsets, some)


def end_of_group(group_id: str, group: Group | None) -> Piece:
    """The tombstone of a group that has no offsets any more, if nobody is in it and it ever stood in the log."""
    is_over = group is not None and group.state is GroupState.EMPTY and not group.pending_members
    if group is None or not is_over or not group.generation_id:
        return []
    return [CoordinatorRecord(encode_group_key(group_id), None)]


def _tombstones(group_id: str, some: list[_Seen], groups: dict[str, Group], all_offsets: AllOffsets) -> Piece:
    """Of what was seen, that which is still the same; and the group's, if these were its last offsets."""
    offsets = all_offsets.of(group_id)
    if offsets is None:
        return []
    same = [
        each
        for each, value, was_unstable in some
        if offsets.get(*each) is value and (was_unstable or not offsets.is_unstable(*each))
    ]
    piece = tombstones(offsets, same)
    if leaves_nothing(offsets, same):
        piece += end_of_group(group_id, groups.get(group_id))
    return piece


def _at_once(group_id: str) -> int:
    """How many offsets of a group fit into a piece, whatever their topics are called."""
    return max(1, PIECE_BYTES // (len(group_id.encode()) + _REST_OF_KEY))


def _slices(seen: list[_Seen], size: int) -> Iterable[list[_Seen]]:
    return (seen[at : at + size] for at in range(0, len(seen), size))


def _use(group: Group | None) -> GroupUse:
    if group is None:
        return NO_GROUP
    return GroupUse(
        protocol_type=group.protocol_type,
        is_empty=group.state is GroupState.EMPTY,
        is_stable=group.state is GroupState.STABLE,
        state_since_ms=group.state_since_ms,
        subscribed_topics=group.subscribed_topics,
    )
