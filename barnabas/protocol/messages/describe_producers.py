"""DescribeProducers (API key 61): the producers that a partition's log knows (KIP-664).

Tools send it to the partitions' leaders, to find transactions that nobody will end. Kafka has it since 2.8.

Version 0 is flexible.
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class DescribeProducersTopicRequest:
    """Partitions of one topic."""

    name: Str = ""
    partition_indexes: list[I32] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    """Whose producers are wanted."""

    topics: list[DescribeProducersTopicRequest] = field(default_factory=list)


@struct
class DescribeProducersProducerState:
    """One producer; `current_txn_start_offset` is -1 where it has no transaction open."""

    producer_id: I64 = 0
    producer_epoch: I32 = 0
    last_sequence: I32 = -1
    last_timestamp: I64 = -1
    coordinator_epoch: I32 = 0
    current_txn_start_offset: I64 = -1


@struct
class DescribeProducersPartitionResponse:
    """The producers of one partition."""

    partition_index: I32 = 0
    error_code: I16 = 0
    error_message: NullableStr = None
    active_producers: list[DescribeProducersProducerState] = field(default_factory=list)


@struct
class DescribeProducersTopicResponse:
    """The partitions of one topic."""

    name: Str = ""
    partitions: list[DescribeProducersPartitionResponse] = field(default_factory=list)


@message(versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    """The producers."""

    throttle_time_ms: I32 = 0
    topics: list[DescribeProducersTopicResponse] = field(default_factory=list)


API: Final = Api(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest, DescribeProducersResponse)
