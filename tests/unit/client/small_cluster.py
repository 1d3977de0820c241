"""A cluster in one process for the client's tests: real sockets and Kafka's protocol in front of lists of batches.

It knows as much of Kafka as the client asks for, keeps no rule that only a broker needs, and can be told to misbehave:
`on_request` sees every request first and may answer in the place of the broker, or end the connection.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from barnabas.protocol.batch import place, verify_crc
from barnabas.protocol.compiler import decode_whole
from barnabas.protocol.entries import iterate_entries, read_entry
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_request_header, frame_response
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.ids import ApiKey, TopicPartition
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseKey
from barnabas.protocol.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetPartitionResponse,
    ListOffsetResponse,
    ListOffsetTopicResponse,
)
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from barnabas.protocol.records import Record, iterate_records
from barnabas.storage.producer_state import ProducerRejection, ProducerState
from tests.unit.client.small_fetch_sessions import Plan, SmallFetchSessions
from tests.unit.client.small_groups import GROUP_APIS, SmallGroups

SERVED = {
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_CONFIGS, ApiKey.INIT_PRODUCER_ID,
    ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_LOG_DIRS, ApiKey.DELETE_RECORDS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    *GROUP_APIS, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS, ApiKey.WRITE_TXN_MARKERS,
    ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
}  # fmt: skip


class Hangup(Exception):
    """Raised by `on_request`: end the connection without an answer."""


@dataclass
class Log:
    """A partition's batches and who leads it."""

    leader: int
    batches: list[bytearray] = field(default_factory=list)
    end_offset: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    producers: ProducerState = field(default_factory=ProducerState)

    def records(self) -> list[Record]:
        return [
            record
            for batch in self.batches
            for pos, header in iterate_entries(batch)
            for record in iterate_records(batch, pos, header, 1 << 30)
        ]

    def append(self, batch: bytes) -> int:
        """The base offset of the batch, which is written unless it was there before. Raises ProducerRejection."""
        ((pos, header),) = iterate_entries(batch)
        verify_crc(batch, pos, header)
        if header.producer_id >= 0:
            duplicate = self.producers.check_batch(header)
            if duplicate is not None:
                return duplicate.first_offset
        base, copy = self.end_offset, bytearray(batch)
        if header.producer_id >= 0:
            self.producers.apply_batch(header, base_offset=base)
        header.base_offset, header.leader_epoch = base, self.leader_epoch
        place(copy, 0, header)
        self.batches.append(copy)
        self.end_offset += header.record_count
        return base


@dataclass
class Asked:
    """A request as it came."""

    node_id: int
    header: RequestHeader
    request: Any

    @property
    def key(self) -> ApiKey:
        return ApiKey(self.header.api_key)


