"""A small cluster whose partitions have replicas that move: what the commands about replicas talk to."""

from dataclasses import dataclass, field
from typing import Any

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.unit.client.small_cluster import Asked, SmallCluster


@dataclass
class Replicated:
    """A partition; `moving` while it is reassigned."""

    leader: int
    replicas: list[int]
    isr: list[int]
    moving: OngoingPartitionReassignment | None = None


@dataclass
class ReplicaCluster:
    """Answers for `small` what it does not know itself."""

    small: SmallCluster
    partitions: dict[TopicPartition, Replicated] = field(default_factory=dict)
    min_isr: int = 1
    sizes: dict[int, dict[TopicPartition, int]] = field(default_factory=dict)
    elections: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    refusals: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    log_dir: str = "/logs"
    log_dir_error: int = 0
    altered: dict[TopicPartition, list[int] | None] = field(default_factory=dict)
    lists: int = 0
    finish_after: int = 0
    """Moves are done when they were listed so often."""

    def __post_init__(self) -> None:
        self.small.on_request = self.answer

    def answer(self, asked: Asked) -> Any:
        answers = {
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CONFIGS: self._configs,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._alter,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._list,
            ApiKey.ELECT_LEADERS: self._elect,
            ApiKey.DESCRIBE_LOG_DIRS: self._log_dirs,
        }
        return answers[asked.key](asked) if asked.key in answers else None

    def _metadata(self, asked: Asked) -> MetadataResponse:
        wanted = asked.request.topics
        names = sorted({at.topic for at in self.partitions}) if wanted is None else [each.name for each in wanted]
        topics = []
        for name in names:
            found = [
                MetadataResponsePartition(
                    ErrorCode.NONE if each.leader > 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                    at.partition, each.leader, 0, each.replicas, each.isr,
                )
                for at, each in self.partitions.items() if at.topic == name
            ]  # fmt: skip
            error = ErrorCode.NONE if found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topics.append(MetadataResponseTopic(error, name, is_internal=False, partitions=found))
        brokers = [MetadataResponseBroker(node, "127.0.0.1", port, None) for node, port in self.small.ports.items()]
        return MetadataResponse(brokers=brokers, cluster_id="small", controller_id=self.small.controller, topics=topics)

    def _configs(self, asked: Asked) -> DescribeConfigsResponse:
        value = DescribeConfigsResourceResult(name="min.insync.replicas", value=str(self.min_isr))
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(0, None, 2, each.resource_name, [value]) for each in asked.request.resources]
        )

    def _alter(self, asked: Asked) -> AlterPartitionReassignmentsResponse:
        topics = []
        for topic in asked.request.topics:
            responses = []
            for each in topic.partitions:
                at = TopicPartition(topic.name, each.partition_index)
                self.altered[at] = each.replicas
                error = self.refusals.get(at, ErrorCode.NONE)
                responses.append(ReassignablePartitionResponse(each.partition_index, error, None))
            topics.append(ReassignableTopicResponse(topic.name, responses))
        return AlterPartitionReassignmentsResponse(responses=topics)

    def _list(self, _asked: Asked) -> ListPartitionReassignmentsResponse:
        self.lists += 1
        if self.finish_after and self.lists >= self.finish_after:
            return ListPartitionReassignmentsResponse()
        topics: dict[str, OngoingTopicReassignment] = {}
        for at, each in self.partitions.items():
            if each.moving is not None:
                topics.setdefault(at.topic, OngoingTopicReassignment(at.topic)).partitions.append(each.moving)
        return ListPartitionReassignmentsResponse(topics=list(topics.values()))

    def _elect(self, asked: Asked) -> ElectLeadersResponse:
        wanted = asked.request.topic_partitions
        named = (
            list(self.elections)
            if wanted is None
            else [TopicPartition(topic.topic, number) for topic in wanted for number in topic.partition_id]
        )
        topics: dict[str, ReplicaElectionResult] = {}
        for at in named:
            result = PartitionResult(at.partition, self.elections.get(at, ErrorCode.NONE), None)
            topics.setdefault(at.topic, ReplicaElectionResult(at.topic)).partition_result.append(result)
        return ElectLeadersResponse(replica_election_results=list(topics.values()))

    def _log_dirs(self, asked: Asked) -> DescribeLogDirsResponse:
        held = self.sizes.get(asked.node_id, {})
        topics: dict[str, DescribeLogDirsTopic] = {}
        wanted = asked.request.topics
        named = (
            list(held)
            if wanted is None
            else [TopicPartition(topic.topic, number) for topic in wanted for number in topic.partition_index]
        )
        for at in named:
            if at in held:
                topics.setdefault(at.topic, DescribeLogDirsTopic(at.topic)).partitions.append(
                    DescribeLogDirsPartition(at.partition, held[at])
                )
        return DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(self.log_dir_error, self.log_dir, list(topics.values()))]
        )
