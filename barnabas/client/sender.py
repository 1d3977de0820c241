"""The sending half of a producer: what its lanes have to send goes to the leaders, up to five requests to each.

The lanes decide (lane.py), this module acts: it finds leaders, gathers batches of many partitions into one request,
gives the answers back to the lanes, and gives up what was not written in time. It is woken by whoever changed
something; nothing in it waits but the requests, each a task of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from barnabas.client.cluster import Cluster
from barnabas.client.connection import Connection
from barnabas.client.errors import (
    ClientError,
    KafkaError,
    ProducerClosed,
    ProtocolViolation,
    RequestTimedOut,
    error_code,
    raise_for,
)
from barnabas.client.lane import Lane
from barnabas.client.outgoing import Delivery, EncodedRecords, Identity, OutgoingBatch, Stage
from barnabas.client.producer_options import ACKS_NONE, ProducerOptions
from barnabas.protocol.batch import Codec
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import init_producer_id
from barnabas.protocol.messages import produce as produce_api
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_LONGEST_SWEEP_S: Final = 1.0
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_FORMAT_2_SINCE: Final = 3
_ZSTD_SINCE: Final = 7

_CONNECTION: Final = "producer"

Taken = list[tuple[Lane, OutgoingBatch]]


class SenderTransaction(Protocol):
    """What the sender asks of the transaction that its records belong to."""

    @property
    def identity(self) -> Identity: ...

    @property
    def failure(self) -> ClientError | None: ...

    def may_write(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition belongs to the transaction; where not, it is added, and the sender is woken then."""

    def on_record_lost(self, error: ClientError) -> None:
        """A record of the transaction was given up."""


