"""What one task does: it writes its rows, and in a transactional write leaves its transaction prepared for the driver.

Rows are gathered, packed and encoded in the task's own thread; the producer's loop turns in another one, so that
batches are under way meanwhile and answers are read while Spark lets the task wait for rows. `buffer_bytes` bounds what
is under way, and a quarter of it what is gathered.

How exactly once holds stands in ending.py.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from barnabas.client.cluster import Cluster, ClusterOptions
from barnabas.client.coordinators import Coordinators, GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import KafkaError
from barnabas.client.group_offsets import GroupOffsets
from barnabas.client.outgoing import EncodedRecords
from barnabas.client.prepared_transactions import PreparedTransaction
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.pipeline.connecting import connect, reach
from barnabas.pipeline.given_options import OptionError
from barnabas.pipeline.sink.gathering import gather
from barnabas.pipeline.sink.marks import PLACE, Mark, RunName, check_same, is_committed, read_mark
from barnabas.pipeline.sink.options import Sending, SinkOptions
from barnabas.pipeline.sink.packing import PackedBatch, Packer
from barnabas.pipeline.sink.rows import read_rows
from barnabas.protocol.error_code import ErrorCode
from barnabas.runtime.clock import Clock, SystemClock
from barnabas.runtime.loop_thread import LoopThread

_CHECKSUM_LIMIT: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Task:
    """Whose rows these are: the run, and the task's number in it."""

    run: RunName
    number: int

    @property
    def transactional_id(self) -> str:
        return self.run.transactional_id(self.number)


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What a task tells the driver: the transaction that is to be ended, if there is one, and how many rows came."""

    task: Task | None
    prepared: PreparedTransaction | None
    rows: int


def write_task(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, task: Task | None, *, clock: Clock | None = None
) -> TaskReport:
    """Write the rows, in a transaction where a task is named.

    Raises RowRefused, ClientError, and ReplayRefused where the rows were committed before and were others.
    """
    clock = clock or SystemClock()
    sending = options.sending
    packer = Packer(batch_bytes=sending.batch_bytes, codec=sending.codec, random=random.Random())
    portions = gather(batches, most_bytes=sending.buffer_bytes // 4, linger_ms=sending.linger_ms, clock=clock)
    count = checksum = 0
    with LoopThread("barnabas sink") as loop:
        writer = TopicWriter(options, task)
        try:
            loop.run(writer.open())
            for portion in portions:
                rows = read_rows(portion, topic=options.topic)
                count += len(rows)
                if writer.is_numbered:
                    checksum = (checksum + rows.checksum()) % _CHECKSUM_LIMIT
                if writer.is_committed:
                    continue
                partitions = {topic: loop.run(writer.partition_count(topic)) for topic in rows.topics}
                loop.run(writer.send(list(packer.pack(rows, partitions, now_ms=clock.wall_ms()))))
            return TaskReport(task, loop.run(writer.finish(count, checksum)), count)
        finally:
            loop.run(writer.close())


class TopicWriter:
    """The producer of a task, and the mark of what it committed before. Used on one loop."""

    def __init__(self, options: SinkOptions, task: Task | None) -> None:
        self._options = options
        self._task = task
        self._cluster = connect(options.bootstrap_servers, cluster_options(options.sending))
        self._producer: Producer[bytes, bytes] | None = None
        self._mark: Mark | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether the same batch may come again, and is known then."""
        return self._task is not None and self._task.run.number is not None

    @property
    def is_committed(self) -> bool:
        """Whether the batch that comes is committed already: its rows are only looked at."""
        return self._mark is not None

    async def open(self) -> None:
        """Take the transactional id over, which ends all that others have open with it, and read the task's mark."""
        await reach(self._cluster)
        self._producer = Producer(self._cluster, options=self._producer_options())
        if self._task is None:
            return
        await self._take_over(self._producer)
        if self._task.run.number is not None:
            mark = await read_task_mark(self._cluster, self._task.transactional_id)
            if is_committed(mark, self._task.run.number, transactional_id=self._task.transactional_id):
                self._mark = mark
                return
        self._producer.begin_transaction()

    async def _take_over(self, producer: Producer[bytes, bytes]) -> None:
        try:
            await producer.init_transactions()
        except KafkaError as error:
            if error.error is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise OptionError(
                    f"option kafka.transaction.timeout.ms={self._options.transaction_timeout_ms}: the brokers allow "
                    "less (transaction.max.timeout.ms)"
                ) from error
            raise

    async def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, which the brokers may create where their configuration allows it."""
        return len((await self._cluster.topic(topic, auto_create=True)).partitions)

    async def send(self, packed: Sequence[PackedBatch]) -> None:
        """Hand batches over; waits while too much is under way. Raises ClientError."""
        assert self._producer is not None
        assert not self.is_committed
        for each in packed:
            records = EncodedRecords(each.payload, each.codec, each.count, each.first_timestamp, each.max_timestamp)
            await self._producer.send_encoded(*each.topic_partition, records)

    async def finish(self, rows: int, checksum: int) -> PreparedTransaction | None:
        """Return when all is written; what is to be ended then, None where nothing is. Raises as `write_task` does."""
        producer, task = self._producer, self._task
        assert producer is not None
        if task is None:
            await producer.flush()
            return None
        if self._mark is not None:
            now = Mark(self._mark.number, rows, checksum)
            check_same(self._mark, now, transactional_id=task.transactional_id)
            return None
        if not rows:
            return None
        if task.run.number is not None:
            mark = Mark(task.run.number, rows, checksum)
            written_down = OffsetAndMetadata(mark.number + 1, metadata=mark.metadata())
            await producer.send_offsets_to_transaction({PLACE: written_down}, GroupMetadata(task.transactional_id))
        return await producer.prepare_transaction()

    async def close(self) -> None:
        """End at once. A transaction that is not prepared is aborted."""
        try:
            if self._producer is not None:
                await self._producer.close()
        finally:
            await self._cluster.close()

    def _producer_options(self) -> ProducerOptions:
        sending = self._options.sending
        return ProducerOptions(
            codec=sending.codec,
            max_buffered_bytes=sending.buffer_bytes,
            max_request_bytes=sending.max_request_bytes,
            max_in_flight=sending.max_in_flight,
            delivery_timeout_ms=sending.delivery_timeout_ms,
            transactional_id=None if self._task is None else self._task.transactional_id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
            # Who tries the task again writes what was lost and what came behind it.
            halt_on_error=True,
        )


async def read_task_mark(cluster: Cluster, transactional_id: str) -> Mark | None:
    """What the task committed last, None where nothing. It waits for a commit that is on its way.

    Raises ReplayRefused, and ClientError; UnsupportedByBroker before Kafka 2.5.
    """
    found = await group_offsets(cluster, transactional_id).committed([PLACE], must_be_stable=True)
    if PLACE not in found:
        return None
    return read_mark(found[PLACE].offset, found[PLACE].metadata, group_id=transactional_id)


def group_offsets(cluster: Cluster, group_id: str) -> GroupOffsets:
    """The offsets of a group that has no members."""
    return GroupOffsets(cluster, Coordinators(cluster), group_id, on_outside=lambda *_: None)


def cluster_options(sending: Sending) -> ClusterOptions:
    """How brokers are talked to."""
    return ClusterOptions(
        client_id=sending.client_id,
        connect_timeout_ms=sending.connect_timeout_ms,
        request_timeout_ms=sending.request_timeout_ms,
        timeout_ms=sending.timeout_ms,
    )
