"""AlterPartition (API key 56): changes the in-sync replica sets of partitions (KIP-497).

The leader of the partitions sends it to the controller. It and its messages are called AlterIsr in Kafka 2.7.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class PartitionData:
    """The set that the leader wants, and the version of the partition's znode that it knows."""

    partition_index: I32 = 0
    leader_epoch: I32 = 0
    new_isr: list[I32] = field(default_factory=list)
    current_isr_version: I32 = 0


@struct
class TopicData:
    """The sets of one topic."""

    name: Str = ""
    partitions: list[PartitionData] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class AlterIsrRequest:
    """Who asks for which sets; the broker epoch fences it."""

    broker_id: I32 = 0
    broker_epoch: I64 = -1
    topics: list[TopicData] = field(default_factory=list)


@struct
class PartitionDataResult:
    """The state of one partition, or why it was not changed."""

    partition_index: I32 = 0
    error_code: I16 = 0
    leader_id: I32 = 0
    leader_epoch: I32 = 0
    isr: list[I32] = field(default_factory=list)
    current_isr_version: I32 = 0


@struct
class TopicDataResult:
    """The sets of one topic."""

    name: Str = ""
    partitions: list[PartitionDataResult] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class AlterIsrResponse:
    """The sets as they stand."""

    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    topics: list[TopicDataResult] = field(default_factory=list)


API: Final = Api(ApiKey.ALTER_PARTITION, AlterIsrRequest, AlterIsrResponse)
