"""WriteTxnMarkers (API key 27): writes the ends of transactions into partitions (KIP-98).

The transaction coordinator sends it to the partitions' leaders. Kafka 2.7 has version 0 alone; version 1 is there too,
because clients of Kafka 4 ask for it.

Version 1 is flexible (KIP-482).
"""

from typing import Final

from barnabas.protocol.ids import ApiKey
from barnabas.protocol.primitives import I16, I32, I64, Bool, Str
from barnabas.protocol.schema import Api, field, message, struct


@struct
class WritableTxnMarkerTopic:
    """The partitions of one topic that get the marker."""

    name: Str = ""
    partition_indexes: list[I32] = field(default_factory=list)


@struct
class WritableTxnMarker:
    """The end of one transaction: `transaction_result` is true for a commit."""

    producer_id: I64 = 0
    producer_epoch: I16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: I32 = 0


@message(versions=(0, 1), flexible=1)
class WriteTxnMarkersRequest:
    """The markers to write."""

    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    """Whether one partition has the marker."""

    partition_index: I32 = 0
    error_code: I16 = 0


@struct
class WritableTxnMarkerTopicResult:
    """What was written to one topic."""

    name: Str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    """What was written for one producer."""

    producer_id: I64 = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(versions=(0, 1), flexible=1)
class WriteTxnMarkersResponse:
    """What was written."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


API: Final = Api(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest, WriteTxnMarkersResponse)
