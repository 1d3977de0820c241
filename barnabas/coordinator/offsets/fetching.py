"""OffsetFetch: what a group has committed.

A partition without an offset is no error: it has offset -1. Who asks for stable offsets (version 7, KIP-447) hears
UNSTABLE_OFFSET_COMMIT of partitions that an open transaction may yet change, and asks again. Version 1 has no place for
an error of the whole request and gives it to each partition.
"""

from typing import Final

from barnabas.coordinator.group_records import NO_LEADER_EPOCH
from barnabas.coordinator.offsets.committed import CommittedOffsets
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

_NO_OFFSET: Final = -1
_FIRST_WITH_ONE_ERROR: Final = 2


def fetch_offsets(request: OffsetFetchRequest, offsets: CommittedOffsets | None) -> OffsetFetchResponse:
    """What the request asks for; of a group without offsets, None, nothing is committed."""
    known = CommittedOffsets(request.group_id) if offsets is None else offsets
    unstable = known.pending_partitions() if request.require_stable else set()

    def found(topic: str, partition: int) -> OffsetFetchResponsePartition:
        if unstable and (topic, partition) in unstable:
            return _none(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        value = known.get(topic, partition)
        if value is None:
            return _none(partition, ErrorCode.NONE)
        return OffsetFetchResponsePartition(partition, value.offset, value.leader_epoch, value.metadata)

    wanted: dict[str, dict[int, None]] = {}
    if request.topics is None:
        wanted = {topic: dict.fromkeys(partitions) for topic, partitions in known.topics()}
    for each in request.topics or ():
        wanted.setdefault(each.name, {}).update(dict.fromkeys(each.partition_indexes))
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic, [found(topic, partition) for partition in partitions])
            for topic, partitions in wanted.items()
            if partitions
        ]
    )


def refuse_fetch(request: OffsetFetchRequest, error: ErrorCode, *, version: int) -> OffsetFetchResponse:
    """The answer to a request that cannot be served at all.

    Kafka's consumers of 2.7 take COORDINATOR_NOT_AVAILABLE for fatal here, and try again after LOAD_IN_PROGRESS.
    """
    if error is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if version >= _FIRST_WITH_ONE_ERROR:
        return OffsetFetchResponse(error_code=error.value)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic.name, [_none(partition, error) for partition in topic.partition_indexes])
            for topic in request.topics or ()
            if topic.partition_indexes
        ]
    )


def _none(partition: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition, _NO_OFFSET, NO_LEADER_EPOCH, "", error.value)
