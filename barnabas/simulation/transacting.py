"""One transactional producer of a simulated client, the shipped one, and what the history is told of its transactions.

A producer that is fenced, or that its coordinator refuses for good, is replaced by the next one, as an application is
that starts again: with a new name in the history, and the same transactional id.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import ClientError, KafkaError, ProducerFenced, RequestTimedOut, TransactionFailed
from barnabas.client.outgoing import RecordMetadata
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.clock import SimulatedClock, WallClock
from barnabas.simulation.history import Outcome, Produce, Transaction
from barnabas.simulation.history_values import Written, value_of
from barnabas.simulation.load import ClientProcess

_LOST: Final = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID})
"""What a coordinator answers to a commit that it may have carried out once, and forgotten since."""


class Writing:
    """Records of one shipped producer of a client, each known to the history."""

    def __init__(self, process: ClientProcess, options: ProducerOptions) -> None:
        self._process = process
        self._options = options
        self._numbers: dict[TopicPartition, int] = {}
        self._made = 0
        self._producer: Producer[bytes, bytes] | None = None

    @property
    def client(self) -> str:
        """The name of the present producer in the history."""
        return f"{self._process.name}.{self._made}"

    async def ready(self) -> Producer[bytes, bytes]:
        """The present producer, or a new one where there is none. Raises ClientError."""
        if self._producer is None:
            process = self._process
            clock = SimulatedClock(process.stage.loop, process.life, started_ms=0, wall=WallClock())
            producer = Producer(process.cluster, options=self._options, clock=clock)
            self._made += 1
            self._numbers.clear()
            if self._options.transactional_id is not None:
                await producer.init_transactions()
            self._producer = producer
        return self._producer

    async def write(
        self,
        at: TopicPartition,
        *,
        transaction: str | None = None,
        source: tuple[TopicPartition, int] | None = None,
    ) -> None:
        """Give one record to the producer. Raises ClientError."""
        producer, process = await self.ready(), self._process
        stage = process.stage
        number = self._numbers.get(at, 0)
        self._numbers[at] = number + 1
        value = value_of(Written(at, process.name, self._made, number), size_bytes=stage.settings.value_bytes)
        operation = stage.history.produce(self.client, at, value, process.now(), transaction=transaction)
        operation.source = source
        stage.count.requests += 1

        def told(where: RecordMetadata | None, error: ClientError | None) -> None:
            self._close(operation, where, error)

        try:
            await producer.send(at.topic, None, value, partition=at.partition, callback=told)
        except ClientError as error:
            if operation.completed_at is None:
                operation.unknown(str(error), process.now())
            raise

    def _close(self, operation: Produce, where: RecordMetadata | None, error: ClientError | None) -> None:
        now = self._process.now()
        if operation.completed_at is not None:
            return
        if where is None:
            operation.unknown(str(error), now)
        else:
            operation.ok(where.offset if where.offset >= 0 else None, now)
            self._process.stage.count.acknowledged += 1

    async def drop(self) -> None:
        """The next record is another producer's."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(ClientError):
                await producer.close()


class Transacting(Writing):
    """Transactions, one at a time: `begin`, `write_in`, perhaps `send_offsets`, then `commit` or `abort`."""

    def __init__(self, process: ClientProcess, transactional_id: str, *, timeout_ms: int) -> None:
        options = ProducerOptions(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            auto_create_topics=False,
            delivery_timeout_ms=int(process.stage.settings.give_up_s * 1000),
        )
        super().__init__(process, options)
        self.transactional_id = transactional_id
        self.is_fenced = False
        """Another producer took the transactional id, or the coordinator gave this one up."""

        self._timeout_ms = timeout_ms
        self._begun = 0
        self._transaction: Transaction | None = None

    async def begin(self) -> None:
        """Begin a transaction. Raises ClientError."""
        producer = await self.ready()
        producer.begin_transaction()
        self._begun += 1
        self._transaction = self._process.stage.history.begin_transaction(
            f"{self.client}/{self._begun}",
            self._process.now(),
            transactional_id=self.transactional_id,
            client=self.client,
            timeout_ms=self._timeout_ms,
        )

    async def write_in(self, at: TopicPartition, *, source: tuple[TopicPartition, int] | None = None) -> None:
        """Write a record in the open transaction. Raises ClientError."""
        assert self._transaction is not None
        await self.write(at, transaction=self._transaction.name, source=source)

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Commit offsets of a group in the open transaction. Raises ClientError."""
        assert self._transaction is not None
        process, producer = self._process, await self.ready()
        operation = process.stage.history.groups.commit(
            process.name,
            group.group_id,
            {at: each.offset for at, each in offsets.items()},
            process.now(),
            generation=group.generation_id,
            member=group.member_id,
            transaction=self._transaction.name,
        )
        try:
            await producer.send_offsets_to_transaction(offsets, group)
        except ClientError as error:
            operation.end(Outcome.UNKNOWN, process.now(), str(error))
            raise
        operation.end(Outcome.OK, process.now())

    async def commit(self) -> None:
        """Commit, and know it. Raises ClientError; then the transaction is aborted or nobody knows: call `abort`."""
        transaction, process = self._transaction, self._process
        assert transaction is not None
        producer = await self.ready()
        transaction.commit_asked_at = process.now()
        while True:
            try:
                await producer.commit_transaction()
            except RequestTimedOut:
                continue
            except TransactionFailed as error:
                is_known = not (isinstance(error.cause, KafkaError) and error.cause.error in _LOST)
                if is_known:
                    # Something was not written: nobody was asked to commit.
                    transaction.commit_asked_at = None
                raise
            break
        self._end(Outcome.OK)
        process.stage.count.transactions += 1

    async def abort(self, error: str = "") -> None:
        """End the transaction otherwise, and go on with this producer or the next one."""
        transaction = self._transaction
        if transaction is None:
            return
        is_over = False
        while not is_over:
            try:
                producer = await self.ready()
                await producer.abort_transaction()
            except RequestTimedOut:
                continue
            except ClientError as failure:
                self.is_fenced = isinstance(failure, ProducerFenced)
                self._end(Outcome.UNKNOWN, f"{error}; {failure}")
                await self.drop()
                return
            is_over = True
        self._end(Outcome.FAIL if transaction.commit_asked_at is None else Outcome.UNKNOWN, error)

    def _end(self, outcome: Outcome, error: str = "") -> None:
        assert self._transaction is not None
        self._transaction.end(outcome, self._process.now(), error)
        self._transaction = None


async def pause(process: ClientProcess, mean_s: float) -> None:
    """Wait as long as chance wants it."""
    await asyncio.sleep(process.chance.expovariate(1 / mean_s))
