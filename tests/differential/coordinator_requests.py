"""The requests of the corpus that coordinators answer, by what they mean."""

from collections.abc import Mapping, Sequence

from barnabas.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)

SUBSCRIPTION = bytes.fromhex("000000000001") + b"\x00\x01t" + b"\xff" * 4
"""A consumer's metadata that subscribes to the topic `t`."""
RANGE = ("range", SUBSCRIPTION)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0, that subscribes to topics."""
    names = b"".join(len(name).to_bytes(2) + name.encode() for name in topics)
    return bytes(2) + len(topics).to_bytes(4) + names + b"\xff" * 4


def join(
    group_id: str,
    member_id: str = "",
    *protocols: tuple[str, bytes],
    protocol_type: str = "consumer",
    instance: str | None = None,
    session_timeout_ms: int = 30_000,
    rebalance_timeout_ms: int = 30_000,
) -> join_group.JoinGroupRequest:
    """A JoinGroup; without protocols it knows `range`."""
    return join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[join_group.JoinGroupRequestProtocol(*each) for each in protocols or (RANGE,)],
    )


def sync(
    group_id: str,
    generation_id: int,
    member_id: str,
    assignments: Mapping[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = None,
    protocol_name: str | None = None,
) -> sync_group.SyncGroupRequest:
    return sync_group.SyncGroupRequest(
        group_id,
        generation_id,
        member_id,
        instance,
        protocol_type,
        protocol_name,
        [sync_group.SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
    )


def beat(group_id: str, generation_id: int, member_id: str, instance: str | None = None) -> heartbeat.HeartbeatRequest:
    return heartbeat.HeartbeatRequest(group_id, generation_id, member_id, instance)


def leave(group_id: str, *members: tuple[str, str | None]) -> leave_group.LeaveGroupRequest:
    """A LeaveGroup of version 3 or later: each member by its member id and its instance id."""
    return leave_group.LeaveGroupRequest(group_id, members=[leave_group.MemberIdentity(*each) for each in members])


def leave_alone(group_id: str, member_id: str) -> leave_group.LeaveGroupRequest:
    """A LeaveGroup before version 3."""
    return leave_group.LeaveGroupRequest(group_id, member_id)


def commit(
    group_id: str,
    topics: Mapping[str, Mapping[int, int]],
    *,
    generation_id: int = -1,
    member_id: str = "",
    instance: str | None = None,
    retention_time_ms: int = -1,
    metadata: str | None = "",
    leader_epoch: int = -1,
    commit_timestamp: int = -1,
) -> offset_commit.OffsetCommitRequest:
    """An OffsetCommit of topics' partitions and offsets."""
    return offset_commit.OffsetCommitRequest(
        group_id,
        generation_id,
        member_id,
        instance,
        retention_time_ms,
        [
            offset_commit.OffsetCommitRequestTopic(
                topic,
                [
                    offset_commit.OffsetCommitRequestPartition(
                        partition, offset, leader_epoch, commit_timestamp, metadata
                    )
                    for partition, offset in offsets.items()
                ],
            )
            for topic, offsets in topics.items()
        ],
    )


def fetch_offsets(
    group_id: str, topics: Mapping[str, Sequence[int]] | None, *, require_stable: bool = False
) -> offset_fetch.OffsetFetchRequest:
    asked = None if topics is None else [offset_fetch.OffsetFetchRequestTopic(k, list(v)) for k, v in topics.items()]
    return offset_fetch.OffsetFetchRequest(group_id, asked, require_stable)


def delete_offsets(group_id: str, topics: Mapping[str, Sequence[int]]) -> offset_delete.OffsetDeleteRequest:
    return offset_delete.OffsetDeleteRequest(
        group_id,
        [
            offset_delete.OffsetDeleteRequestTopic(
                topic, [offset_delete.OffsetDeleteRequestPartition(each) for each in partitions]
            )
            for topic, partitions in topics.items()
        ],
    )


def initialise(
    transactional_id: str | None, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1
) -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)


def add_partitions(
    transactional_id: str, producer: tuple[int, int], topics: Mapping[str, Sequence[int]]
) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    """An AddPartitionsToTxn; `producer` is its id and epoch."""
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactional_id,
        *producer,
        [add_partitions_to_txn.AddPartitionsToTxnTopic(name, list(each)) for name, each in topics.items()],
    )


def add_offsets(
    transactional_id: str, producer: tuple[int, int], group_id: str
) -> add_offsets_to_txn.AddOffsetsToTxnRequest:
    return add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id, *producer, group_id)


def end(transactional_id: str, producer: tuple[int, int], *, commit: bool) -> end_txn.EndTxnRequest:
    return end_txn.EndTxnRequest(transactional_id, *producer, commit)


def commit_in_transaction(
    transactional_id: str,
    group_id: str,
    producer: tuple[int, int],
    topics: Mapping[str, Mapping[int, int]],
    *,
    generation_id: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = "",
    leader_epoch: int = -1,
) -> txn_offset_commit.TxnOffsetCommitRequest:
    """A TxnOffsetCommit of topics' partitions and offsets."""
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id,
        group_id,
        *producer,
        generation_id,
        member_id,
        instance,
        [
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                topic,
                [
                    txn_offset_commit.TxnOffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
                    for partition, offset in offsets.items()
                ],
            )
            for topic, offsets in topics.items()
        ],
    )
