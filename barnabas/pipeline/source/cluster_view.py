"""What the cluster says that a query reads: its partitions, what they hold, and what their logs are known by.

Every answer is asked for anew; nothing is remembered but connections.
"""

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Final, Self

from barnabas.client.admin import EARLIEST, LATEST, Admin, ConfigResource, ResourceType
from barnabas.client.batch_probe import headers_at
from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import KafkaError
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.segment_starts import segment_starts
from barnabas.pipeline import connecting
from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.source.offsets import Stamp
from barnabas.pipeline.source.options import Fetching, SourceOptions
from barnabas.pipeline.source.planning import LogSpan, Spans
from barnabas.pipeline.source.subscription import Partitions, TopicPattern, Topics
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition

_MISSING: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def connect(bootstrap_servers: str, fetching: Fetching) -> Cluster:
    """A cluster as the options say; nothing is connected yet. Raises OptionError for what is no address."""
    options = ClusterOptions(
        client_id=fetching.client_id,
        connect_timeout_ms=fetching.connect_timeout_ms,
        request_timeout_ms=fetching.request_timeout_ms,
        timeout_ms=fetching.timeout_ms,
    )
    return connecting.connect(bootstrap_servers, options)


class ClusterView:
    """An asynchronous context manager. Every method raises ClientError."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = connect(options.bootstrap_servers, options.fetching)
        self._admin = Admin(self._cluster)
        self._isolation = IsolationLevel.READ_COMMITTED if options.read_committed else IsolationLevel.READ_UNCOMMITTED
        self._exits = AsyncExitStack()
        self.cluster_id: str | None = None

    async def __aenter__(self) -> Self:
        await self._exits.enter_async_context(self._cluster)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()

    async def partitions(self, *, all_must_exist: bool) -> list[TopicPartition]:
        """The partitions that the query reads now, in order.

        Raises OptionError where one that the query names does not exist and it must.
        """
        wanted = self._options.subscription
        match wanted:
            case TopicPattern():
                known = await self._metadata(None)
                found = {
                    TopicPartition(name, number)
                    for name, topic in known.topics.items()
                    if not topic.is_internal and wanted.matches(name)
                    for number in topic.partitions
                }
            case Topics(names):
                known = await self._metadata(names)
                found = _partitions_of(known)
                missing = [name for name in names if known.topics[name].error is _MISSING]
                if missing and all_must_exist:
                    raise OptionError(f"option subscribe: there is no topic {', '.join(missing)}; create it first")
            case Partitions(assigned):
                found = _partitions_of(await self._metadata({each.topic for each in assigned})) & assigned
                if found != assigned and all_must_exist:
                    missing_ones = ", ".join(map(str, sorted(assigned - found)))
                    raise OptionError(f"option assign: there is no partition {missing_ones}; create it first")
        return sorted(found)

    async def _metadata(self, topics: Iterable[str] | None) -> ClusterMetadata:
        known = await self._cluster.metadata(topics)
        self.cluster_id = known.cluster_id
        for topic in known.topics.values():
            if topic.error and not topic.error.retriable:
                raise KafkaError(topic.error, context=f"topic {topic.name}")
        return known

    async def spans(self, partitions: Iterable[TopicPartition]) -> Spans:
        """What each of these partitions holds that the query may see."""
        wanted = list(partitions)
        starts = await self._admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
        ends = await self._admin.list_offsets(dict.fromkeys(wanted, LATEST), isolation_level=self._isolation)
        # The start may pass the last stable offset where records were deleted under an open transaction.
        return {each: LogSpan(starts[each].offset, max(ends[each].offset, starts[each].offset)) for each in wanted}

    async def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset at or after a time in each partition, NO_RECORD where there is none."""
        found = await self._admin.list_offsets(times_ms, isolation_level=self._isolation)
        return {each: answer.offset for each, answer in found.items()}

    async def segment_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
        """The first offsets of the segments of each log, rising; empty where the broker does not tell."""
        return await segment_starts(self._cluster, list(partitions))

    async def stamps_before(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Stamp]:
        """What holds the last record before each offset, where it can be seen."""
        headers = await headers_at(self._cluster, {each: offset - 1 for each, offset in offsets.items() if offset > 0})
        return {
            each: Stamp(header.base_offset, header.leader_epoch, header.crc)
            for each, header in headers.items()
            if header.base_offset < offsets[each]
        }

    async def compacted(self, topics: Iterable[str]) -> set[str]:
        """Those of `topics` that are compacted."""
        found = set()
        for topic in set(topics):
            entries = await self._admin.describe_configs(ConfigResource(ResourceType.TOPIC, topic), ["cleanup.policy"])
            if any("compact" in (entry.value or "") for entry in entries):
                found.add(topic)
        return found


def _partitions_of(known: ClusterMetadata) -> set[TopicPartition]:
    return {TopicPartition(name, number) for name, topic in known.topics.items() for number in topic.partitions}
