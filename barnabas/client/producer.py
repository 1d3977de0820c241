"""The producer: records into topics, gathered into batches, in order, once, or as transactions.

    async with open_cluster("localhost:9092") as cluster, Producer(cluster) as producer:
        sent = await producer.send("words", b"key", b"value")      # it is taken, and leaves with its batch
        where = await sent                                         # it is written
        where = await producer.send_and_wait("words", b"key", b"value")

With acks=all, the default, a producer is idempotent (KIP-98): every record is written once, and in the order of its
partition, also where attempts are repeated, leaders fail and answers are lost, with five requests under way. What could
not be written is told by the record's `Sent`, by its callback, and by the next `flush`. A record that is given up
leaves those behind it in order; `ProducerOptions.halt_on_error` writes nothing behind it.

Transactions:

    options = ProducerOptions(transactional_id="transfers")
    async with Producer(cluster, options=options) as producer:     # takes the id over: older producers are fenced
        async with producer.transaction():                         # commits; an exception aborts
            await producer.send("accounts", b"a", b"-5")
            await producer.send("accounts", b"b", b"+5")
            await producer.send_offsets_to_transaction(offsets, GroupMetadata("group"))

`TransactionFailed` says that the transaction can only be aborted, `ProducerFenced` that another producer has the
transactional id: this one is at its end. What one partition's batch is for is in outgoing.py, what a refused or unknown
answer means in lane.py, sending in sender.py, the transaction's states in transactions.py.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Generic, Self, TypeVar, cast, overload

from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import ClientError, ProducerClosed, TransactionAborted, WrongTransactionState
from barnabas.client.outgoing import Callback, Delivery, EncodedRecords, RecordMetadata, Sent
from barnabas.client.partitioner import DefaultPartitioner, Partitioner
from barnabas.client.prepared_transactions import PreparedTransaction
from barnabas.client.producer_options import ProducerOptions
from barnabas.client.sender import Sender
from barnabas.client.transactions import Transactions, TransactionState
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Headers, encode_fields
from barnabas.runtime.clock import Clock, SystemClock

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

Encoder = Callable[[str, V], bytes | None]
"""(topic, value) -> bytes. Not called for None, which stays null."""

_NO_HEADERS: Final[Headers] = ()


class Producer(Generic[K, V]):
    """See the module. Use it as an asynchronous context manager: leaving it flushes; by an exception it does not."""

    @overload
    def __init__(
        self: "Producer[bytes, bytes]",
        cluster: Cluster,
        *,
        options: ProducerOptions | None = ...,
        partitioner: Partitioner | None = ...,
        on_delivery: Callable[[Delivery], None] | None = ...,
        clock: Clock | None = ...,
    ) -> None: ...

    @overload
    def __init__(
        self,
        cluster: Cluster,
        *,
        encode_key: Encoder[K],
        encode_value: Encoder[V],
        options: ProducerOptions | None = ...,
        partitioner: Partitioner | None = ...,
        on_delivery: Callable[[Delivery], None] | None = ...,
        clock: Clock | None = ...,
    ) -> None: ...

    def __init__(
        self,
        cluster: Cluster,
        *,
        encode_key: Encoder[K] | None = None,
        encode_value: Encoder[V] | None = None,
        options: ProducerOptions | None = None,
        partitioner: Partitioner | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`on_delivery` hears once of each batch, with the loop: it must not wait."""
        self._cluster = cluster
        self._options = options or ProducerOptions()
        self._clock = clock or SystemClock()
        self._encode_key = encode_key
        self._encode_value = encode_value
        self._is_plain = encode_key is None and encode_value is None
        self._partitioner: Partitioner = partitioner or DefaultPartitioner(cluster.random)
        self._partition_counts: dict[str, int] = {}
        self._refresh: asyncio.Task[None] | None = None
        self._gate: ClientError | None = None
        """Why no record is taken now."""
        self._transactions: Transactions | None = None
        transactional_id = self._options.transactional_id
        if transactional_id is not None:
            self._transactions = Transactions(
                cluster,
                transactional_id,
                timeout_ms=self._options.transaction_timeout_ms,
                on_partitions_added=self._on_partitions_added,
                on_failed=self._on_transaction_failed,
            )
            self._gate = WrongTransactionState(f"transactional id {transactional_id}: init_transactions() comes first")
        self._sender = Sender(
            cluster,
            self._options,
            transaction=self._transactions,
            on_delivery=on_delivery,
            on_closed=self._on_batch_closed,
        )

    async def __aenter__(self) -> Self:
        if self._transactions is not None and self._transactions.state is TransactionState.FRESH:
            await self.init_transactions()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._transactions is None:
                await self.flush()
        finally:
            await self.close()

    # Records.

    async def send(
        self,
        topic: str,
        key: K | None,
        value: V | None,
        *,
        headers: Headers = _NO_HEADERS,
        timestamp: int | None = None,
        partition: int | None = None,
        callback: Callback | None = None,
    ) -> Sent:
        """Take a record; it leaves with its batch. Waits while too many bytes are buffered. Raises ClientError.

        `timestamp` is milliseconds since the epoch, now where None; `partition` is chosen by the key where None. The
        callback is called by the loop, once, when the record is written or given up.
        """
        sender = self._sender
        if self._gate is not None or sender.failure is not None:
            raise self._gate or cast("ClientError", sender.failure)
        if self._is_plain:
            raw_key, raw_value = cast("bytes | None", key), cast("bytes | None", value)
        else:
            raw_key, raw_value = self._encoded(topic, key, value)
        if partition is None:
            count = self._partition_counts.get(topic) or await self._count_partitions(topic)
            partition = self._partitioner.choose(topic, raw_key, count)
        if timestamp is None:
            timestamp = self._clock.wall_ms()
        lane = sender.lanes.get((topic, partition)) or sender.lane(TopicPartition(topic, partition))  # type: ignore[call-overload]
        batch = lane.filling or sender.begin(lane, timestamp)
        encoded = encode_fields(raw_key, raw_value, headers, timestamp - batch.first_timestamp, batch.count)
        size = batch.size_bytes + len(encoded)
        if size > self._options.batch_bytes and batch.count:
            sender.close_filling(lane)
            batch = sender.begin(lane, timestamp)
            encoded = encode_fields(raw_key, raw_value, headers, 0, 0)
            size = len(encoded)
        index = batch.count
        batch.parts.append(encoded)
        batch.count = index + 1
        batch.size_bytes = size
        if timestamp > batch.max_timestamp:  # noqa: PLR1730 - a call would take as long as the rest
            batch.max_timestamp = timestamp
        if callback is not None:
            batch.add_callback(index, callback)
        sender.buffered_bytes += len(encoded)
        if sender.buffered_bytes > self._options.max_buffered_bytes:
            await sender.room()
        return Sent(batch, index)

    async def send_and_wait(
        self,
        topic: str,
        key: K | None,
        value: V | None,
        *,
        headers: Headers = _NO_HEADERS,
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Send a record without lingering and return when it is written. Raises ClientError."""
        sent = await self.send(topic, key, value, headers=headers, timestamp=timestamp, partition=partition)
        self._sender.hurry(sent.topic_partition)
        return await sent

    async def send_encoded(self, topic: str, partition: int, records: EncodedRecords) -> Sent:
        """Take the records of a whole batch as they are, such as one that was fetched: a batch of their own.

        Returns the `Sent` of the first one. They are not looked at; the broker does. Otherwise as `send`.
        """
        sender = self._sender
        if self._gate is not None or sender.failure is not None:
            raise self._gate or cast("ClientError", sender.failure)
        batch = sender.take_encoded(sender.lane(TopicPartition(topic, partition)), records)
        if sender.buffered_bytes > self._options.max_buffered_bytes:
            await sender.room()
        return Sent(batch, 0)

    async def flush(self) -> None:
        """Return once something became of every record that was taken, and their callbacks have heard of it.

        Raises the first error of a record that was given up since the last flush, and what ended the producer.
        """
        await self._sender.flush()
        # Callbacks are called by the loop, and by now all are before us there.
        await asyncio.sleep(0)
        error, self._sender.first_error = self._sender.first_error, None
        failure = self._sender.failure
        if failure is not None or error is not None:
            raise failure or cast("ClientError", error)

    async def close(self) -> None:
        """End at once: what is not written fails with ProducerClosed. An open transaction is aborted."""
        if self._transactions is not None:
            if self._transactions.state in (TransactionState.OPEN, TransactionState.ABORT_ONLY):
                try:
                    await self.abort_transaction()
                except ClientError as error:
                    log.warning("the transaction is left to its coordinator's time-out: %s", error)
            await self._transactions.close()
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)
        self._gate = self._gate or ProducerClosed("the producer is closed")
        await self._sender.close()

    # Transactions.

    @property
    def producer_id(self) -> int:
        """The id in the headers of the batches of a transactional producer that is initialised."""
        return self._transactional().identity.producer_id

    async def init_transactions(self) -> None:
        """Take the transactional id over. Older producers with it are fenced, what they left open is aborted."""
        transactions = self._transactional()
        await transactions.initialise()
        self._gate = WrongTransactionState("no transaction is open: begin_transaction() comes first")

    def begin_transaction(self) -> None:
        """Records and offsets from now on belong together. Raises WrongTransactionState or ProducerFenced."""
        self._transactional().begin()
        self._gate = None

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit offsets for a consumer group if, and when, the transaction commits.

        A group of a running consumer is its own `group_metadata()`: a member that was left behind is refused (KIP-447).
        Raises TransactionFailed, ProducerFenced or WrongTransactionState.
        """
        await self._transactional().add_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Write what is not written yet, and commit. Raises TransactionFailed: abort it then.

        After RequestTimedOut it is not known whether the transaction was committed: call it again.
        """
        transactions = self._transactional()
        if transactions.state is not TransactionState.COMMITTING:
            transactions.check_open()
            self._gate = WrongTransactionState("the transaction is being committed")
            await self._sender.flush()
            self._sender.first_error = None
            transactions.check_open()
        await self._end(commit=True)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Write what is not written yet, and leave the transaction to `complete_transaction`, here or elsewhere.

        The producer takes no records any more and may be closed. Raises TransactionFailed: abort it then.
        """
        transactions = self._transactional()
        transactions.check_open()
        self._gate = WrongTransactionState("the transaction is prepared: somebody else ends it")
        await self._sender.flush()
        self._sender.first_error = None
        return PreparedTransaction(transactions.transactional_id, *transactions.prepare())

    async def abort_transaction(self) -> None:
        """Let nothing of the transaction be. Records that were not sent fail with TransactionAborted."""
        transactions = self._transactional()
        if transactions.state not in (TransactionState.OPEN, TransactionState.ABORT_ONLY, TransactionState.ABORTING):
            raise transactions.refusal("there is nothing to abort")
        self._gate = WrongTransactionState("the transaction is being aborted")
        self._sender.give_up_waiting(TransactionAborted("its transaction was aborted before it was sent"))
        await self._sender.landed()
        self._sender.give_up_waiting(TransactionAborted("its transaction was aborted before it was written"))
        self._sender.first_error = None
        transactions.needs_epoch |= any(lane.is_broken for lane in self._sender.lanes.values())
        await self._end(commit=False)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction around a block: it commits at the end, and aborts where the block raises."""
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException as error:
            state = self._transactional().state
            if state in (TransactionState.OPEN, TransactionState.ABORT_ONLY):
                try:
                    await self.abort_transaction()
                except ClientError as failure:
                    error.add_note(f"the transaction could not be aborted: {failure}")
            raise

    # The rest is ours.

    def _transactional(self) -> Transactions:
        if self._transactions is None:
            raise WrongTransactionState("ProducerOptions.transactional_id is not set")
        return self._transactions

    async def _end(self, *, commit: bool) -> None:
        transactions = self._transactional()
        before = transactions.identity
        await transactions.end(commit=commit)
        if transactions.identity != before:
            self._sender.start_epoch(transactions.identity)
        self._gate = WrongTransactionState("no transaction is open: begin_transaction() comes first")

    def _on_transaction_failed(self, error: ClientError) -> None:
        self._gate = self._transactional().refusal("")
        self._sender.give_up_waiting(error)

    def _on_partitions_added(self) -> None:
        self._sender.wake_all()

    def _encoded(self, topic: str, key: K | None, value: V | None) -> tuple[bytes | None, bytes | None]:
        assert self._encode_key is not None
        assert self._encode_value is not None
        return (
            None if key is None else self._encode_key(topic, key),
            None if value is None else self._encode_value(topic, value),
        )

    async def _count_partitions(self, topic: str) -> int:
        count = len((await self._cluster.topic(topic, auto_create=self._options.auto_create_topics)).partitions)
        self._partition_counts[topic] = count
        if self._refresh is None:
            self._refresh = asyncio.get_running_loop().create_task(self._refresh_counts())
        refusal = self._gate or self._sender.failure
        if refusal is not None:
            # The transaction that the record was for ended meanwhile, or the producer: nobody would tell of it.
            raise refusal
        return count

    async def _refresh_counts(self) -> None:
        """Learn of partitions that are added to the topics that are written to."""
        while True:
            await asyncio.sleep(self._options.metadata_max_age_ms / 1000)
            try:
                found = await self._cluster.metadata(list(self._partition_counts))
            except ClientError as error:
                log.debug("the partitions of topics could not be asked for: %s", error)
                continue
            for name, topic in found.topics.items():
                if topic.partitions:
                    self._partition_counts[name] = len(topic.partitions)

    def _on_batch_closed(self, topic_partition: TopicPartition) -> None:
        topic, partition = topic_partition
        self._partitioner.on_batch_closed(topic, partition, self._partition_counts.get(topic, 1))


def utf8(_topic: str, text: str) -> bytes:
    """The encoder of texts."""
    return text.encode()