class Sender:
    """Owns the lanes of a producer. `on_closed` hears of each batch of a lane that takes no more records."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        *,
        transaction: SenderTransaction | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        on_closed: Callable[[TopicPartition], None] = lambda _: None,
    ) -> None:
        self.lanes: dict[TopicPartition, Lane] = {}
        self.buffered_bytes = 0
        self.failure: ClientError | None = None
        self.first_error: ClientError | None = None
        """Of what was given up since the last flush."""
        self._cluster = cluster
        self._options = options
        self._transaction = transaction
        self._on_delivery = on_delivery
        self._on_closed = on_closed
        self._identity: Identity | None = None
        self._is_identifying = False
        self._room = asyncio.Event()
        self._ready: dict[TopicPartition, Lane] = {}
        self._requests: dict[int, int] = {}
        self._learning: set[str] = set()
        self._tasks: dict[asyncio.Task[None], None] = {}  # a dict: they are cancelled in the order of their beginning
        self._is_woken = False
        self._sweep_timer: asyncio.TimerHandle | None = None

    # What the producer asks.

    def lane(self, topic_partition: TopicPartition) -> Lane:
        lane = self.lanes.get(topic_partition)
        if lane is None:
            options = self._options
            lane = Lane(topic_partition, is_sequenced=options.is_idempotent, window=options.max_in_flight)
            self.lanes[topic_partition] = lane
        return lane

    def begin(self, lane: Lane, timestamp: int) -> OutgoingBatch:
        """A batch for records from now on; it is due when it has lingered."""
        loop = asyncio.get_running_loop()
        batch = lane.begin(timestamp)
        lane.timer = loop.call_later(self._options.linger_ms / 1000, self._on_lingered, lane, batch)
        self._set_deadline(batch)
        return batch

    def take_encoded(self, lane: Lane, records: EncodedRecords) -> OutgoingBatch:
        """A batch for records that come encoded; it leaves after what the lane fills, which takes no more."""
        self.close_filling(lane)
        batch = lane.take_encoded(records)
        self._set_deadline(batch)
        self.buffered_bytes += batch.size_bytes
        self.wake(lane)
        return batch

    def _set_deadline(self, batch: OutgoingBatch) -> None:
        loop = asyncio.get_running_loop()
        batch.deadline_s = loop.time() + self._options.delivery_timeout_ms / 1000
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(self._sweep_s, self._sweep)

    def close_filling(self, lane: Lane) -> None:
        """The batch that a lane fills is full, or wanted now."""
        if lane.filling is not None:
            lane.close_filling()
            self._on_closed(lane.topic_partition)
            self.wake(lane)

    def hurry(self, topic_partition: TopicPartition) -> None:
        """What a lane fills leaves as soon as it can."""
        lane = self.lanes[topic_partition]
        lane.is_due = lane.filling is not None
        self.wake(lane)

    async def room(self) -> None:
        """Return when there is room for more records."""
        while self.buffered_bytes > self._options.max_buffered_bytes and self.failure is None:
            self._room.clear()
            await self._room.wait()

    async def flush(self) -> None:
        """Return when something became of every record taken so far."""
        batches: list[OutgoingBatch] = []
        for lane in self.lanes.values():
            self.close_filling(lane)
            batches += lane.undecided
        for batch in batches:
            await batch.done()

    async def landed(self) -> None:
        """Return when no batch is under way any more."""
        while any(lane.in_flight for lane in self.lanes.values()):
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    def give_up_waiting(self, error: ClientError) -> None:
        """Give up every batch that is not under way."""
        for lane in self.lanes.values():
            for batch in lane.undecided:
                if batch.stage is Stage.WAITING:
                    self._finish(lane, batch, error)

    def halt(self, error: ClientError) -> None:
        """Send nothing more; what is under way is told as it comes back."""
        if self.failure is None:
            self.failure = error
            self.give_up_waiting(error)
            self._room.set()

    async def close(self) -> None:
        """End at once. What is not written fails with ProducerClosed."""
        self.halt(ProducerClosed("the producer was closed"))
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start_epoch(self, identity: Identity) -> None:
        """Sequences of all partitions begin anew. Nothing may be under way."""
        for lane in self.lanes.values():
            lane.start_epoch(identity)

    def wake(self, lane: Lane | None = None) -> None:
        """Something changed: look what may be sent, soon."""
        if lane is not None:
            self._ready[lane.topic_partition] = lane
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def wake_all(self) -> None:
        self._ready.update(self.lanes)
        self.wake()

    # Sending.

    def _on_lingered(self, lane: Lane, batch: OutgoingBatch) -> None:
        if lane.filling is batch:
            lane.is_due = True
            self.wake(lane)

    def _dispatch(self) -> None:
        self._is_woken = False
        if self._transaction is not None and (failed := self._transaction.failure) is not None:
            # What was under way when all that waited was given up has come back: nobody waits for that either.
            self.give_up_waiting(failed)
            return
        while self.failure is None and (requests := self._gather()):
            for node_id, taken in requests.items():
                self._requests[node_id] = self._requests.get(node_id, 0) + 1
                self._spawn(self._exchange(node_id, taken))

    def _gather(self) -> dict[int, Taken]:
        """For each broker that may be asked, at most one batch of each lane that it leads, within a request's size."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        requests: dict[int, Taken] = {}
        sizes: dict[int, int] = {}
        for lane in list(self._ready.values()):
            if lane.retry_at_s > now:
                del self._ready[lane.topic_partition]
                loop.call_at(lane.retry_at_s, self.wake, lane)
                continue
            batch = self._next_of(lane)
            node_id = None if batch is None or not self._may_send(lane) else self._leader_of(lane)
            if batch is None or node_id is None:
                # Whatever holds it up wakes it.
                del self._ready[lane.topic_partition]
                continue
            size = sizes.get(node_id, 0) + batch.size_bytes
            is_full = node_id in requests and size > self._options.max_request_bytes
            if is_full or self._requests.get(node_id, 0) >= self._options.max_in_flight:
                continue
            lane.on_sent(batch)
            requests.setdefault(node_id, []).append((lane, batch))
            sizes[node_id] = size
        return requests

    def _next_of(self, lane: Lane) -> OutgoingBatch | None:
        if lane.is_broken and self._transaction is not None:
            # The epoch is the transaction's: the next one begins when this one has ended.
            return None
        filling = lane.filling
        batch = lane.next_batch()
        if filling is not None and lane.filling is None:
            self._on_closed(lane.topic_partition)
        return batch

    def _may_send(self, lane: Lane) -> bool:
        """Whether the lane has its producer id and its place in the transaction; else they are asked for."""
        if not self._options.is_idempotent:
            return True
        if self._transaction is not None:
            if lane.identity is None:
                lane.start_epoch(self._transaction.identity)
            return self._transaction.may_write(lane.topic_partition)
        if lane.is_exhausted:
            lane.is_exhausted = False
            self._identity = None
        if lane.identity is None:
            if self._identity is None:
                if not self._is_identifying:
                    self._is_identifying = True
                    self._spawn(self._identify())
                return False
            lane.start_epoch(self._identity)
        return True

    def _leader_of(self, lane: Lane) -> int | None:
        """The broker to send to; None while it is not known, and then it is asked for."""
        node_id = self._cluster.known_leader(lane.topic_partition)
        topic = lane.topic_partition.topic
        if node_id is None and topic not in self._learning:
            self._learning.add(topic)
            self._spawn(self._learn(topic))
        return node_id

    async def _learn(self, topic: str) -> None:
        """Ask for the leaders of a topic, and wake its lanes."""
        lanes = [lane for at, lane in self.lanes.items() if at.topic == topic]
        try:
            # What is known of it did not name a leader.
            self._cluster.forget(topic)
            await self._cluster.topic(topic, auto_create=self._options.auto_create_topics)
        except ClientError as error:
            for lane in lanes:
                lane.last_error = error
        finally:
            self._learning.discard(topic)
        for lane in [lane for at, lane in self.lanes.items() if at.topic == topic]:
            if self._cluster.known_leader(lane.topic_partition) is None:
                lane.last_error = lane.last_error or KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, context=str(lane.topic_partition)
                )
                self._pause(lane)
            self.wake(lane)

    async def _identify(self) -> None:
        """Get a producer id and wake who waits for it."""

        async def ask() -> Identity:
            response = await self._cluster.ask_any(init_producer_id.API, InitProducerIdRequest(transactional_id=None))
            raise_for(response.error_code, context="no producer id")
            return Identity(response.producer_id, response.producer_epoch)

        try:
            self._identity = await self._cluster.patiently(ask)
        except ClientError as error:
            self.first_error = self.first_error or error
            self.halt(error)
        finally:
            self._is_identifying = False
        self.wake_all()

    async def _exchange(self, node_id: int, taken: Taken) -> None:
        """Send one request and tell the lanes what became of it."""
        was_sent = False
        failure: ClientError = ProducerClosed("the producer was closed while the record was under way")
        answers: dict[TopicPartition, PartitionProduceResponse] | None = None
        try:
            # An answer waits for replicas; what else is asked of the broker shall not wait behind it.
            connection = await self._cluster.connection(node_id, lane=_CONNECTION)
            request = self._request(taken)
            was_sent = True
            has_zstd = any((batch.codec or self._options.codec) is Codec.ZSTD for _, batch in taken)
            answers = await self._ask(connection, request, least=_ZSTD_SINCE if has_zstd else _FORMAT_2_SINCE)
        except ClientError as error:
            failure = error
        finally:
            self._requests[node_id] -= 1
            for lane, batch in taken:
                if answers is None:
                    self._on_failure(lane, batch, failure, was_sent=was_sent)
                else:
                    self._on_answer(lane, batch, answers.get(lane.topic_partition))
                self.wake(lane)

    def _request(self, taken: Taken) -> ProduceRequest:
        options = self._options
        topics: dict[str, TopicProduceData] = {}
        for lane, batch in taken:
            name, partition = lane.topic_partition
            records = batch.encode(
                options.codec, options.level, lane.identity, transactional=options.transactional_id is not None
            )
            topics.setdefault(name, TopicProduceData(name)).partitions.append(PartitionProduceData(partition, records))
        return ProduceRequest(
            transactional_id=options.transactional_id,
            acks=options.acks,
            timeout_ms=self._cluster.options.broker_timeout_ms,
            topics=list(topics.values()),
        )

    async def _ask(
        self, connection: Connection, request: ProduceRequest, *, least: int
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        timeout_ms = self._cluster.options.request_timeout_ms
        if self._options.acks == ACKS_NONE:
            await connection.send_only(produce_api.API, request, timeout_ms=timeout_ms, least=least)
            return {
                TopicPartition(topic.name, each.partition_index): PartitionProduceResponse(
                    each.partition_index, base_offset=-1
                )
                for topic in request.topics
                for each in topic.partitions
            }
        response = await connection.request(produce_api.API, request, timeout_ms=timeout_ms, least=least)
        return {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.responses
            for each in topic.partitions
        }

    # What became of it.

    def _on_answer(self, lane: Lane, batch: OutgoingBatch, answer: PartitionProduceResponse | None) -> None:
        if answer is None:
            error = ProtocolViolation(f"the broker said nothing of {lane.topic_partition}")
            self._on_failure(lane, batch, error, was_sent=True)
            return
        code = error_code(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            # A duplicate: an earlier attempt got through, and so much was written since that its offset is forgotten.
            offset = answer.base_offset if code is ErrorCode.NONE else -1
            batch.finish(base_offset=offset, timestamp=answer.log_append_time_ms)
            lane.on_acknowledged(batch)
            self._tell(batch)
        elif code in _TOO_LARGE and batch.count > 1:
            log.debug("%s: %d records are too large for one batch", lane.topic_partition, batch.count)
            halves = batch.divide(self._options.codec)
            self.buffered_bytes += halves[0].size_bytes + halves[1].size_bytes - batch.size_bytes
            lane.on_divided(batch, halves)
        else:
            refusal = _refusal(lane.topic_partition, answer)
            if code.means_stale_metadata:
                self._cluster.forget(lane.topic_partition.topic)
            if lane.on_refused(batch, code):
                self._retry(lane, batch, refusal)
            else:
                self._give_up(lane, batch, refusal)

    def _on_failure(self, lane: Lane, batch: OutgoingBatch, error: ClientError, *, was_sent: bool) -> None:
        self._cluster.forget(lane.topic_partition.topic)
        lane.on_lost(batch, was_sent=was_sent)
        if error.retriable:
            self._retry(lane, batch, error)
        else:
            self._give_up(lane, batch, error)

    def _retry(self, lane: Lane, batch: OutgoingBatch, error: ClientError) -> None:
        log.debug("%s: trying again: %s", lane.topic_partition, error)
        if self.failure is not None:
            self._finish(lane, batch, self.failure)
            return
        lane.last_error = error
        self._pause(lane)

    def _pause(self, lane: Lane) -> None:
        lane.pause_s = min(max(lane.pause_s * 2, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        now = asyncio.get_running_loop().time()
        lane.retry_at_s = now + lane.pause_s * self._cluster.random.uniform(0.8, 1.2)

    def _give_up(self, lane: Lane, batch: OutgoingBatch, error: ClientError) -> None:
        self._finish(lane, batch, error)
        self.first_error = self.first_error or error
        if self._transaction is not None:
            self._transaction.on_record_lost(error)
        elif self._options.halt_on_error:
            self.halt(error)

    def _finish(self, lane: Lane, batch: OutgoingBatch, error: ClientError) -> None:
        log.debug("%s: %d records were not written: %s", lane.topic_partition, batch.count, error)
        batch.finish(error=error)
        lane.on_given_up(batch)
        self._tell(batch)

    def _tell(self, batch: OutgoingBatch) -> None:
        self.buffered_bytes -= batch.size_bytes
        self._room.set()
        if self._on_delivery is not None:
            self._on_delivery(Delivery(batch.topic_partition, batch.base_offset, batch.count, batch.error))

    @property
    def _sweep_s(self) -> float:
        return min(_LONGEST_SWEEP_S, self._options.delivery_timeout_ms / 4000)

    def _sweep(self) -> None:
        """Give up what has waited for too long."""
        self._sweep_timer = None
        loop = asyncio.get_running_loop()
        is_idle = True
        for lane in self.lanes.values():
            for batch in lane.undecided:
                is_idle = False
                if batch.stage is Stage.WAITING and batch.deadline_s <= loop.time():
                    told = f"{lane.topic_partition}: not written in {self._options.delivery_timeout_ms} ms"
                    reason = f"{told}: {lane.last_error}" if lane.last_error else told
                    self._give_up(lane, batch, RequestTimedOut(reason))
                    self.wake(lane)
        if not is_idle and self.failure is None:
            self._sweep_timer = loop.call_later(self._sweep_s, self._sweep)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            # A mistake of ours, or of a callback: what is known of the lanes is not to be trusted any more.
            log.error("a producer's task failed", exc_info=error)
            self.halt(ClientError(f"the producer failed: {error!r}"))


def _refusal(topic_partition: TopicPartition, answer: PartitionProduceResponse) -> KafkaError:
    message = answer.error_message
    if answer.record_errors:
        first = answer.record_errors[0]
        message = f"{message or 'refused'}: record {first.batch_index}: {first.batch_index_error_message}"
    try:
        raise_for(answer.error_code, message, context=str(topic_partition))
    except KafkaError as error:
        return error
    raise AssertionError("an error code is there")
