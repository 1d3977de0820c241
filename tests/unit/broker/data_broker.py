"""A broker for tests of the data path: real handlers, replicas and logs on a disk in memory, without ZooKeeper.

Its disk and threads are those of `ReplicaWorld`, so a test decides when a write or an fsync returns.
"""

import asyncio
import random
import struct
from collections.abc import Awaitable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

from barnabas.protocol.compiler import decode_whole, encode
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.frames import decode_response_header, frame_request
from barnabas.protocol.ids import ApiKey, BrokerId, ControllerEpoch, TopicPartition
from barnabas.protocol.messages import APIS
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.records import ControlRecordType, EndTxnMarker, build_end_txn_marker
from barnabas.runtime.completion import Completion
from barnabas.runtime.files import FileSlice
from barnabas.runtime.network import Part
from barnabas.storage.append import AppendOrigin
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from broker.connection import ClientConnection
from broker.down_conversion import Conversions
from broker.fetch_sessions import FetchSessions
from broker.handlers import api_versions, fetch, produce
from broker.metadata_view import MetadataView
from broker.metrics import BrokerMetrics
from broker.registry import NO_RESPONSE, NoResponse, Parked, Registry
from broker.request_context import RequestContext
from controller.commands import UpdateMetadata
from replication.partition import Partition
from tests.unit.broker.small_broker import LISTENER, describe, live_broker, make_config
from tests.unit.replication.replica_world import ME, ReplicaWorld
from tests.unit.storage.logs import NOW, batch

MANY: Final = 1 << 30


class DataBroker:
    """Broker 1, which leads what `lead` names."""

    def __init__(
        self, given: Mapping[str, str] | None = None, *, directories: int = 1, session_slots: int = 10
    ) -> None:
        self.world = ReplicaWorld(directories)
        self.view = MetadataView()
        self.metrics = BrokerMetrics(self.world.clock)
        # Only what the data path uses.
        self.services: Any = SimpleNamespace(
            broker_id=ME,
            cluster_id="cluster",
            config=make_config(given),
            clock=self.world.clock,
            random=random.Random(7),
            offload=self.world.offload,
            metadata=self.view,
            replicas=self.world.replicas,
            log_directories=self.world.log_directories,
            fetch_sessions=FetchSessions(max_slots=session_slots, clock=self.world.clock, rng=random.Random(7)),
            metrics=self.metrics,
            registry=Registry([produce.API, fetch.API, api_versions.API]),
            conversions=Conversions(),
        )

    async def open(self) -> "DataBroker":
        await self.world.open()
        return self

    async def lead(self, topic: str = "t", count: int = 1, *, config: LogConfig | None = None) -> list[Partition]:
        """Lead a new topic's partitions in epoch 0."""
        partitions = [await self.world.lead(at=TopicPartition(topic, number), config=config) for number in range(count)]
        self.announce(topic, count)
        return partitions

    def announce(self, topic: str, count: int = 1, *, leader: BrokerId = ME) -> None:
        """Tell of a topic, as a controller does."""
        told = [describe(topic, number, leader=leader) for number in range(count)]
        self.view.apply(UpdateMetadata(ME, ControllerEpoch(1), self._any_epoch, told, (live_broker(1),)))

    _any_epoch: Any = 1

    def context(self, version: int, *, client_id: str = "test") -> RequestContext:
        return RequestContext(
            self.services,
            version=version,
            correlation_id=1,
            client_id=client_id,
            client_host="127.0.0.1",
            listener_name=LISTENER,
        )

    def errors(self, api_key: ApiKey) -> dict[ErrorCode, int]:
        """How often each error was counted."""
        times = self.metrics.apis.get(api_key)
        return {} if times is None else dict(times.errors)


# Produce.


