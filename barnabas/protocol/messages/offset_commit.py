"""OffsetCommit (API key 8): stores a group's offsets.

Consumers and administrators send it to the group's coordinator. Version 0 stores in ZooKeeper, later ones in the
offsets topic.

Version 1 adds the generation, the member and a commit timestamp.
Version 2 has a retention time instead of the commit timestamp.
Version 3 adds the throttle time.
Version 4 is throttled after the response, not before it (KIP-219).
Version 5 drops the retention time (KIP-211).
Version 6 adds the leader epoch of the last consumed record (KIP-320).
Version 7 adds the instance id of static members (KIP-345).
Version 8 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class OffsetCommitRequestPartition:
    """The next offset to consume in one partition, with the client's own note."""

    partition_index: I32 = 0
    committed_offset: I64 = 0
    committed_leader_epoch: I32 = field(default=-1, since=6, ignorable=True)
    commit_timestamp: I64 = field(default=-1, since=1, until=1)
    committed_metadata: NullableStr = ""


@struct
class OffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: Str = ""
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(versions=(0, 8), flexible=8)
class OffsetCommitRequest:
    """Offsets to store; generation -1 with an empty member id comes from outside the group's membership."""

    group_id: Str = ""
    generation_id: I32 = field(default=-1, since=1, ignorable=True)
    member_id: Str = field(default="", since=1, ignorable=True)
    group_instance_id: NullableStr = field(default=None, since=7)
    retention_time_ms: I64 = field(default=-1, since=2, until=4, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponsePartition:
    """Whether one partition's offset was stored."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class OffsetCommitResponseTopic:
    """What was stored of one topic."""

    name: Str = ""
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(versions=(0, 8), flexible=8)
class OffsetCommitResponse:
    """What was stored."""

    throttle_time_ms: I32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


API: Final = Api(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse)
