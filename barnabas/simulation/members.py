"""Members of consumer groups of a simulated cluster, with the shipped consumer, and what the history is told of them.

A member reads what it is assigned with read_committed, works on each batch, and commits how far it came. A copier
writes each record that it was given once more, elsewhere, and commits both in one transaction: exactly once.

They go on when the load is over, until nothing is left to be read (`Stage.readers_may_end`). A member that was paused
while another took its place goes on for a while, too, and ends where it is told that it is fenced.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from barnabas.client.assignors.assignor import Assignor
from barnabas.client.assignors.range_assignor import RangeAssignor
from barnabas.client.assignors.round_robin_assignor import RoundRobinAssignor
from barnabas.client.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from barnabas.client.consumer import Consumer, NotAssigned
from barnabas.client.consumer_options import CommitFailed, ConsumerOptions, IsolationLevel, OffsetReset
from barnabas.client.coordinators import OffsetAndMetadata
from barnabas.client.errors import ClientError, KafkaError, ProtocolViolation
from barnabas.client.fetched_records import FetchedRecords
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.simulation.fetched import value_in
from barnabas.simulation.history import Outcome
from barnabas.simulation.keepers import KeptProcess
from barnabas.simulation.load import Stage
from barnabas.simulation.transacting import Transacting

ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
SESSION_TIMEOUT_MS: Final = 6_000
_HEARTBEAT_MS: Final = 2_000
_MAX_POLL_MS: Final = 15_000
_WAIT_MS: Final = 2_500
_WAIT_BYTES: Final = 3_000
"""Few fetches and few batches: a seed shall not cost much more for them."""

_TURN_S: Final = 0.5


class GroupPlan(NamedTuple):
    """What all members of a group have in common."""

    name: str
    partitions: tuple[TopicPartition, ...]
    """All of its topics."""

    assignor: str
    is_static: bool


class MemberProcess(KeptProcess):
    """A member that reads and commits."""

    def __init__(self, stage: Stage, name: str, group: GroupPlan, *, host: str) -> None:
        super().__init__(stage, name, host=host)
        self.group = group
        self.consumer: Consumer | None = None
        self.in_hand = 0
        """Batches that are worked on."""

        self.worked_after_all = 0
        """Batches that were worked on when nobody wrote any more."""

        self._host = host
        self._sessions: dict[TopicPartition, int] = {}
        self._positions: dict[TopicPartition, int | None] = {}
        self._asked_at: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Read until there is nothing to wait for, or it is told to leave the group."""
        reading = self.start(self._read_on())
        stage = self.stage
        while not (stage.readers_may_end or self.is_leaving or reading.done()):  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(_TURN_S)
        reading.cancel()
        await asyncio.wait([reading])
        await self.leave_all()

    async def leave_all(self) -> None:
        """What is to be done when nothing is read any more."""

    def _options(self) -> ConsumerOptions:
        return ConsumerOptions(
            group_id=self.group.name,
            group_instance_id=self._host if self.group.is_static else None,
            assignors=(ASSIGNORS[self.group.assignor](),),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            max_poll_interval_ms=_MAX_POLL_MS,
            auto_commit_interval_ms=None,
            offset_reset=OffsetReset.EARLIEST,
            isolation_level=IsolationLevel.READ_COMMITTED,
            max_wait_ms=_WAIT_MS,
            min_bytes=_WAIT_BYTES,
        )

    async def _read_on(self) -> None:
        while True:
            try:
                consumer = self.consumer = Consumer(
                    self.cluster,
                    self._options(),
                    on_assigned=self._on_assigned,
                    on_revoked=self._on_revoked,
                    on_lost=self._on_lost,
                )
                async with consumer:
                    await consumer.subscribe(dict.fromkeys(at.topic for at in self.group.partitions))
                    await self._read(consumer)
            except ClientError as error:
                if self._is_fenced(error):
                    return
                if isinstance(error, ProtocolViolation) and not any(
                    map(self.stage.may_be_damaged, self.group.partitions)
                ):
                    self.stage.on_violation(f"{self.name}: {error}")
                self.in_hand = 0
                await asyncio.sleep(self.chance.uniform(0.3, 1.0))

    def _is_fenced(self, error: ClientError) -> bool:
        return self.is_superseded and isinstance(error, KafkaError) and error.error is ErrorCode.FENCED_INSTANCE_ID

    async def _read(self, consumer: Consumer) -> None:
        async with aclosing(consumer.batches()) as batches:
            async for batch in batches:
                self._note(batch)
                self.in_hand += 1
                await self.work(consumer, batch)
                self.in_hand -= 1
                self.worked_after_all += self.stage.is_over

    async def work(self, consumer: Consumer, batch: FetchedRecords) -> None:
        """Take some time, and commit now and then."""
        settings = self.stage.settings
        await asyncio.sleep(self.chance.uniform(0, settings.think_s / 4))
        await self._commit(consumer, [batch.topic_partition])

    # What the group tells.

    async def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        consumer, stage = self.consumer, self.stage
        assert consumer is not None
        member = consumer.membership
        if member.generation_id < 0:
            return
        stage.count.assignments += 1
        stage.history.groups.assign(
            self.name,
            member.group_id,
            consumer.assignment,
            self.now(),
            generation=member.generation_id,
            # Who comes back under an instance id is the same member, with a new member id.
            member=member.group_instance_id or member.member_id,
        )
        for each in partitions:
            self._sessions[each] = self._sessions.get(each, 0) + 1
            self._positions[each] = None
            self._asked_at[each] = self.now()
            self._committed.pop(each, None)
        if partitions:
            await self._read_committed(consumer, partitions)

    async def _read_committed(
        self, consumer: Consumer, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int] | None:
        """What the group has committed; None where nobody said it."""
        operation = self.stage.history.groups.read(self.name, self.group.name, partitions, self.now())
        try:
            found = {at: each.offset for at, each in (await consumer.committed(partitions)).items()}
        except ClientError as error:
            operation.fail(str(error), self.now())
            return None
        operation.ok(found, self.now())
        return found

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        if self.consumer is not None:
            await self._commit(self.consumer, partitions)

    async def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Others may have them already."""

    # What it does.

    def _note(self, batch: FetchedRecords) -> None:
        stage, at = self.stage, batch.topic_partition
        operation = stage.history.poll(
            self.name,
            at,
            self._asked_at[at],
            position=self._positions[at],
            session=self._sessions[at],
            read_committed=True,
        )
        operation.group = self.group.name
        self._asked_at[at], self._positions[at] = self.now(), batch.records[-1].offset + 1
        records = [(each.offset, value_in(each)) for each in batch.records]
        operation.ok(records, self.now(), high_watermark=batch.high_watermark)
        stage.count.polls += 1
        stage.count.records_read += len(records)

    async def _commit(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Commit how far these were handed out and worked on, where that is news."""
        positions, stage = consumer.positions(), self.stage
        news = {
            at: positions[at]
            for at in partitions
            if at in positions and self._positions.get(at) is not None and self._committed.get(at) != positions[at]
        }
        if not news:
            return
        try:
            member = consumer.group_metadata
        except CommitFailed:
            return
        operation = stage.history.groups.commit(
            self.name, self.group.name, news, self.now(), generation=member.generation_id, member=member.member_id
        )
        try:
            await consumer.commit({at: OffsetAndMetadata(offset) for at, offset in news.items()})
        except ClientError as error:
            operation.end(Outcome.UNKNOWN, self.now(), str(error))
        else:
            operation.end(Outcome.OK, self.now())
            stage.count.commits += 1
            self._committed |= news


