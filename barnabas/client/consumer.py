"""The consumer: reads partitions that it is told, or its share of topics as a member of a group.

    async with Consumer(cluster, ConsumerOptions(group_id="readers")) as consumer:
        await consumer.subscribe(["orders"])
        async for batch in consumer.batches():
            handle(batch.records)

Records come in batches as they were fetched, in order within a partition; `records` gives them one by one. Several
streams may run at once: each batch goes to one of them, and a partition is in one stream's hands at a time.

A batch counts as worked on when its stream asks for the next one. Automatic commits and those before partitions go to
another member commit what was worked on; `commit` commits the positions, which are behind everything handed out. A
stream that is left in the middle of a batch leaves that batch unfinished: it comes again to whoever reads on from the
committed offset. A rebalance waits for the batches in hand, up to `max_poll_interval_ms`.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, Self

from barnabas.client.cluster import Cluster
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions
from barnabas.client.coordinators import Coordinators, GroupMetadata, OffsetAndMetadata
from barnabas.client.errors import ClientError
from barnabas.client.fetched_records import FetchedRecords
from barnabas.client.fetcher import Fetcher, Handed
from barnabas.client.group_offsets import GroupOffsets
from barnabas.client.membership import Membership
from barnabas.client.partition_state import PartitionState
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[TopicPartition]], Awaitable[None]]
"""Hears which partitions come or go, before the first or after the last record of them."""

EARLIEST: Final = -2
LATEST: Final = -1


class ConsumedRecord(NamedTuple):
    """A record with where it is from."""

    topic_partition: TopicPartition
    record: Record


class NotAssigned(ClientError):
    """The consumer does not read that partition."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(f"{topic_partition} is not assigned to this consumer")


