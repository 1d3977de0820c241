"""DeleteRecords (API key 21): deletes the records before an offset (KIP-107).

Administrators send it to the partitions' leader.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DeleteRecordsPartition:
    """The first offset of one partition to keep; -1 is its high watermark."""

    partition_index: I32 = 0
    offset: I64 = 0


@struct
class DeleteRecordsTopic:
    """What to delete of one topic."""

    name: Str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    """What to delete."""

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: I32 = 0


@struct
class DeleteRecordsPartitionResult:
    """The lowest log start offset among one partition's replicas."""

    partition_index: I32 = 0
    low_watermark: I64 = 0
    error_code: I16 = 0


@struct
class DeleteRecordsTopicResult:
    """What was deleted of one topic."""

    name: Str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    """What was deleted."""

    throttle_time_ms: I32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.DELETE_RECORDS, DeleteRecordsRequest, DeleteRecordsResponse)
