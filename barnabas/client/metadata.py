"""What a client knows of a cluster: brokers, controller, topics and their leaders, as the last answers told."""

from dataclasses import dataclass, field

from barnabas.client.connection import Address
from barnabas.client.errors import error_code
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


@dataclass(slots=True)
class Node:
    """A live broker."""

    node_id: int
    address: Address
    rack: str | None


@dataclass(slots=True)
class PartitionMetadata:
    """A partition; `leader` is -1 and `error` set where it has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error: ErrorCode


@dataclass(slots=True)
class TopicMetadata:
    """A topic, its partitions by number; empty where `error` is set."""

    name: str
    error: ErrorCode
    is_internal: bool
    partitions: dict[int, PartitionMetadata]


@dataclass(slots=True)
class ClusterMetadata:
    """The cluster; `controller_id` is -1 where none is known."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)


def read_metadata(response: MetadataResponse) -> ClusterMetadata:
    """Make a client's view of a response."""
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        nodes={
            broker.node_id: Node(broker.node_id, Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        },
        topics={topic.name: _topic(topic) for topic in response.topics},
    )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        part.partition_index: PartitionMetadata(
            partition=part.partition_index,
            leader=part.leader_id,
            leader_epoch=part.leader_epoch,
            replicas=list(part.replica_nodes),
            isr=list(part.isr_nodes),
            offline_replicas=list(part.offline_replicas),
            error=error_code(part.error_code),
        )
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    }
    return TopicMetadata(topic.name, error_code(topic.error_code), topic.is_internal, partitions)
