"""OffsetForLeaderEpoch (API key 23): where leader epochs end in the leader's log (KIP-101).

Followers send it to their leader to learn where to truncate, consumers to learn whether their position was truncated.

Version 1 answers also which epoch it is that ends there (KIP-279).
Version 2 adds the leader epoch that the asker knows (KIP-320) and the throttle time.
Version 3 adds the replica id (KIP-392).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class OffsetForLeaderPartition:
    """The epoch to look up in one partition."""

    partition_index: I32 = 0
    current_leader_epoch: I32 = field(default=-1, since=2, ignorable=True)
    leader_epoch: I32 = 0


@struct
class OffsetForLeaderTopic:
    """The epochs to look up in one topic."""

    name: Str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(versions=(0, 3))
class OffsetForLeaderEpochRequest:
    """Who asks; `replica_id` is -1 for a consumer, -2 where it is unknown."""

    replica_id: I32 = field(default=-2, since=3, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@struct
class OffsetForLeaderPartitionResult:
    """The newest epoch that is not newer than the one asked for, and its end, or -1 and -1."""

    error_code: I16 = 0
    partition_index: I32 = 0
    leader_epoch: I32 = field(default=-1, since=1, ignorable=True)
    end_offset: I64 = 0


@struct
class OffsetForLeaderTopicResult:
    """Where the epochs end in one topic."""

    name: Str = ""
    partitions: list[OffsetForLeaderPartitionResult] = field(default_factory=list)


@message(versions=(0, 3))
class OffsetForLeaderEpochResponse:
    """Where the epochs end."""

    throttle_time_ms: I32 = field(default=0, since=2, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
