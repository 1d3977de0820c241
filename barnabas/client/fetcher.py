"""Fetching many partitions: one long poll per broker, answers kept as raw batches until somebody asks for records.

A driver looks at all partitions whenever something changed: who lacks a leader gets metadata, who lacks a position gets
one (positioning.py), and a broker without a request under way is asked for what it leads and what has room; also for
what it holds as a follower, where the leader named it as nearer (KIP-392). Requests name what changed since the one
before (KIP-227, fetch_session.py), where the broker has room for sessions. At most four answers of a partition wait.
A partition is handed to one reader at a time, so its records are worked on in order. Control records are left out, with
READ_COMMITTED those of aborted transactions too.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import ConsumerOptions, IsolationLevel, OffsetOutOfRange
from barnabas.client.errors import ClientError, KafkaError, ProtocolViolation, corrupt_batch, error_code, raise_for
from barnabas.client.fetch_session import FetcherSession, FetchRound, Position
from barnabas.client.fetched_records import (
    AbortedRange,
    FetchedRecords,
    WholeEntries,
    decode_records,
    find_whole_entries,
)
from barnabas.client.partition_state import PartitionState
from barnabas.client.positioning import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Committed,
    Positioning,
    leader_epoch_of,
    topics_of,
)
from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.protocol.messages import fetch as fetch_api
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchPartition, FetchRequest, FetchTopic

log = logging.getLogger(__name__)

_FORMAT_2_SINCE: Final = 4
_BUFFERED_ANSWERS: Final = 4
_NO_LOG: Final = -1
_IMPATIENT_WAIT_MS: Final = 50
"""How long a broker may wait for records while others that it leads have no room: they may have some soon."""


@dataclass(slots=True)
class _Answer:
    """Whole batches of one partition, fetched at `start` under a version of its state."""

    state: PartitionState
    version: int
    record_set: memoryview
    start: int
    next_offset: int
    leader_epoch: int
    high_watermark: int
    aborted: list[AbortedRange]


@dataclass(slots=True)
class Handed:
    """Records in a reader's hands; `finish` says that they were worked on."""

    state: PartitionState
    version: int
    next_offset: int
    fetched: FetchedRecords


class _Asked(NamedTuple):
    """What a request asks of a partition; the answer counts only while state, version and offset are those."""

    state: PartitionState
    version: int
    offset: int
    leader_epoch: int


@dataclass(slots=True)
class _Link:
    """What goes on with one broker: its session, and what it was told to send."""

    session: FetcherSession = field(default_factory=FetcherSession)
    asked: dict[TopicPartition, _Asked] = field(default_factory=dict)


