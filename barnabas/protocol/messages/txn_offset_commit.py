"""TxnOffsetCommit (API key 28): stores a group's offsets within a transaction (KIP-98).

Transactional producers send it to the group's coordinator; the offsets count once the transaction commits.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 adds the leader epoch of the last consumed record (KIP-320).
Version 3 is flexible; it adds the consumer's generation, member id and instance id, which fence it (KIP-447).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    """The next offset to consume in one partition, with the client's own note."""

    partition_index: I32 = 0
    committed_offset: I64 = 0
    committed_leader_epoch: I32 = field(default=-1, since=2, ignorable=True)
    committed_metadata: NullableStr = ""


@struct
class TxnOffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: Str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(versions=(0, 3), flexible=3)
class TxnOffsetCommitRequest:
    """Offsets to store."""

    transactional_id: Str = ""
    group_id: Str = ""
    producer_id: I64 = 0
    producer_epoch: I16 = 0
    generation_id: I32 = field(default=-1, since=3)
    member_id: Str = field(default="", since=3)
    group_instance_id: NullableStr = field(default=None, since=3)
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@struct
class TxnOffsetCommitResponsePartition:
    """Whether one partition's offset was stored."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    """What was stored of one topic."""

    name: Str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(versions=(0, 3), flexible=3)
class TxnOffsetCommitResponse:
    """What was stored."""

    throttle_time_ms: I32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)


API: Final = Api(ApiKey.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest, TxnOffsetCommitResponse)
