"""Produce (API key 0): appends record batches to partitions.

A producer sends it to the leader of each partition. With `acks` 0 there is no response; an error then closes the
connection.

Version 1 adds the throttle time.
Version 2 adds the log append time, and messages may have timestamps (KIP-32).
Version 3 adds the transactional id and wants record batches, format 2 (KIP-98).
Version 4 lets the broker answer KAFKA_STORAGE_ERROR (KIP-112).
Version 5 adds the log start offset (KIP-107).
Version 6 is throttled after the response, not before it (KIP-219).
Version 7 allows zstd (KIP-110).
Version 8 adds the errors of single records and an error message (KIP-467).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, NullableStr, Records, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class PartitionProduceData:
    """The batches for one partition."""

    partition_index: I32 = 0
    records: Records = None


@struct
class TopicProduceData:
    """The batches for one topic."""

    name: Str = ""
    partitions: list[PartitionProduceData] = field(default_factory=list)


@message(versions=(0, 8))
class ProduceRequest:
    """Batches to append; `acks` is 0, 1 or -1 for the whole in-sync replica set."""

    transactional_id: NullableStr = field(default="", since=3)
    acks: I16 = 0
    timeout_ms: I32 = 0
    topics: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    """A record that made its batch be refused, by its place in the batch."""

    batch_index: I32 = 0
    batch_index_error_message: NullableStr = None


@struct
class PartitionProduceResponse:
    """What became of one partition's batches; the append time is -1 unless the broker set it."""

    partition_index: I32 = 0
    error_code: I16 = 0
    base_offset: I64 = 0
    log_append_time_ms: I64 = field(default=-1, since=2, ignorable=True)
    log_start_offset: I64 = field(default=-1, since=5, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list, since=8, ignorable=True)
    error_message: NullableStr = field(default=None, since=8, ignorable=True)


@struct
class TopicProduceResponse:
    """What became of one topic's batches."""

    name: Str = ""
    partitions: list[PartitionProduceResponse] = field(default_factory=list)


@message(versions=(0, 8))
class ProduceResponse:
    """Where the batches went."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: I32 = field(default=0, since=1, ignorable=True)


API: Final = Api(ApiKey.PRODUCE, ProduceRequest, ProduceResponse)