_SESSION_LOST: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class Fetcher:
    """Reads the partitions in `states`. `start` it, `take` and `finish`, `close` it.

    Whoever takes a state out of `states` abandons it: by its version what was fetched or asked for it is dropped.
    """

    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, *, committed: Committed | None, lane: Hashable
    ) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self._cluster = cluster
        self._options = options
        self._lane = lane
        self._positioning = Positioning(cluster, options, committed=committed, lane=lane)
        self._ready: deque[_Answer] = deque()
        self._under_way: dict[Hashable, asyncio.Task[None]] = {}
        self._links: dict[int, _Link] = {}
        self._changed = asyncio.Event()
        self._news = asyncio.Event()
        self._failure: ClientError | None = None
        self._driver: asyncio.Task[None] | None = None
        self._refreshed_at_s = 0.0
        self._served = 0
        self.waiting = 0
        """How many readers wait for records."""

    def start(self) -> None:
        self._refreshed_at_s = asyncio.get_running_loop().time()
        self._driver = asyncio.get_running_loop().create_task(self._drive())
        self._driver.add_done_callback(self._must_not_fail)

    async def close(self) -> None:
        tasks = [*self._under_way.values(), *([self._driver] if self._driver is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def changed(self) -> None:
        """States were added, removed, moved, paused or resumed."""
        self._changed.set()
        self._news.set()

    def fail(self, error: ClientError) -> None:
        """Readers get `error` from now on."""
        self._failure = self._failure or error
        self._news.set()

    # Readers.

    async def take(self) -> Handed:
        """Wait for records of a partition that nobody works on. Raises ClientError."""
        while True:
            if self._failure is not None:
                raise self._failure
            for state in self.states.values():
                if state.error is not None and not state.is_paused:
                    raise state.error
            handed = self._next()
            if handed is not None:
                return handed
            self._news.clear()
            self.waiting += 1
            try:
                await self._news.wait()
            finally:
                self.waiting -= 1

    def finish(self, handed: Handed) -> None:
        """The records were worked on: the partition may go to the next reader."""
        handed.state.finish(handed.version)
        self._news.set()

    def release(self, handed: Handed) -> None:
        """The reader went away: nobody works on these records any more, and they do not count as worked on."""
        handed.state.in_hand = False
        self._news.set()

    async def idle(self, partitions: Iterable[TopicPartition]) -> None:
        """Return when nobody works on these partitions."""
        states = [self.states[each] for each in partitions if each in self.states]
        while any(state.in_hand for state in states):
            self._news.clear()
            await self._news.wait()

    async def positioned(self, topic_partition: TopicPartition) -> int:
        """The position of a partition, once there is one. Raises ClientError; KeyError where it is not read."""
        while True:
            state = self.states[topic_partition]
            error = self._failure or state.error
            if error is not None:
                raise error
            if state.has_position:
                return state.position
            self._news.clear()
            await self._news.wait()

    def _next(self) -> Handed | None:
        """Decode the first answer that can be handed out; what nobody wants any more goes."""
        for _ in range(len(self._ready)):
            answer = self._ready.popleft()
            state = answer.state
            if answer.version != state.version:
                continue
            if state.is_paused or state.in_hand or state.is_held:
                self._ready.append(answer)
                continue
            state.buffered -= 1
            self._changed.set()
            records = self._decode(answer)
            state.hand_out(next_offset=answer.next_offset, leader_epoch=answer.leader_epoch)
            if records:
                fetched = FetchedRecords(state.topic_partition, records, answer.high_watermark)
                return Handed(state, answer.version, answer.next_offset, fetched)
            state.finish(answer.version)
        return None

    def _decode(self, answer: _Answer) -> "list[Any]":
        try:
            return decode_records(
                answer.record_set,
                start=answer.start,
                aborted=answer.aborted,
                max_decompressed_bytes=self._options.max_decompressed_bytes,
            )
        except CorruptBatch as error:
            broken = corrupt_batch(answer.state.topic_partition, error)
            answer.state.fail(broken)
            raise broken from error

    # The driver.

    async def _drive(self) -> None:
        while True:
            self._changed.clear()
            pause_s = self._step(asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _step(self, now_s: float) -> float:
        """Begin what can be begun; return how long at most to wait for the next look."""
        max_age_s = self._options.metadata_max_age_ms / 1000
        due = [state for state in self.states.values() if state.error is None and state.not_before_s <= now_s]
        strangers = [each for each in due if self._cluster.known_leader(each.topic_partition) is None]
        if strangers or now_s - self._refreshed_at_s >= max_age_s:
            topics = topics_of(state.topic_partition for state in (strangers or self.states.values()))
            if topics:
                self._begin("metadata", partial(self._refresh, topics, strangers))
        # Committed offsets are asked of the group's coordinator, all else of a leader.
        lost = [
            state
            for state in due
            if self._positioning.is_wanted(state) and (state.wants_committed or state not in strangers)
        ]
        if lost:
            self._begin("positions", partial(self._settle, lost))
        ready = [state for state in due if not self._positioning.is_wanted(state) and state not in strangers]
        self._fetch_all(ready, now_s)
        wake_s = [state.not_before_s for state in self.states.values() if state.not_before_s > now_s]
        return max(min([*wake_s, self._refreshed_at_s + max_age_s, now_s + max_age_s]) - now_s, 0.001)

    def _fetch_all(self, states: Iterable[PartitionState], now_s: float) -> None:
        by_broker: dict[int, list[PartitionState]] = {}
        full: set[int] = set()
        for state in states:
            broker = self._source(state, now_s)
            if broker is None or state.is_paused:
                continue
            if state.buffered >= _BUFFERED_ANSWERS:
                full.add(broker)
            else:
                by_broker.setdefault(broker, []).append(state)
        for broker, wanted in by_broker.items():
            if broker not in self._under_way:
                max_wait_ms = self._options.max_wait_ms
                wait_ms = min(_IMPATIENT_WAIT_MS, max_wait_ms) if broker in full else max_wait_ms
                longest_waiting_first = sorted(wanted, key=lambda each: each.served)
                self._begin(broker, partial(self._fetch, broker, longest_waiting_first, wait_ms))

    def _source(self, state: PartitionState, now_s: float) -> int | None:
        """The broker to fetch a partition from: its leader, or the follower that the leader named not long ago."""
        if state.replica >= 0:
            if now_s < state.replica_until_s and self._cluster.knows(state.replica):
                return state.replica
            state.leave_replica()
        return self._cluster.known_leader(state.topic_partition)

    def _begin(self, key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Do one thing of a kind at a time; a non-retriable failure ends the consumer."""
        if key in self._under_way:
            return

        async def run() -> None:
            try:
                await work()
            except ClientError as error:
                self.fail(error)
            finally:
                self._under_way.pop(key, None)
                self.changed()

        task = self._under_way[key] = asyncio.get_running_loop().create_task(run())
        task.add_done_callback(self._must_not_fail)

    def _must_not_fail(self, task: "asyncio.Task[None]") -> None:
        """A mistake of ours in a task ends the consumer instead of leaving its readers waiting."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("reading ended", exc_info=error)
            self.fail(ClientError(f"reading ended: {error!r}"))

    async def _refresh(self, topics: list[str], strangers: list[PartitionState]) -> None:
        try:
            found = (await self._cluster.metadata(topics)).topics
        except ClientError as error:
            if not error.retriable:
                raise
            log.debug("no metadata: %s", error)
            self._back_off(strangers)
            return
        self._refreshed_at_s = asyncio.get_running_loop().time()
        for state in strangers:
            topic = found.get(state.topic_partition.topic)
            if topic is not None and topic.error and not topic.error.retriable:
                state.fail(KafkaError(topic.error, context=f"topic {topic.name}"))
            elif self._cluster.known_leader(state.topic_partition) is None:
                self._back_off([state])

    async def _settle(self, states: list[PartitionState]) -> None:
        try:
            await self._positioning.settle(states)
        except ClientError as error:
            if not error.retriable:
                raise
            log.debug("positions are not known yet: %s", error)
            self._back_off(states)

    def _back_off(self, states: Iterable[PartitionState]) -> None:
        now_s = asyncio.get_running_loop().time()
        for state in states:
            state.back_off(now_s, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)

    # One fetch.

    async def _fetch(self, broker: int, states: list[PartitionState], max_wait_ms: int) -> None:
        link = self._links.setdefault(broker, _Link())
        round_ = self._next_round(link, states)
        request = self._request(round_, link.asked, max_wait_ms)
        timeout_ms = self._cluster.options.request_timeout_ms + max_wait_ms
        try:
            connection = await self._cluster.connection(broker, lane=self._lane)
            response = await connection.request(fetch_api.API, request, timeout_ms=timeout_ms, least=_FORMAT_2_SINCE)
        except ClientError as error:
            link.session.on_failure()
            if not error.retriable:
                raise
            log.debug("broker %d: fetching again after new metadata: %s", broker, error)
            self._distrust(states)
            return
        code = error_code(response.error_code)
        link.session.on_answer(code, response.session_id)
        if code in _SESSION_LOST and round_.session_epoch:
            return  # the next request names everything
        try:
            raise_for(code)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._distrust(states)
            return
        for topic in response.responses:
            for answer in topic.partition_responses:
                each = TopicPartition(topic.topic, answer.partition)
                asked = link.asked.get(each)
                if asked is None:
                    raise ProtocolViolation(f"broker {broker} answered {each}, which was not asked")
                if answer.record_set or answer.error_code or answer.preferred_read_replica >= 0:
                    # The position may be moved back to where this was asked: then it is asked again.
                    link.session.name_again(each)
                self._accept(answer, asked, broker)

    def _next_round(self, link: _Link, states: list[PartitionState]) -> FetchRound:
        """Tell the session what is wanted now, those that waited longest first."""
        before, session = link.asked, link.session
        link.asked = {}
        for state in states:
            each = state.topic_partition
            asked = _Asked(state, state.version, state.fetch_offset, leader_epoch_of(self._cluster, each))
            link.asked[each] = asked
            session.want(each, Position(asked.offset, _NO_LOG, LeaderEpoch(asked.leader_epoch)))
        for each in [each for each in before if each not in link.asked]:
            session.leave_out(each)
        return session.next_round()

    def _request(self, round_: FetchRound, asked: Mapping[TopicPartition, _Asked], max_wait_ms: int) -> FetchRequest:
        topics: list[FetchTopic] = []
        for each, wanted in asked.items():
            if each not in round_.named:
                continue
            # In the order given, as brokers fill responses in that order.
            if not topics or topics[-1].topic != each.topic:
                topics.append(FetchTopic(each.topic))
            topics[-1].partitions.append(
                FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=wanted.leader_epoch,
                    fetch_offset=wanted.offset,
                    partition_max_bytes=self._options.partition_max_bytes,
                )
            )
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=self._options.min_bytes,
            max_bytes=self._options.max_bytes,
            isolation_level=self._options.isolation_level,
            session_id=round_.session_id,
            session_epoch=round_.session_epoch,
            topics=topics,
            forgotten_topics_data=round_.forgotten_topics(),
            rack_id=self._options.client_rack,
        )

    def _accept(self, answer: FetchablePartitionResponse, asked: _Asked, broker: int) -> None:
        """Take what was read, unless the partition went elsewhere meanwhile."""
        state, version = asked.state, asked.version
        if (state.version, state.fetch_offset) != (version, asked.offset):
            return
        if answer.error_code:
            self._refused(state, error_code(answer.error_code))
            return
        state.succeed()
        # Nothing was read under an older epoch, or it was checked before this was asked.
        state.checked_epoch = max(state.checked_epoch, asked.leader_epoch)
        if answer.preferred_read_replica >= 0 and answer.preferred_read_replica != broker:
            self._go_to(state, answer.preferred_read_replica)
            return
        if answer.record_set is None or not len(answer.record_set):
            return
        record_set = memoryview(answer.record_set)  # type: ignore[arg-type]
        try:
            whole = find_whole_entries(record_set, state.fetch_offset)
        except CorruptBatch as error:
            state.fail(corrupt_batch(state.topic_partition, error))
            return
        if whole.size_bytes:
            self._keep(state, record_set[: whole.size_bytes], whole, answer)

    def _go_to(self, state: PartitionState, replica: int) -> None:
        """The leader says that a follower is nearer (KIP-392)."""
        if self._cluster.knows(replica):
            until_s = asyncio.get_running_loop().time() + self._options.metadata_max_age_ms / 1000
            state.read_from(replica, until_s=until_s)
        else:
            self._distrust([state])

    def _keep(
        self, state: PartitionState, record_set: memoryview, whole: WholeEntries, answer: FetchablePartitionResponse
    ) -> None:
        """Put the whole batches of an answer behind what waits for readers."""
        aborted: list[AbortedRange] = []
        if self._options.isolation_level is IsolationLevel.READ_COMMITTED:
            aborted = [AbortedRange(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        start, state.fetch_offset = state.fetch_offset, whole.next_offset
        if whole.leader_epoch >= 0:
            state.fetch_epoch = whole.leader_epoch
        self._served += 1
        state.served = self._served
        state.buffered += 1
        kept = _Answer(
            state,
            state.version,
            record_set,
            start,
            whole.next_offset,
            whole.leader_epoch,
            answer.high_watermark,
            aborted,
        )
        self._ready.append(kept)

    def _refused(self, state: PartitionState, error: ErrorCode) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.leave_replica() or self._positioning.doubts(state):
                # A follower may lag behind or start later, and a leader may have been deposed: others know.
                self._back_off([state])
                return
            log.info("%s: the log has no offset %d", state.topic_partition, state.fetch_offset)
            self._positioning.reset(state, OffsetOutOfRange(state.topic_partition, state.fetch_offset))
        elif error.retriable:
            self._distrust([state])
        else:
            state.fail(KafkaError(error, context=str(state.topic_partition)))

    def _distrust(self, states: Iterable[PartitionState]) -> None:
        """What is known of these partitions' leaders and replicas may be wrong: ask again, after a pause."""
        for state in states:
            state.leave_replica()
            self._cluster.forget(state.topic_partition.topic)
            self._back_off([state])
