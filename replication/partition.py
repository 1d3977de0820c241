"""One replica of a partition on this broker and its role: what it does as leader, and who waits for it.

Owned by the broker's event loop; every method but the coroutines returns without waiting. Invariants:

- a role change waits for the append or cut under way; the end of a leadership fails everyone who waits before
  another event of the partition is handled;
- the high watermark never falls within a leader epoch, and nothing at or above it reaches a consumer;
- with `flush.messages=1` the high watermark does not pass what an fsync has made durable here;
- a leader's changes of the in-sync set are proposals until the controller has answered (`replication.isr`).

What a leader knows of its followers is `replication.leader`; the log and what a follower does with it are
`replication.replica`.
"""

import logging
from functools import partial
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from barnabas.runtime.completion import Completion
from barnabas.storage.append import AppendInfo, AppendOrigin, AppendRejected, LongConversion, PreparedAppend
from barnabas.storage.append_conversion import ConvertedSet
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log, LogOffline
from replication.acknowledgements import (
    AFTER_APPEND,
    Acknowledgements,
    PartitionRefused,
    complete,
    fail,
    refuse,
    wait_for,
)
from replication.isr import AnswerEffect, IsrAnswer, IsrProposal
from replication.leader import LeaderState
from replication.leadership_proof import LeadershipProof
from replication.ports import ReplicationPorts
from replication.record_deletion import RecordDeletion
from replication.refused_batches import RefusedBatches, is_moving_over
from replication.replica import FollowerWatcher, Replica, Watcher
from replication.transaction_guards import Guard, TransactionGuards, is_transactional

__all__ = ["ALL_REPLICAS", "FollowerWatcher", "Partition", "PartitionRefused", "Watcher"]

log = logging.getLogger(__name__)

ALL_REPLICAS: Final = -1
FLUSH_EACH_APPEND: Final = 1
_CLIENT: Final = AppendOrigin.CLIENT


