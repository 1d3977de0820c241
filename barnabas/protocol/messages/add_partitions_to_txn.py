"""AddPartitionsToTxn (API key 24): makes partitions part of a transaction (KIP-98).

Transactional producers send it to their coordinator before they write to the partitions.

Version 1 is throttled after the response, not before it (KIP-219).
Version 2 lets the coordinator answer PRODUCER_FENCED (KIP-588).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class AddPartitionsToTxnTopic:
    """The partitions of one topic."""

    name: Str = ""
    partitions: list[I32] = field(default_factory=list)


@message(versions=(0, 2))
class AddPartitionsToTxnRequest:
    """Which partitions join whose transaction."""

    transactional_id: Str = ""
    producer_id: I64 = 0
    producer_epoch: I16 = 0
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@struct
class AddPartitionsToTxnPartitionResult:
    """Whether one partition was added."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class AddPartitionsToTxnTopicResult:
    """What was added of one topic."""

    name: Str = ""
    results: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@message(versions=(0, 2))
class AddPartitionsToTxnResponse:
    """What was added; all of it or nothing."""

    throttle_time_ms: I32 = 0
    results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


API: Final = Api(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse)
