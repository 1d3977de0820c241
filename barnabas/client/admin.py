"""What an administrator asks of a cluster: topics, partitions, configurations, offsets.

Calls that change several things return the outcome of each by name: None, or the error. Error codes that say that the
asked broker was the wrong one (no controller, not the leader) are tried again for those things alone.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import (
    ClientError,
    ConnectionFailed,
    KafkaError,
    OutcomeUnknown,
    ProtocolViolation,
    RequestTimedOut,
    error_code,
    raise_for,
)
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    incremental_alter_configs,
    list_offsets,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_offsets import ListOffsetPartition, ListOffsetRequest, ListOffsetTopic
from barnabas.protocol.schema import Api

Outcomes = dict[str, KafkaError | None]

LATEST: Final = -1
EARLIEST: Final = -2
DEFAULT_OF_BROKER: Final = -1


@dataclass(slots=True)
class NewTopic:
    """A topic to create; -1 for the broker's default. `assignments` (partition -> brokers) replaces both numbers."""

    name: str
    partitions: int = DEFAULT_OF_BROKER
    replication_factor: int = DEFAULT_OF_BROKER
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Mapping[int, list[int]] = field(default_factory=dict)


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigSource(IntEnum):
    """Where a configuration's value comes from (KIP-226)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class ConfigResource(NamedTuple):
    """What a configuration belongs to: a topic by name, a broker or its loggers by id, all brokers by no name."""

    type: ResourceType
    name: str

    @property
    def node_id(self) -> int | None:
        """The broker that alone can tell of it or change it; None where any can."""
        return None if self.type is ResourceType.TOPIC or not self.name else int(self.name)

    def __str__(self) -> str:
        if self.type is ResourceType.TOPIC:
            return f"topic {self.name}"
        if not self.name:
            return "all brokers"
        return f"broker {self.name}" if self.type is ResourceType.BROKER else f"loggers of broker {self.name}"


class ConfigOperation(IntEnum):
    """What to do with a key (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One key's change; the value is None where it is deleted."""

    name: str
    operation: ConfigOperation
    value: str | None = None


class ConfigSynonym(NamedTuple):
    """A place where a key's value could come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True)
class ConfigEntry:
    """A configuration key; `value` is None where it is sensitive or not set. The first synonym is its source."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    synonyms: list[ConfigSynonym] = field(default_factory=list)


@dataclass(slots=True)
class FoundOffset:
    """An offset, the timestamp of its record and the leader epoch; -1 for each that is not known."""

    offset: int
    timestamp: int
    leader_epoch: int


class Admin:
    """Administration of the cluster that a `Cluster` reaches."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Outcomes:
        """Create topics, or only try. Raises ClientError."""
        wanted = {topic.name: topic for topic in topics}

        async def ask(names: list[str]) -> Outcomes:
            request = CreateTopicsRequest(
                topics=[_creatable(wanted[name]) for name in names],
                timeout_ms=self._cluster.options.broker_timeout_ms,
                validate_only=validate_only,
            )
            # Before version 4 a broker has no default for the numbers (KIP-464).
            least = 4 if any(DEFAULT_OF_BROKER in _numbers(wanted[name]) for name in names) else 1
            response = await self._cluster.ask_controller(create_topics.API, request, least=least)
            return {
                topic.name: _outcome(topic.error_code, topic.error_message, topic.name) for topic in response.topics
            }

        return await self._each(list(wanted), ask)

    async def delete_topics(self, names: Iterable[str]) -> Outcomes:
        """Delete topics. Raises ClientError."""

        async def ask(left: list[str]) -> Outcomes:
            request = DeleteTopicsRequest(left, self._cluster.options.broker_timeout_ms)
            response = await self._cluster.ask_controller(delete_topics.API, request)
            return {
                topic.name: _outcome(topic.error_code, topic.error_message, topic.name) for topic in response.responses
            }

        outcomes = await self._each(list(dict.fromkeys(names)), ask)
        for name in outcomes:
            self._cluster.forget(name)
        return outcomes

    async def create_partitions(self, totals: Mapping[str, int], *, validate_only: bool = False) -> Outcomes:
        """Let topics have so many partitions in all. Raises ClientError."""

        async def ask(names: list[str]) -> Outcomes:
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name, totals[name], None) for name in names],
                timeout_ms=self._cluster.options.broker_timeout_ms,
                validate_only=validate_only,
            )
            response = await self._cluster.ask_controller(create_partitions.API, request)
            return {
                topic.name: _outcome(topic.error_code, topic.error_message, topic.name) for topic in response.results
            }

        outcomes = await self._each(list(totals), ask)
        for name in outcomes:
            self._cluster.forget(name)
        return outcomes

    async def describe_topic_configs(self, name: str) -> list[ConfigEntry]:
        """The configuration of a topic, its defaults included. Raises ClientError."""
        return await self.describe_configs(ConfigResource(ResourceType.TOPIC, name))

    async def describe_broker_configs(self, node_id: int) -> list[ConfigEntry]:
        """The configuration of a broker, told by itself. Raises ClientError."""
        return await self.describe_configs(ConfigResource(ResourceType.BROKER, str(node_id)))

    async def describe_configs(
        self, resource: ConfigResource, names: Iterable[str] | None = None, *, synonyms: bool = False
    ) -> list[ConfigEntry]:
        """The configuration of a resource, or these keys of it, its defaults included. Raises ClientError."""
        wanted = DescribeConfigsResource(resource.type, resource.name, None if names is None else list(names))
        request = DescribeConfigsRequest([wanted], include_synonyms=synonyms)

        async def ask() -> list[ConfigEntry]:
            (result,) = (await self._ask_of(resource, describe_configs.API, request, least=1)).results
            raise_for(result.error_code, result.error_message, context=str(resource))
            return [
                ConfigEntry(
                    entry.name,
                    entry.value,
                    _source(entry.config_source),
                    entry.read_only,
                    entry.is_sensitive,
                    [ConfigSynonym(each.name, each.value, _source(each.source)) for each in entry.synonyms],
                )
                for entry in result.configs
            ]

        return await self._cluster.patiently(ask)

    async def alter_configs(
        self, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change single keys of a resource, or only try (KIP-339). Raises ClientError.

        To append to a list is asked for once: where the answer is lost OutcomeUnknown says so, as the broker would
        append a second time. All else is asked for again until it is answered.
        """
        wanted = list(changes)
        configs = [AlterableConfig(each.name, each.operation, each.value) for each in wanted]
        is_repeatable = validate_only or all(each.operation is not ConfigOperation.APPEND for each in wanted)
        altered = AlterConfigsResource(resource.type, resource.name, configs)
        request = IncrementalAlterConfigsRequest([altered], validate_only)

        async def ask() -> None:
            # Until there is a connection nothing was asked for.
            connection = await self._connection_for(resource)
            try:
                response = await connection.request(
                    incremental_alter_configs.API, request, timeout_ms=self._cluster.options.request_timeout_ms
                )
                (result,) = response.responses
                raise_for(result.error_code, result.error_message, context=str(resource))
            except ClientError as error:
                if is_repeatable or not _may_have_acted(error):
                    raise
                raise OutcomeUnknown(f"{resource}: whether it was appended is not known: {error}") from error

        await self._cluster.patiently(ask)

    async def _ask_of(self, resource: ConfigResource, api: Api, request: object, *, least: int = 0) -> Any:
        connection = await self._connection_for(resource)
        timeout_ms = self._cluster.options.request_timeout_ms
        return await connection.request(api, request, timeout_ms=timeout_ms, least=least)

    async def _connection_for(self, resource: ConfigResource) -> Connection:
        if resource.node_id is None:
            return await self._cluster.any_connection()
        return await self._cluster.connection(resource.node_id)

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FoundOffset]:
        """The first offset at or after a time in each partition, or LATEST or EARLIEST. Raises ClientError.

        Times are milliseconds since the epoch. Where no record is late enough the offset is -1. With READ_COMMITTED a
        log ends at its last stable offset (KIP-98).
        """
        found: dict[TopicPartition, FoundOffset] = {}

        async def ask() -> None:
            by_leader: dict[int, list[TopicPartition]] = {}
            for each in timestamps:
                if each not in found:
                    by_leader.setdefault((await self._cluster.leader(each)).node_id, []).append(each)
            for node_id, partitions in by_leader.items():
                wanted = {each: timestamps[each] for each in partitions}
                await self._list_offsets_of(node_id, wanted, isolation_level, found)

        await self._cluster.patiently(ask)
        return found

    async def _list_offsets_of(
        self,
        node_id: int,
        timestamps: Mapping[TopicPartition, int],
        isolation_level: IsolationLevel,
        found: dict[TopicPartition, FoundOffset],
    ) -> None:
        topics: dict[str, ListOffsetTopic] = {}
        for (name, partition), timestamp in timestamps.items():
            topic = topics.setdefault(name, ListOffsetTopic(name))
            topic.partitions.append(ListOffsetPartition(partition_index=partition, timestamp=timestamp))
        request = ListOffsetRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))
        try:
            # Version 2 is the first with isolation levels.
            response = await self._cluster.ask(node_id, list_offsets.API, request, least=2 if isolation_level else 1)
        except ClientError:
            for name in topics:
                self._cluster.forget(name)
            raise
        for topic in response.topics:
            for part in topic.partitions:
                topic_partition = TopicPartition(topic.name, part.partition_index)
                if error_code(part.error_code).means_stale_metadata:
                    self._cluster.forget(topic.name)
                raise_for(part.error_code, context=str(topic_partition))
                found[topic_partition] = FoundOffset(part.offset, part.timestamp, part.leader_epoch)

    async def _each(self, names: list[str], ask: Callable[[list[str]], Awaitable[Outcomes]]) -> Outcomes:
        """Ask the controller about `names`; ask again about those that it was not the controller for."""
        outcomes: Outcomes = {}

        async def attempt() -> None:
            answers = await ask([name for name in names if name not in outcomes])
            again = [error for error in answers.values() if error is not None and error.error in _ASK_AGAIN]
            outcomes.update({name: error for name, error in answers.items() if error not in again})
            if again:
                raise again[0]

        await self._cluster.patiently(attempt)
        if missing := [name for name in names if name not in outcomes]:
            raise ProtocolViolation(f"the controller said nothing of {', '.join(missing)}")
        return {name: outcomes[name] for name in names}


_ASK_AGAIN: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def _may_have_acted(error: ClientError) -> bool:
    """Whether a request that failed so could have been carried out, or still be."""
    if isinstance(error, KafkaError):
        return error.error is ErrorCode.REQUEST_TIMED_OUT
    return isinstance(error, ConnectionFailed | RequestTimedOut)


def _numbers(topic: NewTopic) -> tuple[int, ...]:
    return () if topic.assignments else (topic.partitions, topic.replication_factor)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[CreatableReplicaAssignment(index, ids) for index, ids in topic.assignments.items()],
        configs=[CreateableTopicConfig(name, value) for name, value in topic.configs.items()],
    )


def _outcome(number: int, message: str | None, name: str) -> KafkaError | None:
    return KafkaError(error_code(number), message, context=f"topic {name}") if number else None


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
