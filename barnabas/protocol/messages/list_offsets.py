"""ListOffsets (API key 2): finds offsets by time, and the first and the next offset of partitions.

Clients and followers send it to the leader. Its messages are called ListOffset in Kafka 2.7.

Version 1 answers one offset with its timestamp where version 0 lists the starts of segments (KIP-79).
Version 2 adds the isolation level (KIP-98) and the throttle time.
Version 3 is throttled after the response, not before it (KIP-219).
Version 4 adds the leader epoch on both sides (KIP-320).
Version 5 lets the leader answer OFFSET_NOT_AVAILABLE before its high watermark is sure (KIP-207).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I8, I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class ListOffsetPartition:
    """What to look up in one partition: `timestamp` -1 is the next offset, -2 the first one."""

    partition_index: I32 = 0
    current_leader_epoch: I32 = field(default=-1, since=4, ignorable=True)
    timestamp: I64 = 0
    max_num_offsets: I32 = field(default=1, until=0)


@struct
class ListOffsetTopic:
    """What to look up in one topic."""

    name: Str = ""
    partitions: list[ListOffsetPartition] = field(default_factory=list)


@message(versions=(0, 5))
class ListOffsetRequest:
    """What to look up; `replica_id` is -1 for a client."""

    replica_id: I32 = 0
    isolation_level: I8 = field(default=0, since=2)
    topics: list[ListOffsetTopic] = field(default_factory=list)


@struct
class ListOffsetPartitionResponse:
    """What was found in one partition; offset and timestamp are -1 where no record is late enough."""

    partition_index: I32 = 0
    error_code: I16 = 0
    old_style_offsets: list[I64] = field(default_factory=list, until=0)
    timestamp: I64 = field(default=-1, since=1)
    offset: I64 = field(default=-1, since=1)
    leader_epoch: I32 = field(default=-1, since=4)


@struct
class ListOffsetTopicResponse:
    """What was found in one topic."""

    name: Str = ""
    partitions: list[ListOffsetPartitionResponse] = field(default_factory=list)


@message(versions=(0, 5))
class ListOffsetResponse:
    """What was found."""

    throttle_time_ms: I32 = field(default=0, since=2, ignorable=True)
    topics: list[ListOffsetTopicResponse] = field(default_factory=list)


API: Final = Api(ApiKey.LIST_OFFSETS, ListOffsetRequest, ListOffsetResponse)
