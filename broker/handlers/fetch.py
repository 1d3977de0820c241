"""Fetch (API key 1), versions 0 to 12: records of partitions, straight from their segments.

Clients are served by leaders, from version 11 on by followers too, and read what is committed; followers read their
leader's log to its end, and what they ask for tells the leader what they have (`broker.fetch_reader`).

Behaviour: the answer leaves when `min_bytes` are there, a partition has an error, a follower's next request is waited
for (`replication.leadership_proof`), or `max_wait_ms` are over. A connection's next request starts after that, as in
Kafka. Records are slices of segment files, and are not copied but where they have to be checked or converted.
A read_committed client gets nothing at or above the last stable offset, and the list of aborted transactions.

Versions: 3 adds the limit of the whole answer (KIP-74), 4 format 2, isolation and the last stable offset (KIP-98),
5 the log start offset (KIP-107), 7 sessions (KIP-227), 9 the leader epoch that fences (KIP-320), 10 zstd (KIP-110),
11 the rack and the replica that is preferred there (KIP-392), 12 the last fetched epoch and where logs diverge
(KIP-595).

What a debugging consumer (replica id -2) gets goes to the log's end too, and is checked (`broker.fetch_check`).

Consumers of versions 0 to 3 do not know format 2, those of 0 and 1 not format 1: records are converted for them, in
turns, while the connection waits (`broker.fetch_conversion`). A request of a follower that is not in the assignment is
answered without records, as in Kafka.
"""

import asyncio
from typing import Any, Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.messages import fetch as messages
from barnabas.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from barnabas.runtime.completion import Completion
from broker.down_conversion import BATCHES_SINCE, PARTITION_BYTES
from broker.fetch_check import check_reads
from broker.fetch_conversion import ZSTD_SINCE, convert_reads, refuse_zstd
from broker.fetch_gathering import MAX_TICKS, TICK_MS
from broker.fetch_reader import FetchReader, PartitionRead, release
from broker.fetch_sessions import FINAL_EPOCH, FetchPlan, FetchSessions, WantedPartition
from broker.metrics import FOLLOWER_FETCH
from broker.registry import Handler
from broker.request_context import RequestContext
from replication.leader_questions import DEBUGGING_CONSUMER
from replication.partition import Partition

_SESSIONS_SINCE: Final = 7


def handle(request: FetchRequest, context: RequestContext) -> Any:
    """Answer now if that is due, else a completion that is done when it is."""
    plan = _plan(request, context)
    if plan.error is not ErrorCode.NONE:
        key = FOLLOWER_FETCH if request.replica_id >= 0 else messages.API.key
        context.broker.metrics.count_error(key, plan.error)
        return FetchResponse(error_code=plan.error)
    fetch = _Fetch(request, context, plan)
    if fetch.answers_later:
        return fetch.answer_later()
    return fetch.answer() if fetch.read() else fetch.park()


