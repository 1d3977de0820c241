"""What an administrator asks about replicas: moving them, electing leaders, their sizes, how many must be in sync.

As with `Admin`, calls that change several things return the outcome of each partition: None, or the error; and while
the asked broker is not the controller the call is tried again.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from barnabas.client.admin import ResourceType
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, KafkaError, error_code, raise_for
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    alter_partition_reassignments,
    describe_configs,
    describe_log_dirs,
    elect_leaders,
    list_partition_reassignments,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

Outcomes = dict[TopicPartition, KafkaError | None]

_TOPICS_PER_REQUEST: Final = 500


class ElectionType(IntEnum):
    """Who may be elected (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition on its way: all its replicas, the target first, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaAdmin:
    """Administration of the replicas of the cluster that a `Cluster` reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def alter_reassignments(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Begin to move partitions to these brokers, None cancels (KIP-455). Raises ClientError."""
        topics: dict[str, ReassignableTopic] = {}
        for (name, number), brokers in targets.items():
            replicas = None if brokers is None else list(brokers)
            topics.setdefault(name, ReassignableTopic(name)).partitions.append(ReassignablePartition(number, replicas))
        request = AlterPartitionReassignmentsRequest(self._cluster.options.broker_timeout_ms, list(topics.values()))

        async def ask() -> Outcomes:
            response = await self._cluster.ask_controller(alter_partition_reassignments.API, request)
            raise_for(response.error_code, response.error_message)
            return {
                (at := TopicPartition(topic.name, each.partition_index)): _outcome(
                    each.error_code, each.error_message, at
                )
                for topic in response.responses
                for each in topic.partitions
            }

        outcomes = await self._cluster.patiently(ask)
        return {at: outcomes.get(at) for at in targets}

    async def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """What is under way. Raises ClientError."""

        async def ask() -> dict[TopicPartition, Reassignment]:
            request = ListPartitionReassignmentsRequest(self._cluster.options.broker_timeout_ms, None)
            response = await self._cluster.ask_controller(list_partition_reassignments.API, request)
            raise_for(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, each.partition_index): Reassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        return await self._cluster.patiently(ask)

    async def count_adding(self) -> dict[TopicPartition, int]:
        """How many replicas the reassignments under way add, by partition; none where no controller says so."""
        try:
            moving = await self.list_reassignments()
        except ClientError:
            return {}
        return {at: len(each.adding) for at, each in moving.items()}

    async def elect_leaders(self, kind: ElectionType, partitions: Iterable[TopicPartition] | None) -> Outcomes:
        """Elect leaders; None for all partitions, of which those are told that needed it. Raises ClientError."""
        topics: dict[str, TopicPartitions] = {}
        for name, number in () if partitions is None else partitions:
            topics.setdefault(name, TopicPartitions(name)).partition_id.append(number)
        wanted = None if partitions is None else list(topics.values())
        request = ElectLeadersRequest(kind, wanted, self._cluster.options.broker_timeout_ms)
        least = 0 if kind is ElectionType.PREFERRED else 1

        async def ask() -> Outcomes:
            response = await self._cluster.ask_controller(elect_leaders.API, request, least=least)
            raise_for(response.error_code)
            outcomes = {
                (at := TopicPartition(topic.topic, each.partition_id)): _outcome(
                    each.error_code, each.error_message, at
                )
                for topic in response.replica_election_results
                for each in topic.partition_result
            }
            elsewhere = [each for each in outcomes.values() if each and each.error is ErrorCode.NOT_CONTROLLER]
            if elsewhere:
                raise elsewhere[0]
            return outcomes

        outcomes = await self._cluster.patiently(ask)
        for name in dict.fromkeys(at.topic for at in outcomes):
            self._cluster.forget(name)
        return outcomes

    async def replica_bytes(
        self, node_ids: Iterable[int], partitions: Collection[TopicPartition]
    ) -> dict[int, dict[TopicPartition, int]]:
        """The bytes of the logs of these partitions on these brokers; a broker that does not answer is left out."""
        topics: dict[str, DescribableLogDirTopic] = {}
        for name, number in partitions:
            topics.setdefault(name, DescribableLogDirTopic(name)).partition_index.append(number)
        request = DescribeLogDirsRequest(list(topics.values()))

        async def ask(node_id: int) -> dict[TopicPartition, int] | None:
            try:
                response = await self._cluster.ask(node_id, describe_log_dirs.API, request)
            except ClientError:
                return None
            return {
                TopicPartition(topic.name, each.partition_index): each.partition_size
                for directory in response.results
                for topic in directory.topics
                for each in topic.partitions
                if not each.is_future_key
            }

        nodes = list(dict.fromkeys(node_ids))
        answers = await asyncio.gather(*map(ask, nodes))
        return {node: answer for node, answer in zip(nodes, answers, strict=True) if answer is not None}

    async def log_dirs(
        self, node_id: int, partitions: Iterable[TopicPartition] | None = None
    ) -> list[DescribeLogDirsResult]:
        """The log directories of a broker with these replicas, or with all. Raises ClientError."""
        topics: dict[str, DescribableLogDirTopic] = {}
        for name, number in partitions or ():
            topics.setdefault(name, DescribableLogDirTopic(name)).partition_index.append(number)
        request = DescribeLogDirsRequest(None if partitions is None else list(topics.values()))
        found: list[DescribeLogDirsResult] = (await self._cluster.ask(node_id, describe_log_dirs.API, request)).results
        return found

    async def damaged_replicas(self, node_ids: Iterable[int]) -> tuple[dict[TopicPartition, list[int]], list[int]]:
        """The brokers on which a replica is known to be damaged, by partition, and the brokers that do not answer."""
        nodes = sorted(set(node_ids))
        answers = await asyncio.gather(*map(self.log_dirs, nodes), return_exceptions=True)
        found: dict[TopicPartition, list[int]] = {}
        silent: list[int] = []
        for node_id, directories in zip(nodes, answers, strict=True):
            if isinstance(directories, ClientError):
                silent.append(node_id)
                continue
            if isinstance(directories, BaseException):
                raise directories
            for directory in directories:
                for topic in directory.topics:
                    for replica in topic.partitions:
                        if replica.damaged_ranges:
                            found.setdefault(TopicPartition(topic.name, replica.partition_index), []).append(node_id)
        return found, silent

    async def min_insync_replicas(self, names: Iterable[str]) -> dict[str, int]:
        """How many replicas of a topic must be in sync for acks=all; a topic that is gone is left out."""
        wanted = list(dict.fromkeys(names))
        found: dict[str, int] = {}
        for first in range(0, len(wanted), _TOPICS_PER_REQUEST):
            resources = [
                DescribeConfigsResource(ResourceType.TOPIC, name, ["min.insync.replicas"])
                for name in wanted[first : first + _TOPICS_PER_REQUEST]
            ]
            request = DescribeConfigsRequest(resources)
            response = await self._cluster.patiently(
                lambda request=request: self._cluster.ask_any(describe_configs.API, request)  # type: ignore[misc]
            )
            for result in response.results:
                for entry in result.configs:
                    found[result.resource_name] = int(entry.value or 1)
        return found


def _outcome(number: int, message: str | None, at: TopicPartition) -> KafkaError | None:
    return KafkaError(error_code(number), message, context=str(at)) if number else None
