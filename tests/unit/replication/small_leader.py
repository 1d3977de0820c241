"""A leader for the fetchers' tests: logs as lists of batches behind Fetch, OffsetForLeaderEpoch and ListOffsets.

It lives in the test's virtual time. Requests and answers cross as bytes. `errors` has what it answers for a partition
instead; `asked` has every request as it came.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from barnabas.client.connection import Address
from barnabas.client.errors import ConnectionFailed, RequestTimedOut
from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey, LeaderEpoch, TopicPartition
from barnabas.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetPartitionResponse,
    ListOffsetRequest,
    ListOffsetResponse,
    ListOffsetTopicResponse,
)
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from barnabas.protocol.schema import Api
from barnabas.storage.leader_epochs import LeaderEpochs
from replication.fetcher_ports import FetchCount, FetcherPorts, FetcherSettings
from replication.fetchers import Fetchers
from replication.quota import ReplicationQuota
from tests.unit.replication.replica_world import ME, OTHER
from tests.unit.storage.logs import batch

ADDRESS = Address("leader", 9092)


class LoopClock:
    """The running loop's time."""

    def wall_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self.monotonic_us() // 1000

    def monotonic_us(self) -> int:
        return round(asyncio.get_running_loop().time() * 1_000_000)


@dataclass
class LeaderLog:
    """What the leader has of one partition. `batches` holds (base offset, next offset, bytes)."""

    leader_epoch: int = 0
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    follower_start: int = -1
    follower_end: int = -1

    def __post_init__(self) -> None:
        self.epochs.assign(self.leader_epoch, start_offset=0)

    def write(self, *values: bytes, committed: bool = True) -> None:
        data = bytes(batch(*values, base_offset=self.end, leader_epoch=self.leader_epoch))
        self.batches.append((self.end, self.end + len(values), data))
        self.end += len(values)
        if committed:
            self.high_watermark = self.end

    def begin_epoch(self, epoch: int) -> None:
        self.leader_epoch = epoch
        self.epochs.assign(epoch, start_offset=self.end)

    def cut(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each[1] <= offset]
        self.end = self.batches[-1][1] if self.batches else self.start
        self.high_watermark = min(self.high_watermark, self.end)
        self.epochs.truncate_from_end(self.end)

    def delete_before(self, offset: int) -> None:
        self.start = offset
        self.batches = [each for each in self.batches if each[1] > offset]
        self.epochs.truncate_from_start(offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = b""
        for _, next_offset, data in self.batches:
            if next_offset > offset and (not found or len(found) + len(data) <= max_bytes):
                found += data
        return found


@dataclass
class _Session:
    session_id: int
    epoch: int = 1
    partitions: dict[TopicPartition, FetchPartition] = field(default_factory=dict)
    told: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


class SmallLeader:
    """See the module."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, LeaderLog] = {}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_down = False
        self.is_hung = False
        self.has_sessions = True
        self.quota = ReplicationQuota()
        self.address: Address | None = ADDRESS
        self.latency_s = 0.0
        """How long each answer is under way."""
        self.asked: list[tuple[float, Any]] = []
        self.connections: list[_Connection] = []
        self.changed = asyncio.Event()
        self._sessions: dict[int, _Session] = {}
        self._last_id = 0

    def add(self, topic_partition: TopicPartition, *, epoch: int = 0) -> LeaderLog:
        log_ = self.logs[topic_partition] = LeaderLog(epoch)
        return log_

    def wake(self) -> None:
        """Let parked fetches look again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def forget_session(self) -> None:
        self._sessions.clear()

    def go_down(self) -> None:
        self.is_down = True
        for connection in self.connections:
            connection.close()

    def fetches(self) -> list[FetchRequest]:
        return [request for _, request in self.asked if isinstance(request, FetchRequest)]

    def fetchers(self, spawn: Callable[..., "asyncio.Task[None]"], **settings: Any) -> Fetchers:
        """Fetchers of broker 1 that find broker 2 here."""
        ports = FetcherPorts(
            clock=LoopClock(),
            spawn=spawn,
            endpoint_of=lambda leader_id: self.address if leader_id == OTHER else None,
            connect=self.connect,
            count=FetchCount(),
            quota=self.quota,
        )
        return Fetchers(settings.pop("settings", None) or FetcherSettings(replica_id=ME, **settings), ports)

    async def connect(self, address: Address, name: str) -> "_Connection":
        if self.is_down:
            raise ConnectionFailed("nobody is there")
        connection = _Connection(self, address, name)
        self.connections.append(connection)
        return connection

    async def answer(self, api_key: ApiKey, request: Any) -> Any:
        self.asked.append((asyncio.get_running_loop().time(), request))
        match request:
            case FetchRequest():
                return await self._fetch(request)
            case OffsetForLeaderEpochRequest():
                return self._epochs(request)
            case ListOffsetRequest():
                return self._offsets(request)
        raise AssertionError(api_key)

    # Fetch.

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        assert request.replica_id == ME
        if request.session_epoch == 0:
            self._sessions.pop(request.session_id, None)
            self._last_id += 1
            session = self._sessions[self._last_id] = _Session(self._last_id)
        elif request.session_id not in self._sessions:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            session = self._sessions[request.session_id]
            assert request.session_epoch == session.epoch
            session.epoch += 1
        for topic in request.topics:
            for partition in topic.partitions:
                session.partitions[TopicPartition(topic.topic, partition.partition)] = partition
        for gone in request.forgotten_topics_data:
            for number in gone.partitions:
                del session.partitions[TopicPartition(gone.topic, number)]
                session.told.pop(TopicPartition(gone.topic, number), None)
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        while True:
            found, is_due = self._read(request, session)
            left = deadline - asyncio.get_running_loop().time()
            if is_due or left <= 0:
                return self._respond(session, found)
            try:
                async with asyncio.timeout(left):
                    await self.changed.wait()
            except TimeoutError:
                pass

    def _read(
        self, request: FetchRequest, session: _Session
    ) -> tuple[list[tuple[TopicPartition, FetchablePartitionResponse]], bool]:
        found, left, is_due = [], request.max_bytes, False
        for at, wanted in session.partitions.items():
            answer = self._read_one(at, wanted, min(left, wanted.partition_max_bytes))
            size = len(answer.record_set or b"")
            left -= size
            is_due = is_due or bool(answer.error_code) or size >= request.min_bytes
            if size or answer.error_code or session.told.get(at) != (answer.high_watermark, answer.log_start_offset):
                found.append((at, answer))
        return found, is_due

    def _read_one(self, at: TopicPartition, wanted: FetchPartition, max_bytes: int) -> FetchablePartitionResponse:
        log_ = self.logs.get(at)
        answer = FetchablePartitionResponse(at.partition, high_watermark=-1, record_set=b"")
        if at in self.errors or log_ is None:
            answer.error_code = self.errors.get(at, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif wanted.current_leader_epoch != log_.leader_epoch:
            older = wanted.current_leader_epoch < log_.leader_epoch
            answer.error_code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not log_.start <= wanted.fetch_offset <= log_.end:
            answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            log_.follower_start, log_.follower_end = wanted.log_start_offset, wanted.fetch_offset
            answer.high_watermark, answer.log_start_offset = log_.high_watermark, log_.start
            if max_bytes > 0:
                answer.record_set = log_.read(wanted.fetch_offset, max_bytes)
        return answer

    def _respond(
        self, session: _Session, found: list[tuple[TopicPartition, FetchablePartitionResponse]]
    ) -> FetchResponse:
        response = FetchResponse(session_id=session.session_id if self.has_sessions else 0)
        for at, answer in found:
            session.told[at] = answer.high_watermark, answer.log_start_offset
            # What was heard comes last the next time.
            session.partitions[at] = session.partitions.pop(at)
            response.responses.append(FetchableTopicResponse(at.topic, [answer]))
        return response

    # Questions.

    def _epochs(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        assert request.replica_id == ME
        response = OffsetForLeaderEpochResponse()
        for topic in request.topics:
            for each in topic.partitions:
                at = TopicPartition(topic.name, each.partition_index)
                result = OffsetForLeaderPartitionResult(
                    self._refusal(at, each.current_leader_epoch), each.partition_index, -1, -1
                )
                if not result.error_code:
                    log_ = self.logs[at]
                    end = log_.epochs.end_offset_for(each.leader_epoch, log_end_offset=log_.end)
                    result.leader_epoch, result.end_offset = end
                response.topics.append(OffsetForLeaderTopicResult(topic.name, [result]))
        return response

    def _offsets(self, request: ListOffsetRequest) -> ListOffsetResponse:
        assert request.replica_id == ME
        response = ListOffsetResponse()
        for topic in request.topics:
            for each in topic.partitions:
                at = TopicPartition(topic.name, each.partition_index)
                result = ListOffsetPartitionResponse(each.partition_index, self._refusal(at, each.current_leader_epoch))
                if not result.error_code:
                    result.offset = self.logs[at].end if each.timestamp == -1 else self.logs[at].start
                response.topics.append(ListOffsetTopicResponse(topic.name, [result]))
        return response

    def _refusal(self, at: TopicPartition, epoch: int) -> ErrorCode:
        if at in self.errors or at not in self.logs:
            return self.errors.get(at, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        known = LeaderEpoch(self.logs[at].leader_epoch)
        if epoch == known:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH


class _Connection:
    """As much of a client's connection as a fetcher uses."""

    def __init__(self, leader: SmallLeader, address: Address, name: str) -> None:
        self._leader = leader
        self.address = address
        self.name = name
        self.is_open = True
        self._gone = asyncio.Event()

    def close(self, reason: str = "") -> None:
        self.is_open = False
        self._gone.set()

    async def request(self, api: Api, request: object, *, timeout_ms: int, least: int = 0, most: int) -> Any:
        version = min(api.versions[-1], most)
        asked = decode_whole(api.request, version, encode(request, version))
        answering = asyncio.ensure_future(self._leader.answer(api.key, asked))
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            if self._leader.is_hung:
                await asyncio.wait([gone], timeout=timeout_ms / 1000)
                raise RequestTimedOut("the leader says nothing")
            await asyncio.wait([answering, gone], timeout=timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.is_open = False
                raise ConnectionFailed("the connection ended")
            await asyncio.sleep(self._leader.latency_s)
            return decode_whole(api.response, version, bytearray(encode(answering.result(), version)))
        finally:
            answering.cancel()
            gone.cancel()
