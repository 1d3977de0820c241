"""The flow from one source into the target: reads committed batches, passes them on, commits, and begins again.

A session owns one producer with the flow's transactional id. It begins by taking that id over, which ends whatever an
earlier process left open; only then it reads how far the flow has come. Whatever goes wrong in a session, the next one
begins in the same way as one after a kill, so there is one way back and no other.

    INIT -> read progress -> plan topics -> register -> read and write, transaction after transaction -> plan again ...

Each batch tells the producer that wrote it. Of one that was not seen before it is looked up first whether it belongs to
a mirror that brings records of the target; what those wrote is dropped.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from barnabas.client.admin import LATEST, Admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import IsolationLevel
from barnabas.client.errors import (
    ClientError,
    KafkaError,
    ProducerFenced,
    TransactionFailed,
    UnsupportedByBroker,
    WrongTransactionState,
    corrupt_batch,
)
from barnabas.client.partitioner import DefaultPartitioner
from barnabas.client.producer import Producer
from barnabas.client.producer_options import ProducerOptions
from barnabas.client.range_reader import FetchedBatches, OffsetRange, RangeReader, RangeReaderOptions
from barnabas.pipeline.job_clusters import fetching_of
from barnabas.pipeline.jobs.job import JobFailed
from barnabas.pipeline.mirror.config import MIB, MirrorConfig, SourceConfig
from barnabas.pipeline.mirror.passing import last_stamp, pass_on, producer_ids
from barnabas.pipeline.mirror.positions import Positions
from barnabas.pipeline.mirror.provenance import Upstream, origins_after, read_upstream
from barnabas.pipeline.mirror.rate import ByteRate
from barnabas.pipeline.mirror.state_records import (
    OF_SPARK,
    Key,
    MirrorState,
    ProducerKey,
    ProducerRecord,
    ProgressKey,
    ProgressRecord,
    RouteKey,
    RouteRecord,
)
from barnabas.pipeline.mirror.state_topic import UpstreamState, read_state
from barnabas.pipeline.mirror.topics import Route, TopicPlanner
from barnabas.pipeline.mirror.watch import Watch
from barnabas.pipeline.mirror.writing import Writer
from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.clock import Clock

_POLL_S: Final = 0.1
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_STATE_TIMEOUT_S: Final = 60
_FETCH_BYTES: Final = 8 * MIB
_LINGER_MS: Final = 20
_REGISTRATION_S: Final = 2.0

_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""What brokers tell a producer whose transactional id somebody else has, or whose transaction was ended for it."""
_PASSING: Final = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors that the next session may not meet, beside those that the protocol calls retriable."""


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """Between which clusters a flow is, and what they are known by."""

    source: Cluster
    source_id: str
    target: Cluster
    target_id: str


class Flow:
    """See the module. `run` returns when it has caught up, or when `is_stopping` says so."""

    def __init__(
        self,
        config: MirrorConfig,
        source_config: SourceConfig,
        place: FlowPlace,
        *,
        least_partitions: Mapping[str, int],
        rate: ByteRate,
        watch: Watch,
        is_stopping: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self.config = config
        self.alias = source_config.alias
        self.place = place
        self._source_config = source_config
        self._rate = rate
        self._watch = watch
        self._is_stopping = is_stopping
        self._clock = clock
        self._incarnation = f"{place.target.random.getrandbits(64):016x}"
        self._planner = TopicPlanner(
            config,
            source_config,
            source=place.source,
            target=place.target,
            target_id=place.target_id,
            least_partitions=least_partitions,
            watch=watch,
        )
        self._positions = Positions(
            place.source, self.alias, goes_on_after_loss=config.on_data_loss == "continue", watch=watch
        )
        self._upstream = UpstreamState(place.source)
        self._seen_producers: set[int] = set()
        self.foreign: frozenset[int] = frozenset()
        self.routes: dict[str, Route] = {}
        self._ends: dict[TopicPartition, int] | None = None
        """How far a flow goes that only catches up."""
        self._behind: dict[TopicPartition, int] = {}
        self._behind_in_all = 0
        self._failing_since_ms: int | None = None
        self._pause_s = _FIRST_PAUSE_S
        self.began: dict[TopicPartition, ProgressRecord] = {}
        """Where this run began."""
        self.reached: dict[TopicPartition, ProgressRecord] = {}
        self.target_began: dict[TopicPartition, int] = {}
        """Where the target's partitions ended when this run came to them."""
        self.producer_ids: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Raises JobFailed."""
        while not self._is_stopping():
            began_ms = self._clock.monotonic_ms()
            try:
                await self._session()
            except ClientError as error:
                await self._judge(error, self._clock.monotonic_ms() - began_ms)
                self._watch.add("restarts")
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
            else:
                return

    # What went wrong.

    async def _judge(self, error: ClientError, lasted_ms: int) -> None:
        """Return where the next session may do better than this one, which lasted so long. Raises JobFailed."""
        what = error.cause if isinstance(error, TransactionFailed) else error
        now = self._clock.monotonic_ms()
        if isinstance(what, ProducerFenced) or (isinstance(what, KafkaError) and what.error in _FENCED):
            if await self._is_taken_over():
                raise JobFailed(
                    f"{self.alias}: another process runs the mirror {self.config.name} now; this one has ended"
                ) from error
        elif isinstance(what, UnsupportedByBroker | WrongTransactionState) or (
            isinstance(what, KafkaError) and not what.retriable and what.error not in _PASSING
        ):
            raise JobFailed(f"{self.alias}: {what}") from error
        if self._failing_since_ms is None or lasted_ms > self.config.patience_s * 1000:
            # A session that lasts longer than any attempt was in good order, though nothing came.
            self._failing_since_ms = now
            self._watch.tell(f"{self.alias}: beginning again: {what}")
        if now - self._failing_since_ms > self.config.patience_s * 1000:
            raise JobFailed(
                f"{self.alias}: gave up after {self.config.patience_s} s without progress: {what}"
            ) from error

    async def _is_taken_over(self) -> bool:
        """Whether another process has the transactional id, or only the coordinator ended what took too long."""
        # It writes down who it is after it has taken the id, which is what shut us out.
        await asyncio.sleep(_REGISTRATION_S)
        try:
            state = await read_state(self.place.target, timeout_s=_STATE_TIMEOUT_S)
        except ClientError:
            return False
        owner = state.producers.get(ProducerKey(self.config.name, self.alias))
        return owner is not None and owner.incarnation != self._incarnation

    # A session.

    async def _session(self) -> None:
        config, target = self.config, self.place.target
        options = ProducerOptions(
            transactional_id=f"barnabas-mirror-{config.name}-{self.alias}",
            codec=config.codec,
            linger_ms=_LINGER_MS,
            auto_create_topics=False,
        )
        async with Producer(target, options=options) as producer:
            state = await read_state(target, timeout_s=_STATE_TIMEOUT_S)
            writer = Writer(
                producer,
                DefaultPartitioner(target.random),
                mirror=config.name,
                source=self.alias,
                progress=state.progress_of(config.name, self.alias),
            )
            is_done = False
            while not is_done and not self._is_stopping():
                await self._prepare(producer.producer_id, writer, state)
                is_done = await self._carry(writer)

    async def _prepare(self, producer_id: int, writer: Writer, state: MirrorState) -> None:
        """Plan topics and positions, and write down what is new before any record is."""
        config = self.config
        await self._refresh_upstream()
        known = state.routes_of(config.name, self.alias)
        upstream = read_upstream(self._upstream.state.producers.values(), self._upstream.state.routes)
        self.routes, missing = await self._planner.plan(known, upstream)
        progress = writer.progress
        lost = {topic for topic in missing if any(at.topic == topic for at in progress)}
        if missing and not lost:
            raise JobFailed(f"{self.alias} has no topic {', '.join(missing)}; create it, or take it from the list")
        partitions = [
            TopicPartition(topic, partition)
            for topic, route in self.routes.items()
            for partition in range(route.rule.source_count)
        ]
        mine = {at: record for at, record in progress.items() if at.topic in self.routes or at.topic in lost}
        at_end = not progress and self._source_config.start == "latest"
        news = await self._positions.look(partitions, mine, new_at_end=at_end)
        await self._note_target_ends()
        await self._register(producer_id, writer, state, upstream, news)
        for at in partitions:
            self.began.setdefault(at, progress[at])
        if config.mode == "catch_up" and self._ends is None:
            self._ends = await self._positions.ends(partitions)
        self.reached = progress

    async def _note_target_ends(self) -> None:
        new = [
            at
            for route in self.routes.values()
            for at in (TopicPartition(route.target, number) for number in range(route.rule.target_count))
            if at not in self.target_began
        ]
        found = await Admin(self.place.target).list_offsets(dict.fromkeys(new, LATEST)) if new else {}
        self.target_began |= {at: each.offset for at, each in found.items()}

    async def _register(
        self,
        producer_id: int,
        writer: Writer,
        state: MirrorState,
        upstream: Upstream,
        news: Mapping[TopicPartition, ProgressRecord],
    ) -> None:
        """Write down who writes, where topics go and where new partitions begin, as far as that is news."""
        config = self.config
        records: list[tuple[Key, ProducerRecord | RouteRecord | ProgressRecord]] = []
        key = ProducerKey(config.name, self.alias)
        before = state.producers.get(key)
        if before is not None and before.incarnation == OF_SPARK:
            raise JobFailed(
                f"mirror {config.name} has run with engine='spark', and its progress is in a checkpoint: this engine "
                "would begin anew; give the mirror another name, and its topics with it"
            )
        ids = sorted({producer_id, *(() if before is None else before.producer_ids)})
        self.producer_ids = frozenset(ids)
        owner = ProducerRecord(cluster=self.place.source_id, incarnation=self._incarnation, producer_ids=ids)
        if before != owner:
            records.append((key, owner))
            state.producers[key] = owner
        for topic, route in self.routes.items():
            route_key = RouteKey(config.name, self.alias, topic)
            written = RouteRecord(
                cluster=self.place.source_id,
                target=route.target,
                origins=sorted(origins_after(topic, upstream, self.place.source_id)),
                source_partitions=route.rule.source_count,
                target_partitions=route.rule.target_count,
            )
            if state.routes.get(route_key) != written:
                records.append((route_key, written))
                state.routes[route_key] = written
        records += [(ProgressKey(config.name, self.alias, *at), record) for at, record in news.items()]
        if records:
            await writer.register(records)

    async def _refresh_upstream(self) -> None:
        await self._upstream.refresh()
        upstream = read_upstream(self._upstream.state.producers.values(), {})
        self.foreign = upstream.foreign_producers(self.place.target_id)

    # Reading and writing.

    def _ranges(self, writer: Writer) -> dict[TopicPartition, OffsetRange]:
        begins = {
            at: record.offset
            for at, record in writer.progress.items()
            if at.topic in self.routes and at.partition < self.routes[at.topic].rule.source_count
        }
        if self._ends is None:
            return {at: OffsetRange(begin) for at, begin in begins.items()}
        return {
            at: OffsetRange(begin, self._ends[at])
            for at, begin in begins.items()
            if at in self._ends and begin < self._ends[at]
        }

    async def _carry(self, writer: Writer) -> bool:
        """Mirror until there is nothing to do any more (True), or topics or logs have to be looked at again."""
        ranges = self._ranges(writer)
        look_again_ms = self._clock.monotonic_ms() + self.config.refresh_ms
        if not ranges and self._ends is None:
            await self._wait(self.config.refresh_ms, writer)
            return False
        fetching = fetching_of(self._source_config.cluster)
        options = RangeReaderOptions(
            max_wait_ms=fetching.max_wait_ms,
            min_bytes=fetching.min_bytes,
            max_bytes=_FETCH_BYTES,
            partition_max_bytes=fetching.partition_max_bytes,
            isolation_level=IsolationLevel.READ_COMMITTED,
        )
        reader = RangeReader(self.place.source, ranges, options=options)
        async with aclosing(reader.batches()) as batches:
            is_read = await self._pump(batches, writer, look_again_ms)
        if is_read and self._ends is not None:
            # What is left of a range may be markers and gaps alone.
            for at, wanted in ranges.items():
                assert wanted.end is not None
                await self._advance(writer, at, wanted.end)
        if writer.is_open:
            await self._commit(writer)
        return is_read and self._ends is not None

    async def _pump(self, batches: AsyncGenerator[FetchedBatches, None], writer: Writer, look_again_ms: int) -> bool:
        """Work on batches as they come; True when there are no more."""
        coming: asyncio.Task[FetchedBatches] | None = None
        try:
            while not self._is_stopping():
                if coming is None:
                    coming = asyncio.ensure_future(anext(batches))
                await asyncio.wait([coming], timeout=_POLL_S)
                if coming.done():
                    try:
                        fetched = coming.result()
                    except StopAsyncIteration:
                        return True
                    finally:
                        coming = None
                    await self._take(fetched, writer)
                now = self._clock.monotonic_ms()
                if writer.is_open and self._is_due(writer, now):
                    await self._commit(writer)
                if now >= look_again_ms:
                    return False
            return False
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    def _is_due(self, writer: Writer, now_ms: int) -> bool:
        config = self.config
        return writer.size_bytes >= config.transaction_bytes or now_ms - writer.begun_at_ms >= config.transaction_ms

    async def _take(self, fetched: FetchedBatches, writer: Writer) -> None:
        at = fetched.topic_partition
        delay_ms = self._rate.delay_ms(len(fetched.record_set), self._clock.monotonic_ms())
        if delay_ms:
            await self._wait(delay_ms, writer)
        try:
            unknown = producer_ids(fetched.record_set) - self._seen_producers
            if unknown:
                # Whoever mirrors says so before the first batch.
                await self._refresh_upstream()
                self._seen_producers |= unknown
            route = self.routes[at.topic]
            passed = pass_on(
                fetched.record_set,
                start=fetched.start,
                end=fetched.end,
                aborted=fetched.aborted,
                foreign=self.foreign,
                keeps_batches=route.rule.fixed(at.partition) is not None,
            )
            next_offset = fetched.next_offset if fetched.end is None else min(fetched.next_offset, fetched.end)
            stamp = last_stamp(fetched.record_set) if next_offset == fetched.next_offset else None
            await writer.write(
                at, route, passed, next_offset=next_offset, stamp=stamp, now_ms=self._clock.monotonic_ms()
            )
        except CorruptBatch as error:
            raise corrupt_batch(at, error) from error
        behind = max(0, fetched.high_watermark - next_offset)
        self._behind_in_all += behind - self._behind.get(at, 0)
        self._behind[at] = behind
        self._watch.set_behind(self.alias, self._behind_in_all)
        self._watch.show()

    async def _advance(self, writer: Writer, at: TopicPartition, offset: int) -> None:
        """Nothing is left before `offset`, though no batch ended there."""
        if writer.next_offset(at) < offset:
            route = self.routes[at.topic]
            now = self._clock.monotonic_ms()
            await writer.write(at, route, (), next_offset=offset, stamp=None, now_ms=now)

    async def _wait(self, delay_ms: int, writer: Writer) -> None:
        """Wait for the rate, with no transaction open for longer than one may be."""
        if writer.is_open and delay_ms > self.config.transaction_ms:
            await self._commit(writer)
        until = self._clock.monotonic_ms() + delay_ms
        while not self._is_stopping():
            left_ms = until - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            await asyncio.sleep(min(left_ms / 1000, _POLL_S))

    async def _commit(self, writer: Writer) -> None:
        written = await writer.commit()
        self._watch.add("transactions")
        self._watch.add("records", written.records)
        self._watch.add("bytes", written.size_bytes)
        self._watch.add("batches_passed_whole", written.whole_batches)
        self._watch.add("batches_rebuilt", written.rebuilt_batches)
        self._watch.add("records_dropped_as_they_came_from_the_target", written.dropped)
        self._watch.show()
        self._failing_since_ms = None
        self._pause_s = _FIRST_PAUSE_S
