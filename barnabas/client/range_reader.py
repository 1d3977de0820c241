"""Reading partitions from offset to offset: one long poll per leader, without groups and fetch sessions.

Each leader has a task that fetches what it leads; when its broker is lost or leads a partition no more, the task ends
and its partitions are given out again after new metadata. What was fetched waits in a bounded queue as raw batches and
is decoded when it is asked for, or given as it is. Records come in order within a partition. Control records are left
out; the records of aborted transactions are with read_committed, which sees nothing from the last stable offset on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import ClientError, KafkaError, ProtocolViolation, corrupt_batch, error_code, raise_for
from barnabas.client.fetched_records import AbortedRange, FetchedRecords, decode_records, find_whole_entries
from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.messages import fetch as fetch_api
from barnabas.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from barnabas.protocol.records import Record

log = logging.getLogger(__name__)

_FORMAT_2_SINCE = 4
_PAUSE_S = 0.1


@dataclass(slots=True)
class OffsetRange:
    """From `start` on, up to `end` (exclusive), or on and on with None."""

    start: int
    end: int | None = None


@dataclass(slots=True)
class RangeReaderOptions:
    """How partitions are read; the limits of bytes are those of the fetch requests.

    `queued_answers` are held beside the one that is worked on and the one that is being fetched.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 16 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    max_decompressed_bytes: int = 256 * 1024 * 1024
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    queued_answers: int = 8


@dataclass(slots=True)
class _Position:
    """Where a partition is read next, and where its records that nobody asked for begin."""

    offset: int
    end: int | None

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.offset >= self.end


@dataclass(slots=True)
class FetchedBatches:
    """Whole batches of one partition, not decoded and with checksums not looked at.

    Wanted are their records from `start` on and before `end`, without those of `aborted` transactions. The batches end
    before `next_offset`.
    """

    topic_partition: TopicPartition
    record_set: memoryview
    start: int
    end: int | None
    next_offset: int
    aborted: Sequence[AbortedRange]
    high_watermark: int


@dataclass(slots=True)
class _Run:
    """What one iteration over a consumer has under way."""

    positions: dict[TopicPartition, _Position]
    answers: "asyncio.Queue[FetchedBatches | None]"
    room: asyncio.Semaphore
    fetchers: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)
    assigned: dict[int, deque[TopicPartition]] = field(default_factory=dict)
    progress_at_s: float = 0.0


