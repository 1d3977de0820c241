"""Fetches the partitions that this broker follows from one leader, over one connection: one task for each such pair.

A round asks where the epochs of new partitions end and cuts their logs (`replication.follower`), then sends one Fetch
of the session (`barnabas.client.fetch_session`) and applies its answer partition by partition, letting the loop turn
every 2 ms or 1 MiB. What has to wait for a disk (a slow directory, a cut, `flush.messages=1`) goes on in a task of its
own while the partition is left out of the session, so the others do not wait; what such tasks hold in bytes is bounded.

A partition that fails is delayed or stopped by itself; only a connection that fails holds up all of them. Everything
that is done to a log names the leader epoch under which it was asked, and is refused when that is over.

Idle, a round is one empty request for replica.fetch.wait.max.ms, whatever the number of partitions.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

from barnabas.client.errors import ClientError, KafkaError, error_code
from barnabas.client.fetch_session import FetcherSession, Position
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerId, TopicPartition
from barnabas.protocol.messages import fetch
from barnabas.protocol.messages.fetch import FetchablePartitionResponse, FetchRequest, FetchResponse
from barnabas.storage.append import AppendRejected
from barnabas.storage.index import CorruptIndex
from barnabas.storage.scan import CorruptSegment
from barnabas.storage.truncation import is_cut_by
from replication.acknowledgements import PartitionRefused
from replication.fetcher_ports import FetcherPorts, FetcherSettings, LeaderConnection
from replication.followed import Followed
from replication.follower import (
    AskAgain,
    FetchFrom,
    OnFetchError,
    Phase,
    TruncateTo,
    decide_on_fetch_error,
    decide_restart,
    decide_truncation,
    epoch_to_ask,
)
from replication.kept_starts import KeptStarts
from replication.leader_line import LeaderLine
from replication.leader_questions import EARLIEST, LATEST, ask_epoch_ends, ask_offsets, records_of
from replication.replica import Replica

log = logging.getLogger(__name__)

NEWEST_FETCH_VERSION: Final = 11
"""Followers need nothing of 12. Its answers end with three bytes behind the last slice of a file: another call for the
leader and, where the socket's buffer is full by then, another turn of the loop at both ends.
"""
_TURN_US: Final = 2_000
_TURN_BYTES: Final = 1024 * 1024
_ASKED_AT_ONCE: Final = 1_000
_LEAST_DELAY_MS: Final = 50
"""The first delay after an error; each further one is twice as long, up to replica.fetch.backoff.ms."""
_SOON_MS: Final = 10
"""How long others are waited for where a partition is busy, and how long a fetch is parked then."""
_THROTTLED_MS: Final = 100
"""How long a replica that the quota holds up is left out before it is looked at again."""
_POSITIONS_EACH_MS: Final = 30_000
"""How often all positions are looked at: retention here moves the start of a log that nobody writes to."""
_OF_A_LOG: Final = (PartitionRefused, AppendRejected, CorruptSegment, CorruptIndex)
"""What goes wrong with one partition's log."""
_SESSION_ERRORS: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class Fetcher:
    """See the module. `run` is its task."""

    def __init__(self, leader_id: BrokerId, index: int, settings: FetcherSettings, ports: FetcherPorts) -> None:
        self.leader_id = leader_id
        self._settings = settings
        self._ports = ports
        self._now_ms = ports.clock.monotonic_ms
        self._line = LeaderLine(leader_id, f"broker-{settings.replica_id}-fetcher-{index}", ports)
        self._session = FetcherSession()
        self._partitions: dict[TopicPartition, Followed] = {}
        self._truncating: dict[TopicPartition, Followed] = {}
        self._delayed: dict[TopicPartition, Followed] = {}
        self._busy: dict[asyncio.Task[None], None] = {}
        self._busy_bytes = 0
        self._starts = KeptStarts(self._spawn_busy, self._on_start_kept)
        self._wake = asyncio.Event()
        self._positions_due_ms = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, replica: Replica) -> None:
        """Follow a partition in its replica's present leader epoch, from truncation on."""
        self.unfollow(replica.topic_partition)
        followed = self._partitions[replica.topic_partition] = Followed(replica)
        self._resume(followed)
        self._wake.set()

    def unfollow(self, topic_partition: TopicPartition) -> None:
        """Fetch the partition no more. What is being done to its log ends by itself, under its epoch."""
        if self._partitions.pop(topic_partition, None) is not None:
            self._truncating.pop(topic_partition, None)
            self._delayed.pop(topic_partition, None)
            self._session.leave_out(topic_partition)

    @property
    def max_lag(self) -> int:
        return max((followed.lag or 0 for followed in self._partitions.values()), default=0)

    @property
    def stopped_partitions(self) -> int:
        return sum(followed.phase is Phase.STOPPED for followed in self._partitions.values())

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            while True:
                await self._wait_for_something_to_ask()
                try:
                    await self._round()
                except ClientError as error:
                    self._line.lose(error)
                    await asyncio.sleep(self._backoff_ms(self._line.failures) / 1000)
                else:
                    self._line.works()
        finally:
            self._line.close("the fetcher stops")

    # Rounds.

    async def _wait_for_something_to_ask(self) -> None:
        self._resume_delayed()
        while not self._truncating and not len(self._session):
            self._wake.clear()
            due_ms = min((followed.delayed_until_ms for followed in self._delayed.values()), default=None)
            try:
                async with asyncio.timeout(None if due_ms is None else max(0, due_ms - self._now_ms()) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._resume_delayed()

    async def _round(self) -> None:
        connection = self._line.current()
        if connection is None:
            self._session.on_failure()
            connection = await self._line.open()
        if self._truncating:
            await self._truncate(connection)
        if len(self._session) and not self._truncating:
            await self._fetch(connection)

    def _backoff_ms(self, failures: int) -> int:
        """Of the n-th failure in a row."""
        return min(_LEAST_DELAY_MS << min(failures - 1, 16), self._settings.backoff_ms)

    # What is next for a partition.

    def _is_current(self, followed: Followed) -> bool:
        return self._partitions.get(followed.topic_partition) is followed

    def _resume(self, followed: Followed) -> None:
        """Let the next round ask what the partition needs."""
        if not self._is_current(followed) or followed.is_busy:
            return
        topic_partition = followed.topic_partition
        if followed.phase is Phase.TRUNCATING:
            self._truncating[topic_partition] = followed
        elif self._is_held(followed):
            self._delay(followed, _THROTTLED_MS)
        elif followed.phase is Phase.FETCHING and followed.is_ahead_of_disk:
            self._start(followed, followed.flush())
        elif followed.phase is Phase.FETCHING:
            log_ = followed.replica.log
            # Only a durable start is told: a leader answers DeleteRecords on the strength of it.
            position = Position(log_.log_end_offset, log_.durable_start_offset, followed.leader_epoch)
            self._session.want(topic_partition, position)
            if followed.replica.has_start_to_keep:
                self._starts.keep(followed.replica)

    def _on_start_kept(self, topic_partition: TopicPartition) -> None:
        if (followed := self._partitions.get(topic_partition)) is not None:
            self._resume(followed)

    def _is_held(self, followed: Followed) -> bool:
        """Whether the quota holds it up: one that is throttled and lags, or has not been told yet that it does not."""
        is_throttled = followed.replica.throttled_as_follower and followed.lag != 0
        return is_throttled and followed.phase is Phase.FETCHING and self._ports.quota.is_exceeded(self._now_ms())

    def _set_aside(self, followed: Followed) -> None:
        """Let no round ask for the partition."""
        self._truncating.pop(followed.topic_partition, None)
        self._session.leave_out(followed.topic_partition)

    def _delay(self, followed: Followed, delay_ms: int) -> None:
        if self._is_current(followed):
            self._set_aside(followed)
            followed.delay(self._now_ms() + delay_ms)
            self._delayed[followed.topic_partition] = followed

    def _resume_delayed(self) -> None:
        now_ms = self._now_ms()
        if self._positions_due_ms <= now_ms:
            self._positions_due_ms = now_ms + _POSITIONS_EACH_MS
            for topic_partition, followed in self._partitions.items():
                if self._session.wanted(topic_partition) is not None:
                    self._resume(followed)
        if self._delayed:
            for followed in [each for each in self._delayed.values() if each.delayed_until_ms <= now_ms]:
                del self._delayed[followed.topic_partition]
                self._resume(followed)

    def _stop(self, followed: Followed, why: str) -> None:
        if self._is_current(followed):
            self._set_aside(followed)
            followed.phase = Phase.STOPPED
            log.info("%s: not fetched any more in epoch %d: %s", followed.topic_partition, followed.leader_epoch, why)

    def _on_error(self, followed: Followed, error: ErrorCode, *, may_find_range: bool = False) -> bool:
        """Do what an error of the leader means; whether its range is to be found."""
        match decide_on_fetch_error(error, may_find_range=may_find_range):
            case OnFetchError.FIND_RANGE:
                return True
            case OnFetchError.WAIT_FOR_EPOCH:
                self._stop(followed, error.name)
            case OnFetchError.DELAY:
                followed.failures += 1
                if followed.failures == 1:
                    log.info("%s: broker %d answers %s", followed.topic_partition, self.leader_id, error.name)
                self._delay(followed, self._backoff_ms(followed.failures))
        return False

    async def _guarded(self, followed: Followed, work: Coroutine[Any, Any, None]) -> None:
        """Do something to a partition's log; what goes wrong there stays there."""
        try:
            await work
        except _OF_A_LOG as error:
            self._on_failure(followed, error)
        else:
            followed.failures = 0
            self._resume(followed)

    def _on_failure(self, followed: Followed, error: Exception) -> None:
        """What was to be done to a partition's log was not."""
        if isinstance(error, PartitionRefused):
            if error.error is ErrorCode.KAFKA_STORAGE_ERROR:
                self._stop(followed, "its log directory is offline")
            elif self._is_current(followed):
                # The role has changed, and whoever changed it says so next.
                self._set_aside(followed)
            return
        followed.failures += 1
        if isinstance(error, AppendRejected):
            partition, leader_id = followed.topic_partition, self.leader_id
            log.error("%s: what broker %d sent cannot be appended: %s", partition, leader_id, error)
        elif followed.failures == 1:
            # The scrubber has been told, and what it finds is mended, or cut away the next time.
            log.error("%s: its log cannot be read: %s", followed.topic_partition, error)
        self._delay(followed, self._backoff_ms(followed.failures))

    def _start(self, followed: Followed, work: Coroutine[Any, Any, None], held_bytes: int = 0) -> None:
        """As `_guarded`, while the others go on."""
        followed.is_busy = True
        self._set_aside(followed)
        self._busy_bytes += held_bytes
        self._spawn_busy(self._carry_out(followed, work, held_bytes), f"fetch {followed.topic_partition}")

    def _spawn_busy(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._ports.spawn(work, name=name)
        self._busy[task] = None
        task.add_done_callback(lambda done: self._busy.pop(done, None))

    async def _carry_out(self, followed: Followed, work: Coroutine[Any, Any, None], held_bytes: int) -> None:
        try:
            await self._guarded(followed, work)
        finally:
            self._busy_bytes -= held_bytes
            followed.is_busy = False
        if followed.delayed_until_ms <= self._now_ms():
            self._resume(followed)
        self._wake.set()

    # Truncation.

    async def _truncate(self, connection: LeaderConnection) -> None:
        """Ask where the epochs of new partitions end, and cut their logs."""
        asked: dict[TopicPartition, tuple[Followed, int]] = {}
        for topic_partition, followed in list(self._truncating.items())[:_ASKED_AT_ONCE]:
            log_ = followed.replica.log
            epoch = epoch_to_ask(log_.leader_epochs)
            if epoch is None:
                self._cut(followed, TruncateTo(log_.high_watermark))
            else:
                asked[topic_partition] = followed, epoch
        if not asked:
            return
        unanswered = dict(asked)
        answers = await ask_epoch_ends(
            connection,
            {at: (followed.leader_epoch, epoch) for at, (followed, epoch) in asked.items()},
            replica_id=self._settings.replica_id,
            timeout_ms=self._settings.socket_timeout_ms,
        )
        for topic_partition, answer in answers:
            if topic_partition not in unanswered:
                continue
            followed, _ = unanswered.pop(topic_partition)
            if self._truncating.get(topic_partition) is not followed:
                continue
            if answer.error is not ErrorCode.NONE:
                self._on_error(followed, answer.error)
                continue
            log_ = followed.replica.log
            step = decide_truncation(
                log_.leader_epochs,
                log_end_offset=log_.log_end_offset,
                high_watermark=log_.high_watermark,
                answer=answer.end,
            )
            self._cut(followed, step)
        for followed, _ in unanswered.values():
            self._on_error(followed, ErrorCode.UNKNOWN_SERVER_ERROR)

    def _cut(self, followed: Followed, step: TruncateTo | AskAgain) -> None:
        if is_cut_by(followed.replica.log, step.offset):
            self._start(followed, self._cut_log(followed, step))
        else:
            assert isinstance(step, TruncateTo), "a question that is asked again cuts at least an epoch"
            self._agree(followed)

    async def _cut_log(self, followed: Followed, step: TruncateTo | AskAgain) -> None:
        await followed.put(step)
        if isinstance(step, TruncateTo):
            self._agree(followed)

    def _agree(self, followed: Followed) -> None:
        """The log holds nothing that the leader's does not: fetch."""
        followed.phase = Phase.FETCHING
        followed.failures = 0
        self._truncating.pop(followed.topic_partition, None)
        self._resume(followed)

    # Fetching.

    async def _fetch(self, connection: LeaderConnection) -> None:
        settings, session = self._settings, self._session
        round_ = session.next_round()
        request = FetchRequest(
            replica_id=settings.replica_id,
            max_wait_ms=self._parked_ms(),
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=round_.session_id,
            session_epoch=round_.session_epoch,
            topics=round_.topics(settings.partition_max_bytes),
            forgotten_topics_data=round_.forgotten_topics(),
        )
        response: FetchResponse = await connection.request(
            fetch.API, request, timeout_ms=settings.socket_timeout_ms, most=NEWEST_FETCH_VERSION
        )
        self._ports.count.requests += 1
        error = error_code(response.error_code)
        session.on_answer(error, response.session_id)
        if error is ErrorCode.NONE:
            await self._apply(connection, response)
        elif error not in _SESSION_ERRORS:
            raise KafkaError(error, context=f"broker {self.leader_id} answers a fetch")

    def _parked_ms(self) -> int:
        """How long the leader may wait for records."""
        if self._busy:
            return min(_SOON_MS, self._settings.wait_max_ms)
        if self._delayed:
            due_ms = min(followed.delayed_until_ms for followed in self._delayed.values())
            return min(max(due_ms - self._now_ms(), _SOON_MS), self._settings.wait_max_ms)
        return self._settings.wait_max_ms

    async def _apply(self, connection: LeaderConnection, response: FetchResponse) -> None:
        """Apply the answer, partition by partition."""
        session, clock = self._session, self._ports.clock
        out_of_range: list[Followed] = []
        has_appended = False
        turn_bytes, turn_ends_us = 0, clock.monotonic_us() + _TURN_US
        for topic in response.responses:
            for answer in topic.partition_responses:
                topic_partition = TopicPartition(topic.topic, answer.partition)
                followed = self._partitions.get(topic_partition)
                asked = session.asked(topic_partition)
                if followed is None or asked is None or session.wanted(topic_partition) != asked:
                    continue
                if answer.error_code:
                    error = error_code(answer.error_code)
                    if self._on_error(followed, error, may_find_range=True):
                        out_of_range.append(followed)
                    continue
                size = len(answer.record_set or b"")
                if size and followed.waits_for_disk:
                    self._take_beside(followed, answer, size)
                    continue
                left = self._take_at_once(followed, answer, size)
                if left is not None:
                    if len(left) < size:
                        # Thousands of old messages: others have their turn.
                        await asyncio.sleep(0)
                    await self._guarded(followed, self._take(followed, answer, left))
                has_appended = has_appended or size > 0
                turn_bytes += size
                if turn_bytes >= _TURN_BYTES or clock.monotonic_us() >= turn_ends_us:
                    await asyncio.sleep(0)
                    turn_bytes, turn_ends_us = 0, clock.monotonic_us() + _TURN_US
        if out_of_range:
            await self._find_ranges(connection, out_of_range)
        if self._busy and not has_appended:
            # What was written meanwhile needs not be left out of the next request.
            await asyncio.wait(self._busy, timeout=_SOON_MS / 1000)

    def _take_at_once(self, followed: Followed, answer: FetchablePartitionResponse, size: int) -> memoryview | None:
        """Take what the leader gave, as far as nothing has to be waited for; what is left, None too if it failed."""
        self._count(followed, size)
        try:
            left = followed.take_at_once(
                records_of(answer), high_watermark=answer.high_watermark, log_start_offset=answer.log_start_offset
            )
        except _OF_A_LOG as error:
            self._on_failure(followed, error)
            return None
        if left is None:
            followed.failures = 0
            self._resume(followed)
        return left

    def _take(
        self, followed: Followed, answer: FetchablePartitionResponse, records: memoryview
    ) -> Coroutine[Any, Any, None]:
        return followed.take(records, high_watermark=answer.high_watermark, log_start_offset=answer.log_start_offset)

    def _count(self, followed: Followed, received_bytes: int) -> None:
        self._ports.count.received_bytes += received_bytes
        if followed.replica.throttled_as_follower:
            self._ports.quota.record(received_bytes, self._now_ms())

    def _take_beside(self, followed: Followed, answer: FetchablePartitionResponse, size: int) -> None:
        if self._busy and self._busy_bytes + size > self._settings.response_max_bytes:
            # Not kept: it is asked for again when there is room.
            self._delay(followed, _SOON_MS)
            return
        self._count(followed, size)
        records = records_of(answer)
        if 2 * size < memoryview(records.obj).nbytes:
            # A copy, so that the whole answer does not stay in memory as long as this small part of it.
            records = memoryview(bytearray(records))
        self._start(followed, self._take(followed, answer, records), memoryview(records.obj).nbytes)

    # Out of range.

    async def _find_ranges(self, connection: LeaderConnection, partitions: list[Followed]) -> None:
        """Ask for the leader's ends and starts, and put these logs where they can go on."""
        wanted = {followed.topic_partition: followed for followed in partitions}
        ends = await self._ask_offsets(connection, wanted, LATEST)
        starts = await self._ask_offsets(connection, {at: wanted[at] for at in ends}, EARLIEST)
        for topic_partition, start in starts.items():
            followed = wanted[topic_partition]
            end_offset = followed.replica.log.log_end_offset
            step = decide_restart(
                log_end_offset=end_offset, leader_start_offset=start, leader_end_offset=ends[topic_partition]
            )
            log.warning(
                "%s: offset %d is out of the range of broker %d, %d to %d",
                topic_partition,
                end_offset,
                self.leader_id,
                start,
                ends[topic_partition],
            )
            if isinstance(step, FetchFrom):
                # The leader has it by now.
                self._delay(followed, _LEAST_DELAY_MS)
            else:
                self._start(followed, followed.put(step))

    async def _ask_offsets(
        self, connection: LeaderConnection, wanted: dict[TopicPartition, Followed], timestamp: int
    ) -> dict[TopicPartition, int]:
        answers = await ask_offsets(
            connection,
            {at: followed.leader_epoch for at, followed in wanted.items()},
            timestamp=timestamp,
            replica_id=self._settings.replica_id,
            timeout_ms=self._settings.socket_timeout_ms,
        )
        found: dict[TopicPartition, int] = {}
        for topic_partition, answer in answers:
            followed = wanted.get(topic_partition)
            if followed is None or not self._is_current(followed):
                continue
            if answer.error is ErrorCode.NONE:
                found[topic_partition] = answer.offset
            else:
                self._on_error(followed, answer.error)
        return found