class CopierProcess(MemberProcess):
    """Copies what it is given into other partitions, in transactions that commit its offsets too."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        group: GroupPlan,
        targets: list[TopicPartition],
        *,
        host: str,
        timeout_ms: int,
    ) -> None:
        super().__init__(stage, name, group, host=host)
        self._targets = targets
        self._transacting = Transacting(self, f"copies-of-{host}", timeout_ms=timeout_ms)

    async def work(self, consumer: Consumer, batch: FetchedRecords) -> None:
        """Copy a batch; what did not work is read again."""
        transacting, at = self._transacting, batch.topic_partition
        try:
            await transacting.begin()
            for record in batch.records:
                await transacting.write_in(self.chance.choice(self._targets), source=(at, record.offset))
            offsets = {at: OffsetAndMetadata(consumer.positions()[at])}
            await transacting.send_offsets(offsets, consumer.group_metadata)
            await transacting.commit()
        except (ClientError, KeyError) as error:
            await transacting.abort(str(error))
            await self._go_back(consumer, at)

    async def _go_back(self, consumer: Consumer, at: TopicPartition) -> None:
        """Read on from what is committed. Raises ClientError where that is not known."""
        # What the producer before left in doubt is decided when the next one has the transactional id.
        await self._transacting.ready()
        found = await self._read_committed(consumer, [at])
        if found is None:
            raise CommitFailed(f"{self.name}: nobody says what is committed of {at}")
        try:
            consumer.seek(at, found.get(at, 0))
        except NotAssigned:
            return
        self._sessions[at] += 1
        self._positions[at] = None
        self._asked_at[at] = self.now()

    async def leave_all(self) -> None:
        """Abort what is open."""
        await self._transacting.drop()

    async def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """All that was worked on is committed, or will be read again."""