class SmallCluster:
    """Brokers 1 to n on ports of their own; broker 1 is the controller."""

    def __init__(self, brokers: int = 1, *, newest: dict[ApiKey, int] | None = None) -> None:
        self.count = brokers
        self.ports: dict[int, int] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.controller = 1
        self.asked: list[Asked] = []
        self.on_request: Callable[[Asked], Any] = lambda asked: None
        self.newest = newest or {}
        self.oldest: dict[ApiKey, int] = {}
        self.max_message_bytes = 1 << 30
        self.groups = SmallGroups()
        self.fetch_sessions = {node_id: SmallFetchSessions() for node_id in range(1, brokers + 1)}
        self.nearer: dict[TopicPartition, int] = {}
        """Followers that leaders name to who tells a rack."""
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._next_producer_id = 1000
        self.appended = asyncio.Event()

    async def __aenter__(self) -> Self:
        for node_id in range(1, self.count + 1):
            server = await asyncio.start_server(
                lambda reader, writer, node_id=node_id: self._serve(node_id, reader, writer), "127.0.0.1", 0
            )
            self._servers.append(server)
            self.ports[node_id] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def add_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        self.configs[name] = configs
        for index in range(partitions):
            self.logs[TopicPartition(name, index)] = Log(leader=index % self.count + 1)

    def keys_asked(self) -> list[ApiKey]:
        return [asked.key for asked in self.asked]

    async def _serve(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, Hangup):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                await self._answer(node_id, frame, writer)
        writer.close()

    async def _answer(self, node_id: int, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header, pos = decode_request_header(frame)
        api, version = APIS[ApiKey(header.api_key)], header.api_version
        newest = self.newest.get(api.key, api.versions[-1])
        if api.key is ApiKey.API_VERSIONS and version > newest:
            response: Any = self._versions(ErrorCode.UNSUPPORTED_VERSION)
            version = 0
        else:
            asked = Asked(node_id, header, decode_whole(api.request, version, frame, pos))
            self.asked.append(asked)
            response = self.on_request(asked)
            if asyncio.iscoroutine(response):
                response = await response
            if response is None and api.key in GROUP_APIS:
                response = await self.groups.answer(asked, lambda node_id: ("127.0.0.1", self.ports[node_id]))
            if response is None:
                response = getattr(self, f"_{api.key.name.lower()}")(asked)
            if asyncio.iscoroutine(response):
                response = await response
        if api.key is ApiKey.PRODUCE and asked.request.acks == 0:
            return
        parts = frame_response(api.key, version, correlation_id=header.correlation_id, response=response)
        writer.writelines(parts)  # type: ignore[arg-type]
        await writer.drain()

    def _versions(self, error: ErrorCode) -> ApiVersionsResponse:
        keys = [
            ApiVersionsResponseKey(k, self.oldest.get(k, 0), self.newest.get(k, APIS[k].versions[-1]))
            for k in sorted(SERVED)
        ]
        return ApiVersionsResponse(error, keys)

    def _api_versions(self, _: Asked) -> ApiVersionsResponse:
        return self._versions(ErrorCode.NONE)

    def _metadata(self, asked: Asked) -> MetadataResponse:
        wanted = asked.request.topics
        names = sorted(self.configs) if wanted is None else [topic.name for topic in wanted]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, "127.0.0.1", port, None) for node, port in self.ports.items()],
            cluster_id="small",
            controller_id=self.controller,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.configs:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        parts = [
            MetadataResponsePartition(
                ErrorCode.NONE if log.leader > 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                each.partition, log.leader, log.leader_epoch, [max(log.leader, 1)], [max(log.leader, 1)],
            )
            for each, log in self.logs.items() if each.topic == name
        ]  # fmt: skip
        return MetadataResponseTopic(ErrorCode.NONE, name, name.startswith("__"), parts)

    def _produce(self, asked: Asked) -> ProduceResponse:
        answers: dict[str, TopicProduceResponse] = {}
        for topic in asked.request.topics:
            answers[topic.name] = TopicProduceResponse(topic.name)
            for part in topic.partitions:
                log, base = self.logs.get(TopicPartition(topic.name, part.partition_index)), -1
                error = ErrorCode.NONE
                if log is None or log.leader != asked.node_id:
                    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif len(part.records) > self.max_message_bytes:
                    error = ErrorCode.MESSAGE_TOO_LARGE
                else:
                    try:
                        base = log.append(bytes(part.records))
                    except ProducerRejection as rejection:
                        error = rejection.error
                answers[topic.name].partitions.append(PartitionProduceResponse(part.partition_index, error, base))
        self.appended.set()
        return ProduceResponse(list(answers.values()))

    async def _fetch(self, asked: Asked) -> FetchResponse:
        plan = self.fetch_sessions[asked.node_id].plan(asked.request)
        if plan.error:
            return FetchResponse(error_code=plan.error)
        answers, size = self._read(asked, plan)
        if not size:
            self.appended.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.appended.wait(), asked.request.max_wait_ms / 1000)
            answers, size = self._read(asked, plan)
        return plan.response(answers, lambda each: each in self.logs and self.logs[each].end_offset)

    def _read(self, asked: Asked, plan: Plan) -> tuple[list[tuple[str, FetchablePartitionResponse]], int]:
        answers, total = [], 0
        for each, part in plan.wanted.items():
            log = self.logs.get(each)
            answer = FetchablePartitionResponse(part.partition, record_set=b"")
            nearer = self.nearer.get(each, asked.node_id)
            if log is None or asked.node_id not in (log.leader, nearer if asked.request.rack_id else None):
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif not log.start_offset <= part.fetch_offset <= log.end_offset:
                answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            elif asked.node_id != nearer and asked.request.rack_id:
                answer.preferred_read_replica = nearer
            else:
                answer.high_watermark = answer.last_stable_offset = log.end_offset
                room = min(part.partition_max_bytes, asked.request.max_bytes - total)
                answer.record_set = _slice(log, part.fetch_offset, room, whole=total == 0)
                total += len(answer.record_set)
            answers.append((each.topic, answer))
        return answers, total

    def _list_offsets(self, asked: Asked) -> ListOffsetResponse:
        topics = []
        for topic in asked.request.topics:
            answers = []
            for part in topic.partitions:
                log = self.logs.get(TopicPartition(topic.name, part.partition_index))
                answer = ListOffsetPartitionResponse(part.partition_index)
                if log is None or log.leader != asked.node_id:
                    answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif asked.header.api_version == 0:
                    # Each batch is a segment of its own.
                    starts = [read_entry(batch).base_offset for batch in log.batches]
                    answer.old_style_offsets = [log.end_offset, *reversed(starts)][: part.max_num_offsets]
                elif part.timestamp in (-1, -2):
                    answer.offset = log.end_offset if part.timestamp == -1 else log.start_offset
                else:
                    found = next((r for r in log.records() if r.timestamp >= part.timestamp), None)
                    if found is not None:
                        answer.offset, answer.timestamp = found.offset, found.timestamp
                answers.append(answer)
            topics.append(ListOffsetTopicResponse(topic.name, answers))
        return ListOffsetResponse(topics=topics)

    def _offset_for_leader_epoch(self, asked: Asked) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in asked.request.topics:
            results = []
            for part in topic.partitions:
                log = self.logs[TopicPartition(topic.name, part.partition_index)]
                headers = [read_entry(batch) for batch in log.batches]
                known = [each.leader_epoch for each in headers if each.leader_epoch <= part.leader_epoch]
                later = [each.base_offset for each in headers if each.leader_epoch > part.leader_epoch]
                end = min(later, default=log.end_offset) if known else -1
                epoch = max(known, default=-1)
                results.append(OffsetForLeaderPartitionResult(0, part.partition_index, epoch, end))
            topics.append(OffsetForLeaderTopicResult(topic.name, results))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _create_topics(self, asked: Asked) -> CreateTopicsResponse:
        results = []
        for topic in asked.request.topics:
            result = CreatableTopicResult(topic.name, error_message=None)
            if asked.node_id != self.controller:
                result.error_code = ErrorCode.NOT_CONTROLLER
            elif topic.name in self.configs:
                result.error_code, result.error_message = ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"
            elif topic.replication_factor > self.count:
                result.error_code, result.error_message = ErrorCode.INVALID_REPLICATION_FACTOR, "too many"
            elif not asked.request.validate_only:
                self.add_topic(topic.name, max(topic.num_partitions, 1), **{c.name: c.value for c in topic.configs})
            results.append(result)
        return CreateTopicsResponse(topics=results)

    def _delete_topics(self, asked: Asked) -> DeleteTopicsResponse:
        results = []
        for name in asked.request.topic_names:
            known = self.configs.pop(name, None) is not None
            for each in [each for each in self.logs if each.topic == name]:
                del self.logs[each]
            error = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(DeletableTopicResult(name, error))
        return DeleteTopicsResponse(responses=results)

    def _create_partitions(self, asked: Asked) -> CreatePartitionsResponse:
        results = []
        for topic in asked.request.topics:
            have = sum(each.topic == topic.name for each in self.logs)
            result = CreatePartitionsTopicResult(topic.name)
            if topic.count <= have:
                result.error_code, result.error_message = ErrorCode.INVALID_PARTITIONS, f"it has {have} already"
            elif not asked.request.validate_only:
                for index in range(have, topic.count):
                    self.logs[TopicPartition(topic.name, index)] = Log(leader=index % self.count + 1)
            results.append(result)
        return CreatePartitionsResponse(results=results)

    def _describe_configs(self, asked: Asked) -> DescribeConfigsResponse:
        results = []
        for resource in asked.request.resources:
            entries = [
                DescribeConfigsResourceResult("cleanup.policy", "delete", config_source=5, documentation=None),
                *(
                    DescribeConfigsResourceResult(name, value, config_source=1, documentation=None)
                    for name, value in self.configs.get(resource.resource_name, {}).items()
                ),
            ]
            results.append(DescribeConfigsResult(0, None, resource.resource_type, resource.resource_name, entries))
        return DescribeConfigsResponse(results=results)

    def _init_producer_id(self, _: Asked) -> InitProducerIdResponse:
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)


def _slice(log: Log, offset: int, room: int, *, whole: bool) -> bytes:
    """Batches from `offset` on, the last one cut at `room`, the first one whole where asked."""
    wanted = [batch for batch in log.batches if read_entry(batch).last_offset >= offset]
    limit = max(room, len(wanted[0])) if whole and wanted else room
    return b"".join(wanted)[: max(limit, 0)]
