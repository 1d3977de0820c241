"""Offsets in ZooKeeper, /consumers/G/offsets/T/P, where version 0 of OffsetCommit and OffsetFetch keeps them.

There is no coordinator and no group: whoever knows a group's name moves its offsets, as consumers before 0.9 did.
"""

import logging

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from broker.coordinator_access import is_known
from broker.services import Services
from zk_schema import paths
from zk_schema.json_text import InvalidPayload
from zk_schema.ops import Create, NodeExists, NodeMissing, Set, ZooKeeperError, is_acceptable_path
from zk_schema.payloads import ConsumerOffset
from zk_schema.port import ZooKeeper

log = logging.getLogger(__name__)

_NO_OFFSET = -1


async def commit_in_zookeeper(broker: Services, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Write each offset; the partitions are known to exist."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                [
                    OffsetCommitResponsePartition(
                        each.partition_index, await _commit(broker, request.group_id, topic.name, each)
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(broker: Services, group_id: str, topic: str, wanted: OffsetCommitRequestPartition) -> ErrorCode:
    metadata = wanted.committed_metadata or ""
    if len(metadata.encode("utf-16-le")) // 2 > broker.config.coordinators.offsets.metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    path = _path(group_id, topic, wanted.partition_index)
    if path is None:
        return ErrorCode.INVALID_GROUP_ID
    try:
        await _set_or_create(broker.zk, path, ConsumerOffset(wanted.committed_offset).encode())
    except ZooKeeperError as error:
        log.warning("%s: the offset is not stored: %s", path, error)
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


async def _set_or_create(zk: ZooKeeper, path: str, data: bytes) -> None:
    """Write `data`, whoever wrote before; what is missing above it is made. Raises ZooKeeperError."""
    try:
        await zk.write(Set(path, data))
    except NodeMissing:
        for parent in paths.parents(path):
            await _create(zk, parent, b"")
        if not await _create(zk, path, data):
            await zk.write(Set(path, data))


async def _create(zk: ZooKeeper, path: str, data: bytes) -> bool:
    try:
        await zk.write(Create(path, data))
    except NodeExists:
        return False
    return True


async def fetch_from_zookeeper(broker: Services, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Read each offset."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [await _fetch(broker, request.group_id, topic.name, number) for number in topic.partition_indexes],
            )
            for topic in request.topics or ()
            if topic.partition_indexes
        ]
    )


async def _fetch(broker: Services, group_id: str, topic: str, partition: int) -> OffsetFetchResponsePartition:
    path = _path(group_id, topic, partition)
    found = None
    try:
        if path is not None and is_known(broker)(topic, partition):
            found = await broker.zk.get(path)
        offset = _NO_OFFSET if found is None else ConsumerOffset.decode(found.data).offset
    except (ZooKeeperError, InvalidPayload) as error:
        log.warning("%s: the offset cannot be read: %s", path, error)
        return OffsetFetchResponsePartition(
            partition, _NO_OFFSET, metadata="", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else ErrorCode.NONE
    return OffsetFetchResponsePartition(partition, offset, metadata="", error_code=error_code)


def _path(group_id: str, topic: str, partition: int) -> str | None:
    """None where a group of this name cannot be in ZooKeeper."""
    path = paths.consumer_offset(group=group_id, topic_name=topic, partition_number=partition)
    return path if "/" not in group_id and is_acceptable_path(path) else None
