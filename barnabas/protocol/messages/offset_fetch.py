"""OffsetFetch (API key 9): reads a group's committed offsets.

Consumers and administrators send it to the group's coordinator. Version 0 reads ZooKeeper, later ones the offsets
topic.

Version 1 reads the offsets topic.
Version 2 lets null ask for all topics and adds an error for the whole request (KIP-88).
Version 3 adds the throttle time.
Version 4 is throttled after the response, not before it (KIP-219).
Version 5 adds the leader epoch of the last consumed record (KIP-320).
Version 6 is flexible (KIP-482).
Version 7 lets the consumer wait for offsets of open transactions (KIP-447).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class OffsetFetchRequestTopic:
    """The partitions of one topic to read."""

    name: Str = ""
    partition_indexes: list[I32] = field(default_factory=list)


@message(versions=(0, 7), flexible=6)
class OffsetFetchRequest:
    """What to read."""

    group_id: Str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list, nullable_since=2)
    require_stable: Bool = field(default=False, since=7)


@struct
class OffsetFetchResponsePartition:
    """What is committed in one partition; offset -1 where nothing is."""

    partition_index: I32 = 0
    committed_offset: I64 = 0
    committed_leader_epoch: I32 = field(default=-1, since=5, ignorable=True)
    metadata: NullableStr = ""
    error_code: I16 = 0


@struct
class OffsetFetchResponseTopic:
    """What is committed in one topic."""

    name: Str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@message(versions=(0, 7), flexible=6)
class OffsetFetchResponse:
    """What is committed."""

    throttle_time_ms: I32 = field(default=0, since=3, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: I16 = field(default=0, since=2, ignorable=True)


API: Final = Api(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse)