def produce_request(
    data: Mapping[tuple[str, int], bytes | memoryview | None], *, acks: int = -1, timeout_ms: int = 1000
) -> ProduceRequest:
    """A request with a topic entry for each partition, in order."""
    topics = [
        TopicProduceData(name=topic, partitions=[PartitionProduceData(partition_index=number, records=records)])
        for (topic, number), records in data.items()
    ]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topics=topics)


async def answer_of(result: Any) -> Any:
    """What a handler's result comes to."""
    if asyncio.iscoroutine(result):
        result = await result
    if isinstance(result, Parked):
        result = await result.future
    if isinstance(result, Awaitable):
        result = await result
    return result


async def produced(
    broker: DataBroker,
    data: Mapping[tuple[str, int], bytes | memoryview | None],
    *,
    version: int = 8,
    acks: int = -1,
    timeout_ms: int = 1000,
    client_id: str = "test",
) -> list[PartitionProduceResponse]:
    """Produce and wait; the answers by partition, as a client of that version reads them."""
    request = produce_request(data, acks=acks, timeout_ms=timeout_ms)
    response = await answer_of(produce.handle(request, broker.context(version, client_id=client_id)))
    assert isinstance(response, ProduceResponse)
    read = decode_whole(ProduceResponse, version, encode(response, version))
    return [partition for topic in read.responses for partition in topic.partitions]


def is_no_response(result: object) -> bool:
    return isinstance(result, NoResponse) and result is NO_RESPONSE


# Fetch.


def fetch_request(
    offsets: Mapping[tuple[str, int], int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MANY,
    partition_max_bytes: int = MANY,
    isolation_level: int = 0,
    replica_id: int = -1,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[str, int]] = (),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """`session` is (id, epoch); without one the request asks for none."""
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=number,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                    current_leader_epoch=leader_epoch,
                    last_fetched_epoch=last_fetched_epoch,
                )
            ],
        )
        for (topic, number), offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=[number]) for topic, number in forgotten],
    )


class Fetched:
    """An answer with the records read and their slices let go."""

    def __init__(self, response: FetchResponse) -> None:
        self.error = ErrorCode(response.error_code)
        self.session_id = response.session_id
        self.partitions = {
            (topic.topic, partition.partition): partition
            for topic in response.responses
            for partition in topic.partition_responses
        }
        self.records = {key: _take(partition.record_set) for key, partition in self.partitions.items()}

    def errors(self) -> dict[tuple[str, int], ErrorCode]:
        return {key: ErrorCode(partition.error_code) for key, partition in self.partitions.items()}

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.records.values()))


def _take(records: Any) -> bytes:
    if isinstance(records, FileSlice):
        data = records.read()
        records.release()
        return data
    return bytes(records)


def start_fetch(broker: DataBroker, request: FetchRequest, *, version: int = 12) -> Any:
    """The answer, or a future where it is parked."""
    return fetch.handle(request, broker.context(version))


def fetch_now(broker: DataBroker, request: FetchRequest, *, version: int = 12) -> Fetched:
    """An answer that comes at once; it must."""
    response = start_fetch(broker, request, version=version)
    assert isinstance(response, FetchResponse), "the fetch waits"
    return Fetched(response)


def start_waiting(broker: DataBroker, request: FetchRequest, *, version: int = 12) -> Completion[FetchResponse]:
    """A fetch that parks; it must."""
    future = start_fetch(broker, request, version=version)
    assert isinstance(future, Completion), "the fetch was answered at once"
    return future


async def fetched(future: Completion[FetchResponse]) -> Fetched:
    return Fetched(await future)


def pins(*partitions: Partition) -> int:
    """How many slices of these logs nobody has let go."""
    return sum(segment._pins for partition in partitions for segment in partition.log.segments)


# A connection.


