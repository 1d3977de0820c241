"""Sending records: gathered into batches per partition, one batch per partition under way, so that their order holds.

With acks=all a producer is idempotent (KIP-98): every record is in the log once, also where an attempt had to be
repeated. The first error that trying again did not mend ends the producer: `send` and `flush` raise it from then on,
because what follows a lost record must not be written before it.

Transactions are not part of it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError, KafkaError, error_code, raise_for
from barnabas.client.partitioner import Partitioner
from barnabas.protocol.batch import NO_SEQUENCE, Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import init_producer_id
from barnabas.protocol.messages import produce as produce_api
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Headers, Record, build_batch
from barnabas.runtime.clock import Clock

log = logging.getLogger(__name__)

ACKS_ALL: Final = -1
ACKS_LEADER: Final = 1
ACKS_NONE: Final = 0

_RECORD_OVERHEAD_BYTES: Final = 21  # the most that the fixed part of a record takes
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_FORMAT_2_SINCE: Final = 3
_ZSTD_SINCE: Final = 7


@dataclass(slots=True)
class ProducerOptions:
    """How records are sent. A batch leaves when it has `batch_bytes` of records, or `linger_ms` after its first one."""

    acks: int = ACKS_ALL
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 256 * 1024
    linger_ms: int = 5
    max_buffered_bytes: int = 32 * 1024 * 1024
    idempotent: bool = True
    """Only with acks=all; otherwise it is not."""
    auto_create_topics: bool = True
    """Whether brokers may create a topic that is missing, where their configuration allows it."""


@dataclass(slots=True)
class Delivery:
    """A batch that is in the log; `base_offset` is -1 where the broker did not say (acks 0, or a repeated batch)."""

    topic_partition: TopicPartition
    base_offset: int
    records: list[Record]


@dataclass(slots=True)
class _Batch:
    records: list[Record]
    size_bytes: int
    sequence: int


@dataclass(slots=True)
class _Lane:
    """The way of one partition: the batch that is filled, those that wait, and the task that sends them in turn."""

    topic_partition: TopicPartition
    filling: list[Record] = field(default_factory=list)
    filling_bytes: int = 0
    timer: asyncio.TimerHandle | None = None
    sealed: deque[_Batch] = field(default_factory=deque)
    sender: "asyncio.Task[None] | None" = None
    next_sequence: int = 0


class Producer:
    """Sends records to a cluster. Use it as an asynchronous context manager: leaving it flushes."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        options: ProducerOptions | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._options = options or ProducerOptions()
        assert self._options.acks in (ACKS_ALL, ACKS_LEADER, ACKS_NONE)
        self._on_delivery = on_delivery
        self._partitioner = Partitioner(cluster.random)
        self._partition_counts: dict[str, int] = {}
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._failure: ClientError | None = None
        self._identity: asyncio.Task[tuple[int, int]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self._abandon()

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Take a record; it leaves with its batch. Waits while too many bytes are buffered. Raises ClientError.

        `timestamp` is milliseconds since the epoch, now where None; `partition` is chosen where None.
        """
        if self._failure is not None:
            raise self._failure
        if partition is None:
            count = self._partition_counts.get(topic) or await self._count_partitions(topic)
            partition = self._partitioner.choose(topic, key, count)
        lane = self._lane(TopicPartition(topic, partition))
        size = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        for name, content in headers:
            size += 10 + len(name) + len(content or b"")
        if lane.filling and lane.filling_bytes + size > self._options.batch_bytes:
            self._seal(lane)
            self._partitioner.on_batch_full(topic, self._partition_counts.get(topic, 1))
        lane.filling.append(Record(0, self._clock.wall_ms() if timestamp is None else timestamp, key, value, headers))
        lane.filling_bytes += size
        self._buffered_bytes += size
        if lane.filling_bytes >= self._options.batch_bytes:
            self._seal(lane)
        elif lane.timer is None:
            delay_s = self._options.linger_ms / 1000
            lane.timer = asyncio.get_running_loop().call_later(delay_s, self._seal, lane)
        while self._buffered_bytes > self._options.max_buffered_bytes and self._failure is None:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Return once every record that was taken is in the log. Raises ClientError."""
        for lane in self._lanes.values():
            self._seal(lane)
        await asyncio.gather(*(lane.sender for lane in self._lanes.values() if lane.sender is not None))
        if self._failure is not None:
            raise self._failure

    async def _abandon(self) -> None:
        tasks: list[asyncio.Task[None] | asyncio.Task[tuple[int, int]]] = []
        for lane in self._lanes.values():
            if lane.timer is not None:
                lane.timer.cancel()
            if lane.sender is not None:
                tasks.append(lane.sender)
        if self._identity is not None:
            tasks.append(self._identity)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _count_partitions(self, topic: str) -> int:
        count = len((await self._cluster.topic(topic, auto_create=self._options.auto_create_topics)).partitions)
        self._partition_counts[topic] = count
        return count

    def _lane(self, topic_partition: TopicPartition) -> _Lane:
        lane = self._lanes.get(topic_partition)
        if lane is None:
            lane = self._lanes[topic_partition] = _Lane(topic_partition)
        return lane

    def _seal(self, lane: _Lane) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if not lane.filling:
            return
        lane.sealed.append(_Batch(lane.filling, lane.filling_bytes, lane.next_sequence))
        lane.next_sequence = _after(lane.next_sequence, len(lane.filling))
        lane.filling, lane.filling_bytes = [], 0
        if lane.sender is None or lane.sender.done():
            lane.sender = asyncio.get_running_loop().create_task(self._send_sealed(lane))

    async def _send_sealed(self, lane: _Lane) -> None:
        while lane.sealed and self._failure is None:
            batch = lane.sealed.popleft()
            try:
                await self._deliver(lane, batch)
            except ClientError as error:
                log.debug("%s: %d records could not be sent: %s", lane.topic_partition, len(batch.records), error)
                self._failure = error
            except BaseException:
                self._failure = ClientError(f"the sender of {lane.topic_partition} was ended")
                raise
            finally:
                self._buffered_bytes -= batch.size_bytes
                self._room.set()

    async def _deliver(self, lane: _Lane, batch: _Batch) -> None:
        """Write one batch, or its halves where it is too large for the topic."""
        encoded = await self._encode(batch)
        try:
            base_offset = await self._cluster.patiently(lambda: self._attempt(lane.topic_partition, encoded))
        except KafkaError as error:
            if error.error not in _TOO_LARGE or len(batch.records) == 1:
                raise
            middle = len(batch.records) // 2
            log.debug("%s: %d records are too large for one batch", lane.topic_partition, len(batch.records))
            await self._deliver(lane, _Batch(batch.records[:middle], 0, batch.sequence))
            await self._deliver(lane, _Batch(batch.records[middle:], 0, _after(batch.sequence, middle)))
            return
        if self._on_delivery is not None:
            self._on_delivery(Delivery(lane.topic_partition, base_offset, batch.records))

    async def _encode(self, batch: _Batch) -> bytes:
        producer_id, epoch = await self._identify() if self._is_idempotent else (-1, -1)
        return build_batch(
            batch.records,
            codec=self._options.codec,
            level=self._options.level,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=batch.sequence if self._is_idempotent else NO_SEQUENCE,
        )

    async def _attempt(self, topic_partition: TopicPartition, encoded: bytes) -> int:
        """Send an encoded batch to the leader and return its base offset."""
        topic, partition = topic_partition
        request = ProduceRequest(
            transactional_id=None,
            acks=self._options.acks,
            timeout_ms=self._cluster.options.broker_timeout_ms,
            topics=[TopicProduceData(topic, [PartitionProduceData(partition, encoded)])],
        )
        try:
            leader = await self._cluster.leader(topic_partition)
            connection = await self._cluster.connection(leader.node_id)
            return await self._exchange(connection, request, topic_partition)
        except KafkaError as error:
            if error.error.means_stale_metadata:
                self._cluster.forget(topic)
            raise
        except ClientError:
            self._cluster.forget(topic)
            raise

    async def _exchange(self, connection: Connection, request: ProduceRequest, topic_partition: TopicPartition) -> int:
        least = _ZSTD_SINCE if self._options.codec is Codec.ZSTD else _FORMAT_2_SINCE
        if self._options.acks == ACKS_NONE:
            await connection.send_only(produce_api.API, request, least=least)
            return -1
        timeout_ms = self._cluster.options.request_timeout_ms
        response = await connection.request(produce_api.API, request, timeout_ms=timeout_ms, least=least)
        ((answer,),) = (topic.partitions for topic in response.responses)
        if error_code(answer.error_code) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt got through and so much was written since that its offset is forgotten.
            return -1
        message = answer.error_message
        if answer.record_errors:
            first = answer.record_errors[0]
            message = f"{message or 'refused'}: record {first.batch_index}: {first.batch_index_error_message}"
        raise_for(answer.error_code, message, context=str(topic_partition))
        return int(answer.base_offset)

    @property
    def _is_idempotent(self) -> bool:
        return self._options.idempotent and self._options.acks == ACKS_ALL

    async def _identify(self) -> tuple[int, int]:
        """The id and epoch of this producer, asked for once."""
        if self._identity is None:
            self._identity = asyncio.get_running_loop().create_task(self._cluster.patiently(self._ask_identity))
        return await asyncio.shield(self._identity)

    async def _ask_identity(self) -> tuple[int, int]:
        response = await self._cluster.ask_any(init_producer_id.API, InitProducerIdRequest(transactional_id=None))
        raise_for(response.error_code, context="no producer id")
        return response.producer_id, response.producer_epoch


def _after(sequence: int, count: int) -> int:
    return (sequence + count) & 0x7FFFFFFF