class Consumer:
    """Use it as an asynchronous context manager: leaving it commits what was worked on and leaves the group."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions | None = None,
        *,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """`on_revoked` may still commit; `on_lost` hears of partitions that others may have already."""
        self._cluster = cluster
        self._options = options or ConsumerOptions()
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost or on_revoked
        self._offsets: GroupOffsets | None = None
        if self._options.group_id is not None:
            self._offsets = GroupOffsets(
                cluster,
                Coordinators(cluster, lane=("offsets", self)),
                self._options.group_id,
                on_outside=self._on_outside,
            )
        committed = None if self._offsets is None else self._offsets.committed
        self._fetcher = Fetcher(cluster, self._options, committed=committed, lane=("fetch", self))
        self._topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._membership: Membership | None = None
        self._asked = asyncio.Event()
        self._asked_at_s = 0.0
        self._committed: dict[TopicPartition, int] = {}
        self._in_hand: dict[int, tuple[Handed, GroupMetadata]] = {}
        """What streams have handed out and are not asked to go on from, and as whom the consumer had it."""

        self._committer: asyncio.Task[None] | None = None
        self._is_closing = False

    async def __aenter__(self) -> Self:
        self._fetcher.start()
        if self._offsets is not None and self._options.auto_commit_interval_ms is not None:
            self._committer = asyncio.get_running_loop().create_task(self._commit_now_and_then())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Commit what was worked on, leave the group, stop reading."""
        self._is_closing = True
        if self._committer is not None:
            self._committer.cancel()
            await asyncio.gather(self._committer, return_exceptions=True)
        await self.unsubscribe()
        if self._offsets is not None:
            await self._offsets.close(timeout_ms=self._cluster.options.request_timeout_ms)
        await self._fetcher.close()
        for lane in ("offsets", "fetch", "group"):
            await self._cluster.close_lane((lane, self))

    # What is read.

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, outside of any group.

        Reading begins at the committed offset where a group id is given, otherwise where `offset_reset` says.
        """
        assert self._membership is None, "unsubscribe first"
        wanted = dict.fromkeys(partitions)
        for each in [each for each in self._fetcher.states if each not in wanted]:
            self._fetcher.states.pop(each).abandon()
        for each in wanted:
            if each not in self._fetcher.states:
                self._fetcher.states[each] = PartitionState(each, wants_committed=True)
        self._fetcher.changed()

    async def subscribe(self, topics: Iterable[str] = (), *, pattern: re.Pattern[str] | None = None) -> None:
        """Read a share of these topics, or of all whose whole name `pattern` matches, as a member of the group.

        A later call replaces the subscription. With a pattern internal topics are left out.
        """
        assert self._options.group_id is not None, "a group id is needed"
        assert self._membership is not None or not self._fetcher.states, "unsubscribe first"
        self._topics, self._pattern = sorted(set(topics)), pattern
        assert bool(self._topics) != (pattern is not None), "topics or a pattern"
        if self._membership is not None:
            self._membership.rejoin("the subscription changed")
            return
        self._asked_at_s = asyncio.get_running_loop().time()
        self._membership = Membership(self._cluster, self._options, self, lane=("group", self))
        self._membership.start()

    async def unsubscribe(self) -> None:
        """Read nothing. Commits what was worked on and leaves the group."""
        membership = self._membership
        if membership is not None:
            await membership.close()
            self._membership = None
        elif self._options.auto_commit_interval_ms is not None:
            await self._commit_finished(list(self._fetcher.states))
        self._forget(list(self._fetcher.states))

    @property
    def assignment(self) -> list[TopicPartition]:
        """What is read now, sorted."""
        return sorted(self._fetcher.states)

    @property
    def membership(self) -> GroupMetadata:
        """Who this consumer is in its group now; its generation is negative while it is no member."""
        assert self._options.group_id is not None, "a group id is needed"
        return GroupMetadata(self._options.group_id) if self._membership is None else self._membership.metadata

    @property
    def group_metadata(self) -> GroupMetadata:
        """As whom this consumer commits; for offsets that a transactional producer sends. Raises CommitFailed.

        While a stream's records are worked on whose partition was lost meanwhile, that is who had them: others may have
        worked on them too, and the coordinator refuses what that one commits (KIP-447).
        """
        assert self._options.group_id is not None, "a group id is needed"
        return self._commit_in_hand_as()

    # Streams.

    async def batches(self) -> AsyncGenerator[FetchedRecords, None]:
        """Records as they come, without end. Close it to stop. Raises ClientError; reading on may be tried after it."""
        async with aclosing(self._handed()) as stream:
            async for handed in stream:
                yield handed.fetched

    async def records(self) -> AsyncGenerator[ConsumedRecord, None]:
        """Records one by one; positions move with each of them. `batches` costs less. Raises ClientError."""
        async with aclosing(self._handed()) as stream:
            async for handed in stream:
                state, where = handed.state, handed.fetched.topic_partition
                last_epoch = state.position_epoch
                for record in handed.fetched.records:
                    if state.version != handed.version:
                        break  # moved or gone: what is left of the batch is not wanted
                    state.position, state.position_epoch = record.offset + 1, -1
                    yield ConsumedRecord(where, record)
                if state.version == handed.version:
                    state.position, state.position_epoch = handed.next_offset, last_epoch

    async def _handed(self) -> AsyncGenerator[Handed, None]:
        loop = asyncio.get_running_loop()
        while True:
            self._asked_at_s = loop.time()
            self._asked.set()
            handed = await self._fetcher.take()
            self._asked_at_s = loop.time()
            if self._membership is not None:
                self._in_hand[id(handed)] = handed, self._membership.metadata
            is_finished = False
            try:
                yield handed
                is_finished = True
            finally:
                self._in_hand.pop(id(handed), None)
                if is_finished:
                    self._fetcher.finish(handed)
                else:
                    self._fetcher.release(handed)

    # Positions.

    async def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record to be handed out, once it is known. Raises ClientError."""
        self._state(topic_partition)
        return await self._fetcher.positioned(topic_partition)

    def positions(self) -> dict[TopicPartition, int]:
        """The positions that are known by now."""
        return {each: state.position for each, state in self._fetcher.states.items() if state.has_position}

    def seek(self, topic_partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Read on from an offset; with the leader epoch of the record before it a truncation shows.

        Raises NotAssigned.
        """
        self._state(topic_partition).move_to(offset, leader_epoch)
        self._fetcher.changed()

    async def seek_to_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Read on from the first records at or after times (milliseconds since the epoch), EARLIEST or LATEST.

        Where no record is late enough, from the end. Returns the positions. Raises ClientError.
        """
        for each, timestamp in times.items():
            self._state(each).look_for(timestamp)
        self._fetcher.changed()
        return {each: await self._fetcher.positioned(each) for each in times}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand nothing of these out until they are resumed or given to another member. Raises NotAssigned."""
        for each in partitions:
            self._state(each).is_paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """The opposite of `pause`. Raises NotAssigned."""
        for each in partitions:
            self._state(each).is_paused = False
        self._fetcher.changed()

    @property
    def paused(self) -> list[TopicPartition]:
        return sorted(each for each, state in self._fetcher.states.items() if state.is_paused)

    def _state(self, topic_partition: TopicPartition) -> PartitionState:
        state = self._fetcher.states.get(topic_partition)
        if state is None:
            raise NotAssigned(topic_partition)
        return state

    # Offsets of the group.

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Commit these offsets, or all positions, and return when that is done. Raises ClientError."""
        await asyncio.shield(self.begin_commit(offsets))

    def begin_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> "asyncio.Task[None]":
        """Commit behind the caller's back, after all earlier commits; the task says how it went.

        It raises CommitFailed where the group has gone on without this member. Given offsets are committed as
        `group_metadata` says.
        """
        assert self._offsets is not None, "a group id is needed"
        committing = self._commit_as if offsets is None else self._commit_in_hand_as
        if offsets is None:
            offsets = {
                each: OffsetAndMetadata(state.position, state.position_epoch)
                for each, state in self._fetcher.states.items()
                if state.has_position
            }
        for each, committed in offsets.items():
            if each in self._fetcher.states:
                self._fetcher.states[each].commit(committed.offset, committed.leader_epoch)
        return self._offsets.begin_commit(offsets, committing)

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out. Raises ClientError."""
        assert self._offsets is not None, "a group id is needed"
        return await self._offsets.committed(partitions)

    async def _commit_now_and_then(self) -> None:
        assert self._options.auto_commit_interval_ms is not None
        while True:
            await asyncio.sleep(self._options.auto_commit_interval_ms / 1000)
            if self._membership is None or self._membership.is_stable:
                await self._commit_finished(list(self._fetcher.states))

    async def _commit_finished(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit how far these were worked on, where that is news; a refusal is logged, as nobody waits for it."""
        states = [self._fetcher.states[each] for each in partitions if each in self._fetcher.states]
        news = {
            state.topic_partition: OffsetAndMetadata(state.finished, state.finished_epoch)
            for state in states
            if state.finished >= 0 and state.finished != self._committed.get(state.topic_partition)
        }
        if not news or self._offsets is None:
            return
        try:
            await self._offsets.begin_commit(news, self._commit_as)
        except ClientError as error:
            log.warning("group %s: offsets of %d partitions: %s", self._options.group_id, len(news), error)
        else:
            self._committed |= {each: offset.offset for each, offset in news.items()}

    def _commit_as(self) -> GroupMetadata:
        assert self._options.group_id is not None
        member = self.membership
        if self._membership is not None and member.generation_id < 0:
            raise CommitFailed(f"group {self._options.group_id}: this consumer is no member now")
        return member

    def _commit_in_hand_as(self) -> GroupMetadata:
        member = self._commit_as()
        for handed, had_by in self._in_hand.values():
            if self._fetcher.states.get(handed.fetched.topic_partition) is not handed.state:
                return had_by
        return member

    def _on_outside(self, member: GroupMetadata, error: ErrorCode) -> None:
        if self._membership is not None:
            self._membership.on_outside(member, error)

    # What the membership asks of its owner.

    async def wanted_topics(self) -> Sequence[str]:
        pattern = self._pattern
        if pattern is None:
            return self._topics
        found = (await self._cluster.metadata(None)).topics.values()
        return sorted(each.name for each in found if not each.is_internal and pattern.fullmatch(each.name))

    def owned(self) -> Sequence[TopicPartition]:
        return sorted(self._fetcher.states)

    async def give_up(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        if not partitions:
            return
        for each in partitions:
            self._fetcher.states[each].is_held = True
        if not lost:
            if not self._is_closing:
                await self._fetcher.idle(partitions)
            if self._options.auto_commit_interval_ms is not None:
                await self._commit_finished(partitions)
        listener = self._on_lost if lost else self._on_revoked
        if listener is not None:
            await listener(partitions)
        self._forget(partitions)

    async def receive(self, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._fetcher.states[each] = PartitionState(each, wants_committed=True, is_held=True)
        if self._on_assigned is not None:
            await self._on_assigned(partitions)
        for each in partitions:
            self._fetcher.states[each].is_held = False
        self._fetcher.changed()

    def is_too_slow(self) -> bool:
        slow_s = self._options.max_poll_interval_ms / 1000
        return not self._fetcher.waiting and asyncio.get_running_loop().time() - self._asked_at_s > slow_s

    async def is_back(self) -> None:
        self._asked.clear()
        # Who asked while the member was still leaving waits by now, and does not ask again.
        if not self._fetcher.waiting:
            await self._asked.wait()

    def fail(self, error: ClientError) -> None:
        self._fetcher.fail(error)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for each in partitions:
            self._committed.pop(each, None)
            state = self._fetcher.states.pop(each, None)
            if state is not None:
                state.abandon()
        self._fetcher.changed()
