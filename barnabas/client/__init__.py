"""Asyncio client of the Kafka protocol: a cluster, and what is done with it.

async with open_cluster("localhost:9092") as cluster:
async with Producer(cluster) as producer:
await producer.send("words", b"key", b"value")
await Admin(cluster).create_topics([NewTopic("more", partitions=3)])
"""

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import Cluster, ClusterOptions, open_cluster
from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import (
    ClientError,
    ClusterUnreachable,
    ConnectionFailed,
    KafkaError,
    ProducerClosed,
    ProducerFenced,
    ProtocolViolation,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
    UnsupportedByBroker,
    WrongTransactionState,
)
from barnabas.client.outgoing import Delivery, RecordMetadata, Sent
from barnabas.client.partitioner import DefaultPartitioner, Partitioner
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
    "ConnectionFailed",
    "DefaultPartitioner",
    "Delivery",
    "ErrorCode",
    "GroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "Partitioner",
    "Producer",
    "ProducerClosed",
    "ProducerFenced",
    "ProducerOptions",
    "ProtocolViolation",
    "RecordMetadata",
    "RequestTimedOut",
    "Sent",
    "TopicPartition",
    "TransactionAborted",
    "TransactionFailed",
    "UnsupportedByBroker",
    "WrongTransactionState",
    "open_cluster",
    "utf8",
]
