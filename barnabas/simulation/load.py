"""Clients of a simulated cluster: producers and readers, each a process on a host of its own.

They stand on the shipped client's connections and metadata and send one request at a time and partition, so that the
history knows of every attempt how it ended. A producer that no longer knows its place begins a new incarnation, with a
new producer id and a new name in the history, as an application does that was restarted.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.connection import Address
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import ClientError, KafkaError, RequestTimedOut, error_code, raise_for
from barnabas.client.network_channel import connector_over
from barnabas.protocol.batch import NO_SEQUENCE, CorruptBatch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import fetch as fetch_api
from barnabas.protocol.messages import init_producer_id
from barnabas.protocol.messages import produce as produce_api
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.records import Record, build_batch
from barnabas.runtime.network import PeerOptions
from barnabas.simulation.fetched import VALUE_HEADER, decode_fetched
from barnabas.simulation.history import ACKS_ALL, History, Outcome, Produce, outcome_of_produce
from barnabas.simulation.history_values import Written, value_of
from barnabas.simulation.loop import Life, SimulationLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.wires import Wires

_PEER: Final = PeerOptions(max_frame_bytes=1 << 26, user_timeout_ms=30_000)
_TOMBSTONES: Final = 0.15
_TRANSACTIONS_SINCE: Final = 3
"""The version of Produce; it is that of batches too."""
_LATE_WATERMARK_S: Final = 10.0
_NAMES_EPOCH: Final = 9
"""The version of Fetch from which on it says which leader epoch the client knows."""
_LOST_PLACE: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


@dataclass(slots=True)
class LoadSettings:
    """How much clients do; a seed draws it."""

    think_s: float = 1.0
    max_records: int = 4
    value_bytes: int = 40
    request_timeout_ms: int = 4_000
    give_up_s: float = 25.0
    poll_wait_ms: int = 500
    keys: int = 6


@dataclass(slots=True)
class LoadCount:
    """What clients did."""

    requests: int = 0
    acknowledged: int = 0
    polls: int = 0
    polls_of_followers: int = 0
    records_read: int = 0
    transactions: int = 0
    commits: int = 0
    assignments: int = 0


@dataclass(slots=True)
class Stage:
    """What all clients of a world share."""

    loop: SimulationLoop
    wires: Wires
    bootstrap: list[Address]
    seed: str
    history: History
    settings: LoadSettings
    count: LoadCount = field(default_factory=LoadCount)
    waiting: dict[tuple[str, TopicPartition], float] = field(default_factory=dict)
    """Producers that wait for the answer to a batch with acks=all, and since when."""

    is_over: bool = False
    readers_may_end: bool = False
    """Who reads what others wrote has nothing to wait for any more."""

    on_violation: Callable[[str], None] = lambda _: None
    on_out_of_range: Callable[[TopicPartition, int, int], None] = lambda *_: None
    """A broker told a reader that it has not, or no more, what the reader was told before that it may read next."""

    on_late: Callable[[str, TopicPartition, float], None] = lambda *_: None
    """A producer's batch with acks=all, sent at that time, was not answered, or told that its time was over."""

    may_be_damaged: Callable[[TopicPartition], bool] = lambda _: False
    """Whether a reader may be given what has a wrong checksum."""

    def now(self) -> int:
        """The time of histories, in microseconds."""
        return int(self.loop.now_s * 1_000_000)