class PeerWire:
    """The network's side of a connection: keeps parts until they are flushed, and then reads the slices."""

    peer_host = "peer"

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.queue: list[Part] = []
        self.closed: str | None = None
        self.unsent_bytes = 0
        self.is_reading = True
        self.frames_held = 0
        self.flushes = 0
        self.reads = True
        """Whether the peer takes what is sent to it."""

    def send(self, parts: Sequence[Part]) -> None:
        assert self.closed is None, "sent after the end"
        self.queue += parts

    def flush(self) -> None:
        self.flushes += 1
        if not self.reads:
            return
        data = b"".join(_take(part) for part in self.queue)
        self.queue.clear()
        while data:
            (size,) = struct.unpack_from(">i", data)
            self.frames.append(data[4 : 4 + size])
            data = data[4 + size :]

    def frame_finished(self, frame: bytearray) -> None:
        self.frames_held -= 1

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self, reason: str) -> None:
        self.closed = reason
        for part in self.queue:
            if isinstance(part, FileSlice):
                part.release()
        self.queue.clear()


class Peer:
    """A client on a connection of the broker."""

    def __init__(self, broker: DataBroker) -> None:
        self.wire = PeerWire()
        self.connection = ClientConnection(self.wire, broker.services, listener_name=LISTENER)
        self._sent: dict[int, tuple[ApiKey, int]] = {}

    def send(self, api_key: ApiKey, version: int, request: object) -> int:
        """Send a request; its correlation id."""
        correlation_id = len(self._sent) + 1
        self._sent[correlation_id] = (api_key, version)
        frame = frame_request(api_key, version, correlation_id=correlation_id, client_id="test", request=request)
        self.receive(b"".join(map(bytes, cast("list[bytes]", frame)))[4:])
        return correlation_id

    def receive(self, *frames: bytes) -> None:
        """Frames arrive in one read."""
        for frame in frames:
            self.wire.frames_held += 1
            self.connection.frame_received(bytearray(frame))
        self.connection.frames_done()

    def leave(self) -> None:
        """The connection ends; the network lets go of what it has not sent."""
        self.wire.closed = self.wire.closed or "left"
        for part in self.wire.queue:
            if isinstance(part, FileSlice):
                part.release()
        self.wire.queue.clear()
        self.connection.disconnected()

    def answers(self) -> list[tuple[int, Any]]:
        """What came back, by correlation id, in order."""
        read = []
        for frame in self.wire.frames:
            (correlation_id,) = struct.unpack_from(">i", frame)
            api_key, version = self._sent[correlation_id]
            _, position = decode_response_header(api_key, version, frame)
            read.append((correlation_id, decode_whole(APIS[api_key].response, version, frame, position)))
        return read

    @property
    def answered(self) -> list[int]:
        return [correlation_id for correlation_id, _ in self.answers()]


# Logs.


class CountedReads:
    """A log that counts how often it is read."""

    def __init__(self, partition: Partition) -> None:
        self._log = partition.log
        self.count = 0
        partition.log = cast("Log", self)

    def read(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._log.read(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def write_batch(partition: Partition, data: bytes | memoryview) -> int:
    """Append what a client may not, as it came from a leader; the offset after it."""
    info = partition.log.append(memoryview(data), leader_epoch=-1, origin=AppendOrigin.REPLICATION, now_ms=NOW)
    partition._after_append(info)
    return partition.log.log_end_offset


def in_transaction(partition: Partition, producer_id: int, *values: bytes, sequence: int = 0) -> int:
    """Append records of a transaction; the offset after them."""
    data = batch(
        *values,
        producer=(producer_id, 0, sequence),
        transactional=True,
        base_offset=partition.log.log_end_offset,
        leader_epoch=partition.leader_epoch,
    )
    return write_batch(partition, data)


def end_transaction(partition: Partition, producer_id: int, *, commits: bool) -> int:
    """Append the marker that ends a transaction; the offset after it."""
    marker = EndTxnMarker(ControlRecordType.COMMIT if commits else ControlRecordType.ABORT, 0)
    data = build_end_txn_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=NOW,
        base_offset=partition.log.log_end_offset,
        leader_epoch=partition.leader_epoch,
    )
    return write_batch(partition, data)
