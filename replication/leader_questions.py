"""What a follower asks its leader beside the records: where epochs end, and where the log begins and ends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.client.errors import error_code
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, LeaderEpoch, TopicPartition
from barnabas.protocol.messages import fetch, list_offsets, offset_for_leader_epoch
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.storage.leader_epochs import EpochEnd
from replication.fetcher_ports import LeaderConnection

LATEST: Final = -1
EARLIEST: Final = -2
CONSUMER: Final = BrokerId(-1)
DEBUGGING_CONSUMER: Final = BrokerId(-2)
_NEWEST_EPOCH_VERSION: Final = 3
_NEWEST_OFFSETS_VERSION: Final = 5
_NEWEST_LEADER_FETCH_VERSION: Final = 10
"""From the next one on any replica answers who is no follower."""


@dataclass(slots=True)
class EpochAnswer:
    """Where an epoch ends in the leader's log, or why that is not told."""

    error: ErrorCode
    end: EpochEnd


@dataclass(slots=True)
class OffsetAnswer:
    """The leader's first or next offset, or why it is not told."""

    error: ErrorCode
    offset: int


@dataclass(slots=True)
class DebugFetch:
    """What a leader has at an offset, or why that is not told."""

    error: ErrorCode
    records: memoryview


async def fetch_records(
    connection: LeaderConnection,
    topic_partition: TopicPartition,
    offset: int,
    *,
    leader_epoch: LeaderEpoch,
    replica_id: BrokerId,
    max_bytes: int,
    timeout_ms: int,
) -> DebugFetch:
    """Fetch once, outside of any session, from the leader only. Raises ClientError."""
    wanted = FetchPartition(
        topic_partition.partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_partition.topic, [wanted])],
    )
    response = await connection.request(fetch.API, request, timeout_ms=timeout_ms, most=_NEWEST_LEADER_FETCH_VERSION)
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.partition == topic_partition.partition:
                return DebugFetch(error_code(answer.error_code), records_of(answer))
    return DebugFetch(error_code(response.error_code), memoryview(b""))


def records_of(answer: FetchablePartitionResponse) -> memoryview:
    """What a decoded answer brings for one partition; may be empty."""
    records = answer.record_set
    if records is None:
        return memoryview(b"")
    assert isinstance(records, memoryview), "decoded"
    return records


async def ask_epoch_ends(
    connection: LeaderConnection,
    wanted: Mapping[TopicPartition, tuple[LeaderEpoch, int]],
    *,
    replica_id: BrokerId,
    timeout_ms: int,
) -> Iterator[tuple[TopicPartition, EpochAnswer]]:
    """Ask where epochs end (OffsetForLeaderEpoch); `wanted` has the leader epoch that is believed in, and the epoch.

    Raises ClientError.
    """
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (name, number), (leader_epoch, epoch) in wanted.items():
        topic = topics.setdefault(name, OffsetForLeaderTopic(name))
        topic.partitions.append(OffsetForLeaderPartition(number, leader_epoch, epoch))
    request = OffsetForLeaderEpochRequest(replica_id, list(topics.values()))
    response = await connection.request(
        offset_for_leader_epoch.API, request, timeout_ms=timeout_ms, most=_NEWEST_EPOCH_VERSION
    )
    return (
        (
            TopicPartition(topic.name, each.partition_index),
            EpochAnswer(error_code(each.error_code), EpochEnd(each.leader_epoch, each.end_offset)),
        )
        for topic in response.topics
        for each in topic.partitions
    )


async def ask_offsets(
    connection: LeaderConnection,
    wanted: Mapping[TopicPartition, LeaderEpoch],
    *,
    timestamp: int,
    replica_id: BrokerId,
    timeout_ms: int,
) -> Iterator[tuple[TopicPartition, OffsetAnswer]]:
    """Ask for the leader's `LATEST` or `EARLIEST` offsets (ListOffsets). Raises ClientError."""
    topics: dict[str, ListOffsetTopic] = {}
    for (name, number), leader_epoch in wanted.items():
        topic = topics.setdefault(name, ListOffsetTopic(name))
        topic.partitions.append(ListOffsetPartition(number, leader_epoch, timestamp))
    request = ListOffsetRequest(replica_id=replica_id, topics=list(topics.values()))
    response = await connection.request(
        list_offsets.API, request, timeout_ms=timeout_ms, least=1, most=_NEWEST_OFFSETS_VERSION
    )
    return (
        (TopicPartition(topic.name, each.partition_index), OffsetAnswer(error_code(each.error_code), each.offset))
        for topic in response.topics
        for each in topic.partitions
    )


async def ask_offset(
    connection: LeaderConnection,
    topic_partition: TopicPartition,
    *,
    leader_epoch: LeaderEpoch,
    timestamp: int,
    replica_id: BrokerId,
    timeout_ms: int,
) -> int:
    """The same of one partition; -1 where it is not told. Raises ClientError."""
    answers = await ask_offsets(
        connection, {topic_partition: leader_epoch}, timestamp=timestamp, replica_id=replica_id, timeout_ms=timeout_ms
    )
    return next((answer.offset for _, answer in answers if answer.error is ErrorCode.NONE), -1)