class ClientProcess:
    """A client's process and its way to the cluster."""

    is_leaving = False
    """It was asked to end in order."""

    is_superseded = False
    """Another process was started in its place, though it may run still."""

    def __init__(self, stage: Stage, name: str, *, host: str = "") -> None:
        """Its host has its name, or the one that outlives it."""
        self.stage = stage
        self.name = name
        self.life: Life = stage.loop.life(name)
        self.chance = random.Random(f"{stage.seed}/{name}")
        network = SimulatedNetwork(stage.wires, self.life, host or name)
        self.cluster = Cluster(
            stage.bootstrap,
            random=self.chance,
            connector=connector_over(network, _PEER),
            options=ClusterOptions(
                client_id=name,
                connect_timeout_ms=2_000,
                request_timeout_ms=stage.settings.request_timeout_ms,
                timeout_ms=10_000,
            ),
        )

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run in this process."""
        context = self.life.context.copy()
        task = self.stage.loop.create_task(work, name=self.name, context=context)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ClientError | TimeoutError):
            self.stage.on_violation(f"{self.name} failed: {error!r}")

    def now(self) -> int:
        return self.stage.now()

    @property
    def is_over(self) -> bool:
        """Whether it shall begin nothing any more."""
        return self.is_leaving or self.stage.is_over


class ProducerProcess(ClientProcess):
    """Sends batches, one at a time to each partition; `acks` as in the protocol, idempotent with acks=all."""

    tombstones = _TOMBSTONES
    """How often a record of a compacted partition is one."""

    versions: tuple[int, int | None] = (_TRANSACTIONS_SINCE, None)
    """Of Produce, the oldest and the newest that it knows."""

    def __init__(self, stage: Stage, name: str, partitions: list[TopicPartition], *, acks: int) -> None:
        super().__init__(stage, name)
        self._partitions = partitions
        self._acks = acks
        self._generation = 0
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] = {}
        self._busy: dict[TopicPartition, None] = {}

    async def run(self) -> None:
        """Produce until the load is over."""
        stage = self.stage
        while not stage.is_over:
            await asyncio.sleep(self.chance.expovariate(1 / stage.settings.think_s))
            free = [each for each in self._partitions if each not in self._busy]
            if not free or stage.is_over:
                continue
            topic_partition = self.chance.choice(free)
            self._busy[topic_partition] = None
            self.start(self.produce(topic_partition))

    @property
    def _is_idempotent(self) -> bool:
        return self._acks == ACKS_ALL

    async def produce(self, topic_partition: TopicPartition) -> bool:
        """Send one batch until it is acknowledged or given up; whether it was acknowledged. One at a time."""
        self._busy[topic_partition] = None
        generation = self._generation
        try:
            identity = await self._identify() if self._is_idempotent else (-1, -1)
            if identity is None or generation != self._generation:
                return False
            operations = self._new_operations(topic_partition)
            sequence = self._sequences.get(topic_partition, 0) if self._is_idempotent else NO_SEQUENCE
            batch = self._encode(operations, identity, sequence)
            if self._is_idempotent:
                self.stage.waiting[self.name, topic_partition] = self.stage.loop.now_s
            is_delivered = await self._deliver(topic_partition, batch, operations)
            if not self._is_idempotent or generation != self._generation:
                return is_delivered
            if is_delivered:
                self._sequences[topic_partition] = self._sequences.get(topic_partition, 0) + len(operations)
            else:
                # What follows a record in doubt must not stand before it: begin anew.
                self._generation += 1
                self._identity = None
                self._sequences.clear()
            return is_delivered
        finally:
            del self._busy[topic_partition]
            self.stage.waiting.pop((self.name, topic_partition), None)

    def _encode(self, operations: list[Produce], identity: tuple[int, int], sequence: int) -> bytes:
        """The records of these operations, as they are sent."""
        now_ms = 1_600_000_000_000 + int(self.stage.loop.now_s * 1000)
        return build_batch(
            [_record(each, now_ms) for each in operations],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
        )

    def _new_operations(self, topic_partition: TopicPartition) -> list[Produce]:
        stage, settings = self.stage, self.stage.settings
        made: list[Produce] = []
        for _ in range(self.chance.randint(1, settings.max_records)):
            number = self._sent.get(topic_partition, 0)
            self._sent[topic_partition] = number + 1
            value = value_of(
                Written(topic_partition, self.name, self._generation, number), size_bytes=settings.value_bytes
            )
            client = f"{self.name}.{self._generation}"
            operation = stage.history.produce(
                client, topic_partition, value, self.now(), acks=self._acks, idempotent=self._is_idempotent
            )
            if topic_partition in stage.history.compacted:
                operation.key = b"key-%d" % self.chance.randrange(settings.keys)
                operation.is_tombstone = self.chance.random() < self.tombstones
            made.append(operation)
        return made

    async def _deliver(self, topic_partition: TopicPartition, batch: bytes, operations: list[Produce]) -> bool:
        """Send until it is acknowledged or given up, and close the operations; whether it was acknowledged."""
        stage = self.stage
        deadline_s = stage.loop.now_s + stage.settings.give_up_s
        in_doubt, pause_s = False, 0.1
        while True:
            stage.count.requests += 1
            sent_s = stage.loop.now_s
            try:
                offset = await self._attempt(topic_partition, batch)
            except ClientError as error:
                kafka = error.error if isinstance(error, KafkaError) else None
                if self._is_idempotent and (isinstance(error, RequestTimedOut) or kafka is ErrorCode.REQUEST_TIMED_OUT):
                    stage.on_late(self.name, topic_partition, sent_s)
                ended = (
                    Outcome.UNKNOWN if kafka is None else outcome_of_produce(kafka, earlier_attempt_unknown=in_doubt)
                )
                in_doubt |= ended is Outcome.UNKNOWN
                self.cluster.forget(topic_partition.topic)
                gives_up = stage.loop.now_s > deadline_s or kafka in _LOST_PLACE or not error.retriable
                if gives_up or (not self._is_idempotent and in_doubt):
                    for each in operations:
                        each.fail(str(error), self.now()) if not in_doubt else each.unknown(str(error), self.now())
                    return False
                await asyncio.sleep(pause_s * self.chance.uniform(0.5, 1.5))
                pause_s = min(pause_s * 2, 1.0)
            else:
                now = self.now()
                for number, each in enumerate(operations):
                    each.ok(None if offset is None else offset + number, now)
                stage.count.acknowledged += len(operations)
                return True

    async def _attempt(self, topic_partition: TopicPartition, batch: bytes) -> int | None:
        cluster, settings = self.cluster, self.stage.settings
        leader = await cluster.leader(topic_partition)
        connection = await cluster.connection(leader.node_id)
        least, most = self.versions
        request = ProduceRequest(
            transactional_id=None if least >= _TRANSACTIONS_SINCE else "",
            acks=self._acks,
            timeout_ms=settings.request_timeout_ms * 3 // 4,
            topics=[TopicProduceData(topic_partition.topic, [PartitionProduceData(topic_partition.partition, batch)])],
        )
        if self._acks == 0:
            await connection.send_only(produce_api.API, request, least=least, most=most)
            return None
        response = await connection.request(
            produce_api.API, request, timeout_ms=settings.request_timeout_ms, least=least, most=most
        )
        ((answer,),) = (topic.partitions for topic in response.responses)
        if error_code(answer.error_code) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return None
        raise_for(answer.error_code, answer.error_message, context=str(topic_partition))
        return int(answer.base_offset)

    async def _identify(self) -> tuple[int, int] | None:
        if self._identity is None:
            try:
                response = await self.cluster.patiently(
                    lambda: self.cluster.ask_any(init_producer_id.API, InitProducerIdRequest(transactional_id=None))
                )
            except ClientError:
                return None
            if response.error_code != ErrorCode.NONE:
                return None
            if self._identity is None:
                self._identity = (response.producer_id, response.producer_epoch)
        return self._identity


class ReaderProcess(ClientProcess):
    """Reads partitions by assignment, each from its start on; with a rack from the replica that is nearest."""

    newest_fetch: int | None = None
    """The newest version of Fetch that it knows, if not all."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        partitions: list[TopicPartition],
        *,
        rack: str = "",
        read_committed: bool = False,
    ) -> None:
        super().__init__(stage, name)
        self._rack = rack
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        self._nearer: dict[TopicPartition, tuple[int, float]] = {}
        self._partitions = partitions
        self._positions = dict.fromkeys(partitions, 0)
        self._epochs: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read until the load is over, one partition after the other."""
        while not self.stage.is_over:
            topic_partition = self.chance.choice(self._partitions)
            try:
                await self.poll(topic_partition, wait_ms=self.stage.settings.poll_wait_ms)
            except ClientError:
                self.cluster.forget(topic_partition.topic)
                await asyncio.sleep(self.chance.uniform(0.3, 1.0))
            await asyncio.sleep(self.chance.uniform(0, self.stage.settings.think_s / 2))

    def position_of(self, at: TopicPartition) -> int:
        """Where it reads next."""
        return self._positions[at]

    async def read_all(self) -> None:
        """Read every partition from its start to its high watermark: the final reads. Raises ClientError.

        That is waited for where it lies below what is known to be committed: a leader that was just elected hears of it
        from its followers.
        """
        for topic_partition in self._partitions:
            await self._read_whole(topic_partition, self.stage.history.committed_end(topic_partition))

    async def _read_whole(self, topic_partition: TopicPartition, end: int) -> None:
        self._positions[topic_partition] = self.stage.history.start_offsets.get(topic_partition, 0)
        give_up_s = self.stage.loop.now_s + _LATE_WATERMARK_S
        while True:
            before = self._positions[topic_partition]
            high_watermark = await self.cluster.patiently(
                lambda: self.poll(topic_partition, wait_ms=0, final=True), timeout_ms=20_000
            )
            position = self._positions[topic_partition]
            if before < position < high_watermark:
                continue
            if position >= end or self.stage.loop.now_s > give_up_s:
                return
            await asyncio.sleep(0.1)

    async def poll(self, topic_partition: TopicPartition, *, wait_ms: int, final: bool = False) -> int:
        """Fetch once from where the last one ended; the high watermark that was told. Raises ClientError."""
        stage, position = self.stage, self._positions[topic_partition]
        operation = stage.history.poll(
            self.name,
            topic_partition,
            self.now(),
            position=position,
            read_committed=self._isolation is IsolationLevel.READ_COMMITTED,
            final=final,
        )
        stage.count.polls += 1
        nearer = None if final else self._nearer.get(topic_partition)
        try:
            leader = await self.cluster.leader(topic_partition)
            known = (await self.cluster.topic(topic_partition.topic)).partitions[topic_partition.partition]
            if known.leader_epoch < self._epochs.get(topic_partition, -1):
                # A broker that is behind has told of an earlier leader; who heard of a later one waits (KIP-320).
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, context=str(topic_partition))
            asked = FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=known.leader_epoch,
                fetch_offset=position,
                partition_max_bytes=1 << 20,
            )
            node = leader.node_id if nearer is None else nearer[0]
            answer = await self._fetch(topic_partition, asked, node, wait_ms=wait_ms, rack="" if final else self._rack)
            records, next_position = self._decode(answer, topic_partition, position, final=final)
        except ClientError as error:
            operation.fail(str(error), self.now())
            self._nearer.pop(topic_partition, None)
            self.cluster.forget(topic_partition.topic)
            if isinstance(error, KafkaError) and error.error is ErrorCode.OFFSET_OUT_OF_RANGE and nearer is None:
                stage.on_out_of_range(topic_partition, position, leader.node_id)
            raise
        self._epochs[topic_partition] = known.leader_epoch
        self._choose_replica(topic_partition, answer.preferred_read_replica, nearer)
        # What a follower knows of the high watermark is late; an old Fetch names no epoch, so any leader answers it.
        names_epoch = self.newest_fetch is None or self.newest_fetch >= _NAMES_EPOCH
        epoch = known.leader_epoch if nearer is None and names_epoch else None
        operation.ok(records, self.now(), high_watermark=answer.high_watermark, leader_epoch=epoch)
        stage.count.records_read += len(records)
        stage.count.polls_of_followers += nearer is not None
        self._positions[topic_partition] = next_position
        return int(answer.high_watermark)

    async def _fetch(self, at: TopicPartition, asked: FetchPartition, node: int, *, wait_ms: int, rack: str) -> Any:
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=self._isolation,
            topics=[FetchTopic(at.topic, [asked])],
            rack_id=rack,
        )
        connection = await self.cluster.connection(node)
        timeout_ms, most = self.stage.settings.request_timeout_ms, self.newest_fetch
        least = 0 if most is not None else 11 if rack else _NAMES_EPOCH
        response = await connection.request(fetch_api.API, request, timeout_ms=timeout_ms, least=least, most=most)
        raise_for(response.error_code, context="fetch")
        ((answer,),) = (topic.partition_responses for topic in response.responses)
        raise_for(answer.error_code, context=str(at))
        return answer

    def _decode(
        self, answer: Any, at: TopicPartition, position: int, *, final: bool
    ) -> tuple[list[tuple[int, bytes]], int]:
        """What was read, and where to go on. Raises KafkaError where it is damaged and may be."""
        aborted = [] if self._isolation is IsolationLevel.READ_UNCOMMITTED else answer.aborted_transactions or []
        try:
            return decode_fetched(
                answer.record_set, position, [(each.producer_id, each.first_offset) for each in aborted]
            )
        except CorruptBatch as error:
            if final or not self.stage.may_be_damaged(at):
                raise
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error), context=str(at)) from None

    def _choose_replica(self, at: TopicPartition, preferred: int, nearer: tuple[int, float] | None) -> None:
        """Go where the leader says, for some time; then ask it again."""
        now_s = self.stage.loop.now_s
        if preferred >= 0:
            self._nearer[at] = preferred, now_s + self.chance.uniform(2, 15)
        elif nearer is not None and nearer[1] < now_s:
            del self._nearer[at]


def _record(operation: Produce, now_ms: int) -> Record:
    if operation.is_tombstone:
        return Record(0, now_ms, operation.key, None, ((VALUE_HEADER, operation.value),))
    return Record(0, now_ms, operation.key, operation.value, ())