class Partition(Replica):
    """See the module."""

    def __init__(
        self, topic_partition: TopicPartition, log_: Log, directory: LogDirectory, ports: ReplicationPorts
    ) -> None:
        super().__init__(topic_partition, log_, directory, ports)
        self.replicas: tuple[BrokerId, ...] = ()
        self.adding: tuple[BrokerId, ...] = ()
        """Those of the replicas that a reassignment adds, as the leader knows them."""
        self.min_in_sync_replicas = 1
        self.leadership: LeaderState | None = None
        """What the leader knows of its followers; None in any other role."""
        self._waits = Acknowledgements()
        self._refused = RefusedBatches()
        self.guards = TransactionGuards()
        self._flushing = False
        self.deletion = RecordDeletion(self, self._waits.trimmed, ports)
        self.proof = LeadershipProof(self, ports)
        self._undecided = False
        """Whether the pending proposal was answered without a decision, so that it has to be sent again."""
        self._takes_all = False
        """Whether the committed in-sync set is great enough for acks=all."""
        self._lacks_replicas = True
        """Whether even the maximal one is too small."""

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker_id and not self.is_offline

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed in-sync set, as the leader knows it; nobody else does."""
        return () if self.leadership is None else self.leadership.isr.committed

    # Roles.

    async def become_leader(
        self,
        *,
        leader_epoch: LeaderEpoch,
        isr: tuple[BrokerId, ...],
        replicas: tuple[BrokerId, ...],
        zk_version: int,
        min_in_sync_replicas: int,
        adding: tuple[BrokerId, ...] = (),
    ) -> None:
        """Lead from now on, or lead on in another epoch."""
        async with self._writing:
            self.leader_id = self._broker_id
            self.leader_epoch = leader_epoch
            self.replicas = replicas
            self.adding = adding
            self.min_in_sync_replicas = min_in_sync_replicas
            # Before anything is written in it: followers ask for epochs without records too (KAFKA-7415).
            self.log.assign_leader_epoch(leader_epoch, start_offset=self.log.log_end_offset)
            self._undecided = False
            self.guards.clear()
            self.proof.end()
            self.leadership = LeaderState(
                broker_id=self._broker_id,
                leader_epoch=leader_epoch,
                epoch_start_offset=self.log.log_end_offset,
                replicas=replicas,
                isr=isr,
                zk_version=zk_version,
                now_ms=self._clock.monotonic_ms(),
            )
            self._note_isr()
            self.flush_if_asked()
            self._advance()
            self.notify()

    async def become_follower(
        self, *, leader_id: BrokerId, leader_epoch: LeaderEpoch, replicas: tuple[BrokerId, ...]
    ) -> None:
        """Follow another broker from now on, or nobody while there is no leader."""
        async with self._writing:
            self.replicas = replicas
            self._leave_leadership(leader_id, leader_epoch)

    async def resign(self, *, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> None:
        """Stop leading or following: this broker holds the replica no longer, or stops."""
        async with self._writing:
            self._leave_leadership(leader_id, leader_epoch)

    def _leave_leadership(self, leader_id: BrokerId, leader_epoch: LeaderEpoch) -> None:
        assert leader_id != self._broker_id
        if self.leadership is not None:
            self._ports.isr_channel.withdraw(self.topic_partition)
            self.leadership = None
        self.leader_id = leader_id
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        self._waits.end()
        self.proof.end()
        self.notify()

    def go_offline(self) -> None:
        """The log's directory has failed: nothing is served from it any more."""
        self._waits.fail_with_directory(
            others_may_have_it=self.leadership is not None and bool(self.leadership.remotes)
        )
        self.proof.end(ErrorCode.KAFKA_STORAGE_ERROR)
        super().go_offline()

    def require_leader(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Refuse unless this replica leads, and in the epoch that the peer believes in, if it names one (KIP-320)."""
        self.require_replica(current_leader_epoch)
        if self.leader_id != self._broker_id:
            raise PartitionRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Appending as leader.

    def try_append(self, records: memoryview, *, acks: int) -> AppendInfo | None:
        """Append now, or return None when it would have to wait, for a slow directory or for a long conversion.

        Then await `append`.

        Raises:
            PartitionRefused: not leader, or too few replicas in sync for acks=all.
            NotVerified: a transaction would begin, see `replication.transaction_guards`.
            AppendRejected: the records are not acceptable; nothing was written.
        """
        if not self.directory.writes_inline or self._writing.locked():
            return None
        try:
            prepared = self._prepare(records, acks)
        except LongConversion:
            return None
        return self._write_now(prepared) if prepared.duplicate is None else prepared.duplicate

    async def append(self, records: memoryview, *, acks: int) -> AppendInfo:
        """Append in turn, in the directory's own thread while that is slow. Raises as `try_append`.

        While a large set is converted to the topic's format or codec others have their turns, but for who appends here.
        """
        async with self._writing:
            try:
                prepared = self._prepare(records, acks)
            except LongConversion:
                prepared = self._prepare(records, acks, await self._convert(records, _CLIENT))
            if prepared.duplicate is not None:
                return prepared.duplicate
            return await self._write(prepared)

    def try_append_as_coordinator(self, batch: memoryview, *, acks: int) -> AppendInfo | None:
        """Append a batch that this broker wrote itself, or a marker of a transaction. As `try_append`."""
        if not self.directory.writes_inline or self._writing.locked():
            return None
        try:
            prepared = self._prepare_as_coordinator(batch, acks)
        except LongConversion:
            return None
        return self._write_now(prepared)

    async def append_as_coordinator(self, batch: memoryview, *, acks: int) -> AppendInfo:
        """The same in turn. Raises as `try_append`."""
        async with self._writing:
            try:
                prepared = self._prepare_as_coordinator(batch, acks)
            except LongConversion:
                converted = await self._convert(batch, AppendOrigin.COORDINATOR)
                prepared = self._prepare_as_coordinator(batch, acks, converted)
            info = await self._write(prepared)
            header = prepared.headers[0]
            if header.is_control:
                # A guard that was made meanwhile does not know of the marker.
                self.guards.on_marker(header.producer_id)
            return info

    def _prepare_as_coordinator(
        self, batch: memoryview, acks: int, converted: ConvertedSet | None = None
    ) -> PreparedAppend:
        self._check_append(acks)
        prepared = self._prepare_from(batch, AppendOrigin.COORDINATOR, converted)
        header = prepared.headers[0]
        if header.is_control:
            self.guards.on_marker(header.producer_id)
        elif header.is_transactional and self.lacks_guard(header.producer_id, header.producer_epoch):
            self.log.abandon(prepared)
            raise PartitionRefused(ErrorCode.INVALID_TXN_STATE)
        return prepared

    def lacks_guard(self, producer_id: int, producer_epoch: int) -> Guard | None:
        """What has to be asked before this broker may write in the producer's transaction; None when nothing."""
        return self.guards.needed(producer_id, producer_epoch, self.log.producers)

    def refuse_for_now(self, records: memoryview, refusal: PartitionRefused) -> None:
        """A client's batch cannot be appended yet: what it sent behind it is refused alike, so that no gap is seen."""
        self._refused.note(records, refusal)

    def refusal(self, acks: int) -> ErrorCode | None:
        """Why nothing can be appended now."""
        try:
            self._check_append(acks)
        except PartitionRefused as refused:
            return refused.error
        return None

    def _prepare(self, records: memoryview, acks: int, converted: ConvertedSet | None = None) -> PreparedAppend:
        if (acks == ALL_REPLICAS and not self._takes_all) or self.is_offline or self.leader_id != self._broker_id:
            try:
                self._check_append(acks)
            except PartitionRefused as refusal:
                self._refused.note(records, refusal)
                raise
        if self._refused:
            self._refused.check(records, self.log.producers)
        if is_transactional(records):
            self.guards.require(records, self.log.producers)
        try:
            return self._prepare_from(records, _CLIENT, converted)
        except AppendRejected as rejected:
            if rejected.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_moving_over(
                records, self.log.producers, self.leadership, now_ms=self._clock.monotonic_ms()
            ):
                raise PartitionRefused(ErrorCode.NOT_ENOUGH_REPLICAS, str(rejected)) from None
            raise

    def _check_append(self, acks: int) -> None:
        self.require_leader()
        if acks == ALL_REPLICAS and not self._takes_all:
            raise PartitionRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {set(self.isr)} is insufficient to satisfy the min.isr requirement "
                f"of {self.min_in_sync_replicas} for partition {self.topic_partition}",
            )

    def _after_append(self, info: AppendInfo) -> None:
        if self.log.needs_flush():
            self._start_flush()
        leadership = self.leadership
        if leadership is not None and leadership.remotes:
            leadership.on_append(end_offset_before=info.first_offset, now_ms=self._clock.monotonic_ms())
            self.notify_followers()
        self._advance()

    def when_acknowledged(self, info: AppendInfo, *, acks: int) -> Completion[None] | None:
        """What the answer to an append has to wait for; None when nothing. To be asked before the loop turns again.

        The wait fails with PartitionRefused when this replica stops leading first, or when so many replicas have left
        the in-sync set that fewer than min.insync.replicas have the records. A duplicate waits like its original.
        """
        end = info.last_offset + 1
        if acks == ALL_REPLICAS and (waiting := self.when_committed(end)) is not None:
            return waiting
        if self.log.config.flush_messages == FLUSH_EACH_APPEND and self.log.recovery_point < end:
            return wait_for(self._waits.durable, end)
        return None

    def when_committed(self, end_offset: int) -> Completion[None] | None:
        """The same for all that lies below an offset, with acks=all."""
        if self._lacks_replicas:
            refused: Completion[None] = Completion()
            refuse(refused, AFTER_APPEND)
            return refused
        return wait_for(self._waits.committed, end_offset) if self.log.high_watermark < end_offset else None

    def _after_exchange(self) -> None:
        self._advance()

    # Durability.

    def flush_if_asked(self) -> None:
        """Begin to flush where flush.messages, as it is now, asks for it, or somebody waits since it did."""
        if self.leadership is not None and self._is_flush_wanted:
            self._start_flush()

    @property
    def _is_flush_wanted(self) -> bool:
        return self.log.needs_flush() or bool(self._waits.durable)

    def _start_flush(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._ports.spawn(self._flush(), name=f"flush {self.topic_partition}")

    async def _flush(self) -> None:
        """Group commit: one fsync at a time, each covering all that was appended before it began."""
        try:
            while self._is_flush_wanted and not self.is_offline:
                await self.directory.flush(self.log, self.log.log_end_offset)
                self._advance()
        except LogOffline:
            # The directory has said so to everyone; the waiters were failed with it.
            return
        finally:
            self._flushing = False

    def _advance(self) -> None:
        """Raise a leader's high watermark as far as it may go, and let go of those who waited for it."""
        leadership = self.leadership
        if leadership is None or self.is_offline:
            return
        log_, waits = self.log, self._waits
        if waits.durable.next_offset <= log_.recovery_point:
            complete(waits.durable, log_.recovery_point)
        end = log_.recovery_point if log_.config.flush_messages == FLUSH_EACH_APPEND else log_.log_end_offset
        if leadership.remotes:
            end = self._decide_high_watermark(leadership, end)
        if log_.advance_high_watermark(end):
            if waits.committed.next_offset <= end:
                complete(waits.committed, end)
            for watcher in tuple(self._watchers):
                watcher.partition_changed(self.topic_partition)
            self._look_at_followers()

    def _decide_high_watermark(self, leadership: LeaderState, own_end_offset: int) -> int:
        ports = self._ports
        # A topic cannot have more replicas in sync than it has replicas.
        min_in_sync = min(self.min_in_sync_replicas, len(self.replicas)) if ports.holds_below_min_isr else 0
        return leadership.decide_high_watermark(
            own_end_offset,
            high_watermark=self.log.high_watermark,
            now_ms=self._clock.monotonic_ms(),
            max_lag_ms=ports.replica_lag_time_max_ms,
            min_in_sync=min_in_sync,
        )

    # Followers, as their leader sees them.

    def is_assigned(self, replica_id: int) -> bool:
        """Whether this replica leads and that broker is assigned to follow it."""
        return self.leadership is not None and replica_id in self.leadership.remotes

    def is_in_sync(self, replica_id: int) -> bool:
        """Whether the committed in-sync set has this broker."""
        return self.leadership is not None and replica_id in self.leadership.isr.committed

    def on_follower_fetch(
        self,
        replica_id: BrokerId,
        *,
        leader_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        is_proven: bool = True,
        heard_at: int = 0,
    ) -> None:
        """A follower has asked for what comes at `fetch_offset`, and has been given it. It must be assigned.

        `leader_epoch` is the one that its request named: it counts only if that is the present one (KIP-320). Who is
        not in sync joins only by a request that `is_proven` to be of its broker's present registration: what it had
        under an earlier one may be gone (KIP-903).
        """
        leadership = self.leadership
        assert leadership is not None
        if not leadership.on_follower_fetch(
            replica_id,
            leader_epoch=leader_epoch,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            now_ms=self._clock.monotonic_ms(),
            heard_at=heard_at,
        ):
            return
        broker_epoch = self._ports.broker_epoch_of(replica_id) if is_proven else None
        leadership.remotes[replica_id].broker_epoch = broker_epoch
        if replica_id not in leadership.isr.committed:
            proposal = leadership.decide_expand(
                replica_id, high_watermark=self.log.high_watermark, broker_epoch=broker_epoch
            )
            if proposal is not None:
                self._propose(proposal)
        self._advance()
        self.deletion.let_go()
        if self.proof.waiting:
            self.proof.let_go()

    def check_lag(self) -> None:
        """Have replicas left out that lag for too long, and those taken in that could not be before.

        To be called each half of replica.lag.time.max.ms.
        """
        leadership = self.leadership
        if leadership is None or not leadership.remotes or self.is_offline:
            return
        if self._undecided:
            assert leadership.isr.pending is not None
            self._propose(leadership.isr.pending)
        proposal = leadership.decide_shrink(
            leader_end_offset=self.log.log_end_offset,
            now_ms=self._clock.monotonic_ms(),
            max_lag_ms=self._ports.replica_lag_time_max_ms,
        ) or leadership.decide_expand_again(
            leader_end_offset=self.log.log_end_offset,
            high_watermark=self.log.high_watermark,
            broker_epoch_of=self._ports.broker_epoch_of,
        )
        if proposal is not None:
            self._propose(proposal)
        self._advance()

    def _propose(self, proposal: IsrProposal) -> None:
        log.info(
            "%s: proposes the in-sync set %s for %s in epoch %d",
            self.topic_partition,
            proposal.new_isr,
            self.isr,
            self.leader_epoch,
        )
        self._undecided = False
        self._note_isr()
        on_answer = partial(self._on_isr_answer, self.leadership, proposal)
        self._ports.isr_channel.propose(self.topic_partition, proposal, on_answer)

    def _on_isr_answer(self, leadership: LeaderState | None, proposal: IsrProposal, answer: IsrAnswer) -> None:
        if leadership is None or leadership is not self.leadership:
            # LeaderAndIsr came first: it says more than the answer does (KAFKA-12686).
            return
        effect = leadership.isr.apply_answer(proposal, answer)
        if effect is AnswerEffect.IGNORED:
            return
        changes = self._ports.counts
        if effect is AnswerEffect.UNDECIDED:
            changes.failed_updates += 1
            self._undecided = True
            log.info("%s: the in-sync set stays undecided: %s", self.topic_partition, answer.error.name)
            return
        if answer.error is not ErrorCode.NONE:
            changes.failed_updates += 1
        elif proposal.is_expand:
            changes.expands += 1
        else:
            changes.shrinks += 1
        log.info("%s: in-sync set %s, version %d", self.topic_partition, answer.isr, answer.zk_version)
        self._note_isr()
        # A replica that left holds the high watermark no longer (KAFKA-13091), and may have caught up meanwhile.
        self._advance()
        self._look_at_followers()

    def set_min_in_sync_replicas(self, count: int) -> None:
        """The topic's min.insync.replicas is another from now on."""
        self.min_in_sync_replicas = count
        if self.leadership is not None:
            self._note_isr()
            self._advance()

    def _note_isr(self) -> None:
        """The in-sync set, or how great it has to be, is another. Who waits and cannot be served by it is told."""
        assert self.leadership is not None
        isr = self.leadership.isr
        self._takes_all = len(isr.committed) >= self.min_in_sync_replicas
        self._lacks_replicas = len(isr.maximal) < self.min_in_sync_replicas
        if self._lacks_replicas:
            fail(self._waits.committed, AFTER_APPEND)
        self.proof.let_go()