class RangeReader:
    """Reads ranges of partitions."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Mapping[TopicPartition, OffsetRange],
        *,
        options: RangeReaderOptions | None = None,
    ) -> None:
        self._cluster = cluster
        self._ranges = dict(ranges)
        self._options = options or RangeReaderOptions()

    async def fetched(self) -> AsyncGenerator[FetchedRecords, None]:
        """Give records as they come, until every range is read; close it to stop earlier. Raises ClientError."""
        async with aclosing(self.batches()) as answers:
            async for answer in answers:
                if records := self._decode(answer):
                    yield FetchedRecords(answer.topic_partition, records, answer.high_watermark)

    async def batches(self) -> AsyncGenerator[FetchedBatches, None]:
        """Give batches as they come, for callers that decode themselves. As `fetched` otherwise."""
        loop = asyncio.get_running_loop()
        positions = {each: _Position(wanted.start, wanted.end) for each, wanted in self._ranges.items()}
        run = _Run(
            positions={each: position for each, position in positions.items() if not position.is_done},
            answers=asyncio.Queue(),
            room=asyncio.Semaphore(self._options.queued_answers),
            progress_at_s=loop.time(),
        )
        reading = loop.create_task(self._read(run))
        reading.add_done_callback(lambda _: run.answers.put_nowait(None))
        try:
            while (answer := await run.answers.get()) is not None:
                run.room.release()
                yield answer
            reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read(self, run: _Run) -> None:
        """Keep a fetcher at every leader until nothing is left to read."""
        try:
            while run.positions:
                await self._cluster.patiently(lambda: self._assign(run))
                await asyncio.wait(run.fetchers.values(), return_when=asyncio.FIRST_COMPLETED)
                for node_id in [each for each, task in run.fetchers.items() if task.done()]:
                    del run.assigned[node_id]
                    run.fetchers.pop(node_id).result()
        finally:
            for task in run.fetchers.values():
                task.cancel()
            await asyncio.gather(*run.fetchers.values(), return_exceptions=True)

    async def _assign(self, run: _Run) -> None:
        """Give every partition that nobody fetches to its leader's fetcher."""
        taken = {each for partitions in run.assigned.values() for each in partitions}
        try:
            for topic_partition in [each for each in run.positions if each not in taken]:
                node_id = (await self._cluster.leader(topic_partition)).node_id
                run.assigned.setdefault(node_id, deque()).append(topic_partition)
        finally:
            # A partition without a leader does not hold the others up.
            for node_id in run.assigned:
                if node_id not in run.fetchers:
                    fetcher = self._fetch_from(node_id, run)
                    run.fetchers[node_id] = asyncio.get_running_loop().create_task(fetcher)

    async def _fetch_from(self, node_id: int, run: _Run) -> None:
        """Fetch what a broker leads, until it is read or the broker proves to be the wrong one."""
        partitions = run.assigned[node_id]
        try:
            while partitions:
                await self._fetch_once(node_id, run)
        except ClientError as error:
            if not error.retriable:
                raise
            stalled_s = asyncio.get_running_loop().time() - run.progress_at_s
            if stalled_s * 1000 > self._cluster.options.timeout_ms:
                raise
            log.debug("broker %d: fetching again after new metadata: %s", node_id, error)
            for topic_partition in partitions:
                self._cluster.forget(topic_partition.topic)
            await asyncio.sleep(_PAUSE_S)

    async def _fetch_once(self, node_id: int, run: _Run) -> None:
        partitions = run.assigned[node_id]
        connection = await self._cluster.connection(node_id)
        timeout_ms = self._cluster.options.request_timeout_ms + self._options.max_wait_ms
        response = await connection.request(
            fetch_api.API, self._request(partitions, run), timeout_ms=timeout_ms, least=_FORMAT_2_SINCE
        )
        raise_for(response.error_code)
        stale: KafkaError | None = None
        for topic in response.responses:
            for answer in topic.partition_responses:
                topic_partition = TopicPartition(topic.topic, answer.partition)
                if topic_partition not in run.positions:
                    raise ProtocolViolation(f"broker {node_id} answered {topic_partition}, which was not asked")
                if answer.error_code:
                    error = KafkaError(error_code(answer.error_code), context=str(topic_partition))
                    if not error.retriable:
                        raise error
                    stale = error
                elif answer.record_set is not None and len(answer.record_set):
                    await self._take(topic_partition, answer, run)
                    # Who gave something stands at the end next time: no partition starves behind the limit of bytes.
                    partitions.remove(topic_partition)
                    if topic_partition in run.positions:
                        partitions.append(topic_partition)
                elif self._is_empty_to_its_end(topic_partition, answer, response, run):
                    partitions.remove(topic_partition)
                    del run.positions[topic_partition]
        if stale is not None:
            raise stale
        run.progress_at_s = asyncio.get_running_loop().time()

    def _request(self, partitions: "deque[TopicPartition]", run: _Run) -> FetchRequest:
        topics: list[FetchTopic] = []
        for name, partition in partitions:
            # In the order given, as brokers fill responses in that order.
            if not topics or topics[-1].topic != name:
                topics.append(FetchTopic(name))
            offset = run.positions[TopicPartition(name, partition)].offset
            topics[-1].partitions.append(
                FetchPartition(
                    partition=partition, fetch_offset=offset, partition_max_bytes=self._options.partition_max_bytes
                )
            )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=self._options.max_wait_ms,
            min_bytes=self._options.min_bytes,
            max_bytes=self._options.max_bytes,
            isolation_level=self._options.isolation_level,
            topics=topics,
        )

    def _is_empty_to_its_end(
        self,
        topic_partition: TopicPartition,
        answer: FetchablePartitionResponse,
        response: FetchResponse,
        run: _Run,
    ) -> bool:
        """Whether nothing is left of a range though its end is not reached: compaction removed what was there.

        A broker leaves a partition empty too when it throttles, or when others fill the answer.
        """
        is_committed = self._options.isolation_level is IsolationLevel.READ_COMMITTED
        readable = answer.last_stable_offset if is_committed else answer.high_watermark
        end = run.positions[topic_partition].end
        is_alone = sum(len(topic.partition_responses) for topic in response.responses) == 1
        return end is not None and readable >= end and is_alone and not response.throttle_time_ms

    async def _take(self, topic_partition: TopicPartition, answer: FetchablePartitionResponse, run: _Run) -> None:
        """Move the partition behind the whole batches of an answer and queue them."""
        record_set = memoryview(answer.record_set)  # type: ignore[arg-type]
        position = run.positions[topic_partition]
        start = position.offset
        try:
            whole = find_whole_entries(record_set, start)
        except CorruptBatch as error:
            raise corrupt_batch(topic_partition, error) from error
        if not whole.size_bytes:
            return
        position.offset = whole.next_offset
        if position.is_done:
            del run.positions[topic_partition]
        await run.room.acquire()
        aborted: list[AbortedRange] = []
        if self._options.isolation_level is IsolationLevel.READ_COMMITTED:
            aborted = [AbortedRange(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        run.answers.put_nowait(
            FetchedBatches(
                topic_partition,
                record_set[: whole.size_bytes],
                start,
                position.end,
                whole.next_offset,
                aborted,
                answer.high_watermark,
            )
        )

    def _decode(self, answer: FetchedBatches) -> list[Record]:
        try:
            return decode_records(
                answer.record_set,
                start=answer.start,
                end=answer.end,
                aborted=answer.aborted,
                max_decompressed_bytes=self._options.max_decompressed_bytes,
            )
        except CorruptBatch as error:
            raise corrupt_batch(answer.topic_partition, error) from error