def _plan(request: FetchRequest, context: RequestContext) -> FetchPlan:
    is_follower = request.replica_id >= 0
    # A partition that is named twice is asked for as it was named last, in its first place, as in Kafka.
    wanted = {
        (topic.topic, partition.partition): WantedPartition(
            TopicPartition(topic.topic, partition.partition),
            fetch_offset=partition.fetch_offset,
            max_bytes=partition.partition_max_bytes,
            current_leader_epoch=partition.current_leader_epoch,
            last_fetched_epoch=partition.last_fetched_epoch,
            log_start_offset=partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    return context.broker.fetch_sessions.plan(
        session_id=request.session_id,
        session_epoch=request.session_epoch if context.version >= _SESSIONS_SINCE else FINAL_EPOCH,
        wanted=list(wanted.values()),
        forgotten=[
            TopicPartition(topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ],
        is_follower=is_follower,
        broker_epoch=context.broker.metadata.broker_epoch_of(BrokerId(request.replica_id)) if is_follower else None,
    )


def _is_proven(request: FetchRequest, context: RequestContext, plan: FetchPlan) -> bool:
    """Whether a follower's request is surely of its broker's present registration (KIP-903).

    The first request of a session may have been under way since an earlier life of the follower; who goes on in a
    session has had its answer.
    """
    if plan.session is not None or request.replica_id < 0:
        return plan.is_incremental
    replica_id = BrokerId(request.replica_id)
    return context.follower_line.proves(replica_id, context.broker.metadata.broker_epoch_of(replica_id))


class _Fetch:
    """One request under way; a watcher of its partitions while it is parked."""

    __slots__ = (
        "_context",
        "_gathered_from",
        "_grew",
        "_is_due",
        "_is_follower",
        "_looks_again",
        "_min_bytes",
        "_parked",
        "_plan",
        "_reader",
        "_reads",
        "_request",
        "_tells_watermark",
        "_ticks",
        "_timer",
        "_watched",
        "answers_later",
    )

    def __init__(self, request: FetchRequest, context: RequestContext, plan: FetchPlan) -> None:
        self._request = request
        self._context = context
        self._plan = plan
        limit = context.broker.config.fetch_max_bytes
        # No more is read at a time of a partition that may have to be converted: not worth a wait.
        is_old = context.version < BATCHES_SINCE
        self._min_bytes = min(request.min_bytes, PARTITION_BYTES) if is_old else request.min_bytes
        self.answers_later = is_old or request.replica_id == DEBUGGING_CONSUMER
        """Whether there is something to do with what was read before it is sent: see `answer_later`."""
        self._reader = FetchReader(
            context.broker,
            version=context.version,
            replica_id=request.replica_id,
            isolation_level=request.isolation_level,
            max_bytes=request.max_bytes if request.replica_id >= 0 else min(request.max_bytes, limit),
            client_rack=request.rack_id,
            listener_name=context.listener_name,
            is_proven=_is_proven(request, context, plan),
            heard_at=context.follower_line.heard_at(request.replica_id),
        )
        self._is_follower = request.replica_id >= 0
        # Consumers that read from followers should not wait for the next poll to see what is committed (KAFKA-9731).
        self._tells_watermark = self._is_follower and context.broker.config.replica_selector is not None
        self._reads: list[PartitionRead] = []
        self._watched: list[Partition] = []
        self._timer: asyncio.TimerHandle
        self._parked: Completion[Any] | None = None
        self._is_due = False
        self._looks_again = False
        self._gathered_from: int | None = None
        """What was there when the wait for more began; None while there is no such wait."""
        self._grew = False
        self._ticks = 0

    def read(self) -> bool:
        """Read; whether that is enough to answer now. What was read is kept only then."""
        plan = self._plan
        wanted = FetchSessions.dirty_of(plan.session) if plan.is_incremental and plan.session else plan.wanted
        reads = self._reader.read(wanted, plan.session)
        size = unknown = 0
        at_once = self._request.max_wait_ms <= 0 or self._is_due
        for read in reads:
            size += read.size_bytes
            if read.is_unknown:
                unknown += 1
            else:
                at_once = at_once or read.ends_the_wait or self._is_news(read)
        # As Kafka: what nobody knows does not end the wait for the others, so a client whose topic was deleted does
        # not ask in a tight loop.
        nothing_to_wait_for = unknown == (len(plan.session.partitions) if plan.session else len(wanted))
        if at_once or nothing_to_wait_for or (size >= self._min_bytes and not self._gathers(size)):
            self._reads = reads
            return True
        release(reads)
        return False

    def _gathers(self, size_bytes: int) -> bool:
        """Whether a follower's fetch that could be answered waits for more (`broker.fetch_gathering`)."""
        session = self._plan.session
        if not self._is_follower or session is None:
            return False
        if self._gathered_from is not None:
            session.gathering.on_end(size_bytes - self._gathered_from)
            return False
        if not session.gathering.begins(size_bytes):
            return False
        self._gathered_from = size_bytes
        asyncio.get_running_loop().call_later(TICK_MS / 1000, self._on_tick)
        return True

    def _on_tick(self) -> None:
        self._ticks += 1
        if self._grew and self._ticks < MAX_TICKS:
            self._grew = False
            asyncio.get_running_loop().call_later(TICK_MS / 1000, self._on_tick)
        else:
            self._look_again()

    def _is_news(self, read: PartitionRead) -> bool:
        """Whether a follower should hear of the high watermark at once."""
        return self._tells_watermark and read.high_watermark > read.wanted.sent_high_watermark >= 0

    # Waiting.

    def park(self) -> Completion[Any]:
        """Wait for a change of a partition, or for the time to be over; the result is the answer.

        Of who `answers_later` it is None.
        """
        parked: Completion[Any] = Completion()
        self._parked = parked
        self._timer = asyncio.get_running_loop().call_later(self._request.max_wait_ms / 1000, self._on_due)
        session = self._plan.session
        if session is not None:
            session.park(self)
        else:
            replicas = self._context.broker.replicas
            for wanted in self._plan.wanted:
                partition = replicas.partition(wanted.topic_partition)
                if partition is not None:
                    if self._is_follower:
                        partition.watch_end(self)
                    else:
                        partition.watch(self)
                    self._watched.append(partition)

        # A method and no function in here: compiled, those that name each other are a cycle, left to the collector.
        parked.add_done_callback(self._leave)
        return parked

    def _leave(self, _: Completion[Any]) -> None:
        self._timer.cancel()
        if self._plan.session is not None:
            self._plan.session.unpark(self)
        for partition in self._watched:
            partition.unwatch(self)
            partition.unwatch_end(self)

    def partition_changed(self, topic_partition: TopicPartition) -> None:  # noqa: ARG002 - the read finds which
        self._look_again_soon()

    def watermark_changed(self, topic_partition: TopicPartition) -> None:  # noqa: ARG002
        if self._tells_watermark:
            self._look_again_soon()

    def interrupted(self) -> None:
        """The session is over, or another request waits in this one's place: answer with what is there."""
        self._is_due = True
        self._look_again_soon()

    def _look_again_soon(self) -> None:
        if self._gathered_from is not None and not self._is_due:
            self._grew = True
        elif not self._looks_again:
            self._looks_again = True
            asyncio.get_running_loop().call_soon(self._look_again)

    def _on_due(self) -> None:
        self._is_due = True
        self._look_again()

    def _look_again(self) -> None:
        self._looks_again = False
        parked = self._parked
        if parked is None or parked.done():
            return
        try:
            if not self.read():
                return
            answer = None if self.answers_later else self.answer()
        except Exception as error:  # noqa: BLE001 - the connection tells it and ends
            release(self._reads)
            parked.set_exception(error)
            return
        parked.set_result(answer)

    # Answering.

    async def answer_later(self) -> FetchResponse:
        """Read, check or convert (versions 0 to 3) what was read, and answer.

        All of it in here: one that is given up before it begins holds nothing.
        """
        if not self.read():
            try:
                await self.park()
            except asyncio.CancelledError:
                # It may have read, and been given up before it went on.
                release(self._reads)
                raise
        broker, version = self._context.broker, self._context.version
        if self._request.replica_id == DEBUGGING_CONSUMER:
            await check_reads(self._reads, broker)
        if version < BATCHES_SINCE:
            await convert_reads(self._reads, broker, version=version, is_follower=self._is_follower)
        return self.answer()

    def answer(self) -> FetchResponse:
        plan = self._plan
        session = plan.session
        topics: list[FetchableTopicResponse] = []
        if self._context.version < ZSTD_SINCE:
            refuse_zstd(self._reads, self._context.broker)
        if self._is_follower:
            self._reader.count_throttled(self._reads)
            moment = next(self._context.broker.replicas.ports.order)
            self._context.follower_line.on_answer(self._request.replica_id, moment)
        metrics = self._context.broker.metrics
        for read in self._reads:
            wanted = read.wanted
            if session is not None and not _belongs_in_answer(read, plan):
                continue
            topic = wanted.topic_partition.topic
            if not topics or topics[-1].topic != topic:
                topics.append(FetchableTopicResponse(topic=topic))
            topics[-1].partition_responses.append(_answer_of(read))
            if read.error is ErrorCode.NONE:
                traffic = metrics.topic(topic)
                traffic.fetch_requests += 1
                if self._is_follower:
                    metrics.replication_bytes_out += read.size_bytes
                else:
                    traffic.bytes_out += read.size_bytes
            else:
                metrics.count_error(FOLLOWER_FETCH if self._is_follower else messages.API.key, read.error)
                if not read.is_unknown:
                    metrics.topic(topic).failed_fetch_requests += 1
        return FetchResponse(session_id=plan.session_id, responses=topics)


def _belongs_in_answer(read: PartitionRead, plan: FetchPlan) -> bool:
    """Update what the session knows was sent; whether an incremental answer names the partition."""
    session, wanted = plan.session, read.wanted
    assert session is not None
    changed = (
        read.ends_the_wait
        or wanted.tells_again
        or read.size_bytes > 0
        or read.high_watermark != wanted.sent_high_watermark
        or read.log_start_offset != wanted.sent_log_start_offset
    )
    wanted.tells_again = False
    wanted.sent_high_watermark = read.high_watermark
    wanted.sent_log_start_offset = read.log_start_offset
    topic_partition = wanted.topic_partition
    if not (read.ends_the_wait or read.has_more):
        session.dirty.pop(topic_partition, None)
    elif plan.is_incremental and (read.size_bytes or read.ends_the_wait):
        # It was heard: the next time those come first that were not, for want of room.
        session.dirty.pop(topic_partition, None)
        session.dirty[topic_partition] = None
    return changed or not plan.is_incremental


def _answer_of(read: PartitionRead) -> FetchablePartitionResponse:
    answer = FetchablePartitionResponse(
        partition=read.wanted.topic_partition.partition,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=read.aborted,
        preferred_read_replica=read.preferred_replica,
        record_set=read.records if read.records is not None else read.converted or b"",
    )
    if read.diverging is not None:
        answer.diverging_epoch = read.diverging
    return answer


API: Final[Handler] = Handler(messages.API, handle, oldest=0, newest=12)
