"""OffsetDelete (KIP-496), and what becomes of offsets whose group or topic is deleted: tombstones.

A topic that a member of the group consumes keeps its offsets: GROUP_SUBSCRIBED_TO_TOPIC. To delete an offset that is
not there succeeds, and writes nothing.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from barnabas.coordinator.group_records import encode_offset_key
from barnabas.coordinator.offsets.committed import CommittedOffsets, TopicPartition
from barnabas.coordinator.outcome import CoordinatorRecord, Outcome, Ticket, coordinator_error
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def deletable_partitions(request: OffsetDeleteRequest, is_subscribed: Callable[[str], bool]) -> list[TopicPartition]:
    """What the request names and nobody consumes; `is_subscribed` tells of a topic whether a member may."""
    named = {(topic.name, each.partition_index): None for topic in request.topics for each in topic.partitions}
    return [(topic, partition) for topic, partition in named if not is_subscribed(topic)]


def delete_offsets(
    ticket: Ticket, request: OffsetDeleteRequest, offsets: CommittedOffsets | None, is_subscribed: Callable[[str], bool]
) -> Outcome:
    """Delete what nobody consumes; `offsets` is None for a group without any."""
    gone = deletable_partitions(request, is_subscribed)
    records = [] if offsets is None else tombstones(offsets, gone)
    return Outcome(
        records=records,
        replies=[(ticket, delete_response(request, is_subscribed))],
        if_failed=lambda error: [(ticket, refuse_delete(coordinator_error(error)))],
    )


def delete_response(request: OffsetDeleteRequest, is_subscribed: Callable[[str], bool]) -> OffsetDeleteResponse:
    """The answer, once `deletable_partitions` are gone."""
    named: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, {}).update({each.partition_index: None for each in topic.partitions})
    found = []
    for name, partitions in named.items():
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed(name) else ErrorCode.NONE
        each = [OffsetDeleteResponsePartition(partition, error.value) for partition in partitions]
        if each:
            found.append(OffsetDeleteResponseTopic(name, each))
    return OffsetDeleteResponse(topics=found)


def refuse_delete(error: ErrorCode) -> OffsetDeleteResponse:
    """The answer for the whole request."""
    return OffsetDeleteResponse(error_code=error.value)


def partitions_of(offsets: CommittedOffsets, gone: AbstractSet[TopicPartition]) -> list[TopicPartition]:
    """Those of partitions, whose topics were deleted, that the group has to do with."""
    known = {*offsets.partitions(), *offsets.pending_partitions()}
    return sorted(known & gone)


def tombstones(offsets: CommittedOffsets, partitions: Iterable[TopicPartition]) -> list[CoordinatorRecord]:
    """The records that delete offsets, and what open transactions would make of them; only of those that there are."""
    return [
        CoordinatorRecord(encode_offset_key(offsets.group_id, topic, partition), None)
        for topic, partition in partitions
        if offsets.get(topic, partition) is not None or offsets.is_unstable(topic, partition)
    ]


def leaves_nothing(offsets: CommittedOffsets, partitions: Iterable[TopicPartition]) -> bool:
    """Whether a group whose offsets of these partitions are deleted has none left, and none to come."""
    gone = set(partitions)
    if len(gone) < len(offsets):
        return False
    return gone.issuperset(offsets.partitions()) and gone.issuperset(offsets.pending_partitions())
