"""Asyncio client of the Kafka protocol: a cluster, and what is done with it.

async with open_cluster("localhost:9092") as cluster:
    await Admin(cluster).create_topics([NewTopic("words", partitions=3)])
    async with Producer(cluster) as producer:
        await producer.send("words", b"key", b"value")
    async with Consumer(cluster, ConsumerOptions(group_id="readers")) as consumer:
        await consumer.subscribe(["words"])
        async for batch in consumer.batches():
            print(batch.records)

A name is loaded when it is asked for first: a broker needs connections, and neither producer nor consumer.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barnabas.client.admin import Admin, NewTopic
    from barnabas.client.assignors.range_assignor import RangeAssignor
    from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
    from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
    from barnabas.client.cluster import Cluster, ClusterOptions, open_cluster
    from barnabas.client.consumer import ConsumedRecord, Consumer, NotAssigned
    from barnabas.client.consumer_options import (
        CommitFailed,
        ConsumerOptions,
        IsolationLevel,
        LogTruncated,
        NoOffset,
        OffsetOutOfRange,
        OffsetReset,
    )
    from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
    from barnabas.client.errors import (
        ClientError,
        ClusterUnreachable,
        ConnectionFailed,
        KafkaError,
        OutcomeUnknown,
        ProducerClosed,
        ProducerFenced,
        ProtocolViolation,
        RequestTimedOut,
        TransactionAborted,
        TransactionFailed,
        UnsupportedByBroker,
        WrongTransactionState,
    )
    from barnabas.client.fetched_records import FetchedRecords
    from barnabas.client.outgoing import Delivery, EncodedRecords, RecordMetadata, Sent
    from barnabas.client.partitioner import DefaultPartitioner, Partitioner
    from barnabas.client.prepared_transactions import PreparedTransaction, complete_transaction
    from barnabas.client.producer import Producer, utf8
    from barnabas.client.producer_options import ACKS_ALL, ACKS_LEADER, ACKS_NONE, ProducerOptions
    from barnabas.protocol.batch import Codec
    from barnabas.protocol.error_code import ErrorCode
    from barnabas.protocol.ids import TopicPartition

__all__ = [
    "ACKS_ALL",
    "ACKS_LEADER",
    "ACKS_NONE",
    "Admin",
    "ClientError",
    "Cluster",
    "ClusterOptions",
    "ClusterUnreachable",
    "Codec",
    "CommitFailed",
    "ConnectionFailed",
    "ConsumedRecord",
    "Consumer",
    "ConsumerOptions",
    "CooperativeStickyAssignor",
    "DefaultPartitioner",
    "Delivery",
    "EncodedRecords",
    "ErrorCode",
    "FetchedRecords",
    "GroupMetadata",
    "IsolationLevel",
    "KafkaError",
    "LogTruncated",
    "NewTopic",
    "NoOffset",
    "NotAssigned",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "OffsetReset",
    "OutcomeUnknown",
    "Partitioner",
    "PreparedTransaction",
    "Producer",
    "ProducerClosed",
    "ProducerFenced",
    "ProducerOptions",
    "ProtocolViolation",
    "RangeAssignor",
    "RecordMetadata",
    "RequestTimedOut",
    "RoundRobinAssignor",
    "Sent",
    "StickyAssignor",
    "TopicPartition",
    "TransactionAborted",
    "TransactionFailed",
    "UnsupportedByBroker",
    "WrongTransactionState",
    "complete_transaction",
    "open_cluster",
    "utf8",
]

_HOMES: Final = {
    "barnabas.client.admin": ("Admin", "NewTopic"),
    "barnabas.client.assignors.range_assignor": ("RangeAssignor",),
    "barnabas.client.assignors.round_robin_assignor": ("RoundRobinAssignor",),
    "barnabas.client.assignors.sticky_assignor": ("CooperativeStickyAssignor", "StickyAssignor"),
    "barnabas.client.cluster": ("Cluster", "ClusterOptions", "open_cluster"),
    "barnabas.client.consumer": ("ConsumedRecord", "Consumer", "NotAssigned"),
    "barnabas.client.consumer_options": (
        "CommitFailed",
        "ConsumerOptions",
        "IsolationLevel",
        "LogTruncated",
        "NoOffset",
        "OffsetOutOfRange",
        "OffsetReset",
    ),
    "barnabas.client.coordinators": ("GroupMetadata", "OffsetAndMetadata"),
    "barnabas.client.errors": (
        "ClientError",
        "ClusterUnreachable",
        "ConnectionFailed",
        "KafkaError",
        "OutcomeUnknown",
        "ProducerClosed",
        "ProducerFenced",
        "ProtocolViolation",
        "RequestTimedOut",
        "TransactionAborted",
        "TransactionFailed",
        "UnsupportedByBroker",
        "WrongTransactionState",
    ),
    "barnabas.client.fetched_records": ("FetchedRecords",),
    "barnabas.client.outgoing": ("Delivery", "EncodedRecords", "RecordMetadata", "Sent"),
    "barnabas.client.partitioner": ("DefaultPartitioner", "Partitioner"),
    "barnabas.client.prepared_transactions": ("PreparedTransaction", "complete_transaction"),
    "barnabas.client.producer": ("Producer", "utf8"),
    "barnabas.client.producer_options": ("ACKS_ALL", "ACKS_LEADER", "ACKS_NONE", "ProducerOptions"),
    "barnabas.protocol.batch": ("Codec",),
    "barnabas.protocol.error_code": ("ErrorCode",),
    "barnabas.protocol.ids": ("TopicPartition",),
}
"""Where each name is made."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
