"""OffsetDelete (API key 47): deletes a group's offsets (KIP-496).

Administrators send it to the group's coordinator.

Version 0 is not flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class OffsetDeleteRequestPartition:
    """A partition whose offset shall go."""

    partition_index: I32 = 0


@struct
class OffsetDeleteRequestTopic:
    """What to delete of one topic."""

    name: Str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(versions=(0, 0))
class OffsetDeleteRequest:
    """What to delete."""

    group_id: Str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    """What became of one partition's offset."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class OffsetDeleteResponseTopic:
    """What was deleted of one topic."""

    name: Str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(versions=(0, 0))
class OffsetDeleteResponse:
    """What was deleted."""

    error_code: I16 = 0
    throttle_time_ms: I32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)


API: Final = Api(ApiKey.OFFSET_DELETE, OffsetDeleteRequest, OffsetDeleteResponse)
