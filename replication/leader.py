"""What a partition's leader knows of its followers, and what follows from it: the high watermark, who joins the
in-sync replica set, who leaves it.

One object lasts for one leader epoch: what followers said in an earlier epoch is not carried over. Invariants: only a
fetch that names this epoch counts (KIP-320), so a follower that has yet to truncate moves nothing; a replica joins
at or above both the high watermark and the epoch's start offset (KAFKA-7128); the high watermark is at most the end
of every replica of the maximal in-sync set.

A follower is behind since the first record that it lacks was appended. So a follower that has everything never lags
however long it says nothing, and an idle poll over a fetch session need not be counted partition by partition.

Pure: times are handed in (`now_ms`, of the monotonic clock), the partition acts.
"""

from collections.abc import Callable, Iterable
from typing import Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import NO_LEADER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from replication.isr import IsrProposal, IsrState

UNKNOWN_OFFSET: Final = -1


class RemoteReplica:
    """A follower, as far as its fetches of this leader epoch tell. `caught_up_ms` is None while it never had all.

    `broker_epoch` is the registration of its broker under which it surely fetched last, None where that is not sure.
    `heard_at` is the moment of the last answer that it had when it asked for more: then it followed. It owes such a
    request since `owes_since_ms`, None where nothing is waited for.
    """

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "heard_at",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_start_offset",
        "owes_since_ms",
    )

    def __init__(self, *, caught_up_ms: int | None, leader_end_offset: int, now_ms: int) -> None:
        self.broker_epoch: BrokerEpoch | None = None
        self.heard_at = 0
        self.owes_since_ms: int | None = None
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self.last_fetch_ms = now_ms
        self.last_fetch_leader_end = leader_end_offset

    def owe(self, now_ms: int) -> None:
        """Its next request is waited for."""
        if self.owes_since_ms is None:
            self.owes_since_ms = now_ms

    def is_silent(self, *, now_ms: int, max_lag_ms: int) -> bool:
        """Whether what it owes is overdue: who has everything need say nothing else."""
        return self.owes_since_ms is not None and now_ms - self.owes_since_ms > max_lag_ms


class LeaderState:
    """See the module."""

    __slots__ = ("began_ms", "broker_id", "epoch_start_offset", "isr", "leader_epoch", "remotes")

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        epoch_start_offset: int,
        replicas: Iterable[BrokerId],
        isr: tuple[BrokerId, ...],
        zk_version: int,
        now_ms: int,
    ) -> None:
        self.broker_id: Final = broker_id
        self.leader_epoch: Final = leader_epoch
        self.epoch_start_offset: Final = epoch_start_offset
        """The log's end when the epoch began."""
        self.began_ms: Final = now_ms
        self.isr: Final = IsrState(leader_epoch=leader_epoch, isr=isr, zk_version=zk_version)
        self.remotes: Final[dict[BrokerId, RemoteReplica]] = {
            replica: RemoteReplica(
                caught_up_ms=now_ms if replica in isr else None, leader_end_offset=epoch_start_offset, now_ms=now_ms
            )
            for replica in replicas
            if replica != broker_id
        }

    # What happens.

    def on_append(self, *, end_offset_before: int, now_ms: int) -> None:
        """Records were appended at `end_offset_before`: who had all until now lacks something from now on."""
        for remote in self.remotes.values():
            if remote.end_offset == end_offset_before:
                remote.caught_up_ms = now_ms

    def on_follower_fetch(
        self,
        replica_id: BrokerId,
        *,
        leader_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        heard_at: int = 0,
    ) -> bool:
        """A follower asks for `fetch_offset`, so it has all below. Whether it counted.

        `leader_epoch` is the one that the fetch names, `heard_at` the moment of the answer before. `replica_id` must be
        an assigned replica.
        """
        if not self.counts(leader_epoch):
            return False
        remote = self.remotes[replica_id]
        if fetch_offset >= leader_end_offset:
            remote.caught_up_ms = now_ms
        elif fetch_offset >= remote.last_fetch_leader_end:
            known_ms, then_ms = remote.caught_up_ms, remote.last_fetch_ms
            remote.caught_up_ms = then_ms if known_ms is None else max(known_ms, then_ms)
        remote.end_offset = fetch_offset
        remote.log_start_offset = log_start_offset
        remote.last_fetch_ms = now_ms
        remote.last_fetch_leader_end = leader_end_offset
        if heard_at > remote.heard_at:
            remote.heard_at = heard_at
            remote.owes_since_ms = None
        return True

    def counts(self, leader_epoch: int) -> bool:
        """Whether a fetch that names this epoch says something of the present one (KIP-320)."""
        return leader_epoch == self.leader_epoch

    def others_in_sync(self) -> list[RemoteReplica]:
        """Who could be elected in place of this leader: the rest of the maximal in-sync set."""
        return [self.remotes[each] for each in self.isr.maximal if each in self.remotes]

    # What follows.

    def decide_high_watermark(
        self, own_end_offset: int, *, high_watermark: int, now_ms: int, max_lag_ms: int, min_in_sync: int
    ) -> int:
        """The high watermark from now on: `high_watermark`, the present one, or a greater offset.

        `own_end_offset` is how far the leader's own log counts. With `min_in_sync` 0 the size of the in-sync set does
        not matter (Kafka 2.7); otherwise nothing moves while the maximal set is smaller (KAFKA-15583).
        """
        maximal = self.isr.maximal
        if not has_enough_in_sync(len(maximal), min_in_sync):
            return high_watermark
        end = own_end_offset
        for replica_id, remote in self.remotes.items():
            if remote.end_offset < end and (
                replica_id in maximal or self._is_caught_up(remote, now_ms=now_ms, max_lag_ms=max_lag_ms)
            ):
                end = remote.end_offset
        return max(end, high_watermark)

    def decide_expand(
        self, replica_id: BrokerId, *, high_watermark: int, broker_epoch: BrokerEpoch | None
    ) -> IsrProposal | None:
        """Propose to take in a replica that has just fetched, if it may join and nothing is pending.

        `broker_epoch` is the one under which its broker is registered, None when that is not known to be alive
        (KAFKA-14140).
        """
        end_offset = self.remotes[replica_id].end_offset
        if (
            broker_epoch is None
            or self.isr.pending is not None
            or replica_id in self.isr.committed
            or not may_join(end_offset, high_watermark=high_watermark, epoch_start=self.epoch_start_offset)
        ):
            return None
        return self.isr.propose_expand(replica_id, broker_epoch=broker_epoch)

    def decide_expand_again(
        self, *, leader_end_offset: int, high_watermark: int, broker_epoch_of: Callable[[BrokerId], BrokerEpoch | None]
    ) -> IsrProposal | None:
        """Propose to take in a replica that has all and whose last fetch could not be acted on.

        It will not say so again: an idle follower names no partition. What a broker said before it started anew does
        not count, nor what one said that owes a request since.
        """
        for replica_id, remote in self.remotes.items():
            broker_epoch = broker_epoch_of(replica_id)
            has_all = remote.end_offset == leader_end_offset and remote.owes_since_ms is None
            if has_all and broker_epoch == remote.broker_epoch:
                proposal = self.decide_expand(replica_id, high_watermark=high_watermark, broker_epoch=broker_epoch)
                if proposal is not None:
                    return proposal
        return None

    def decide_shrink(self, *, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> IsrProposal | None:
        """Propose to leave out those that lag for more than `max_lag_ms`, if some do and nothing is pending.

        So does who has everything, when a request of it is waited for: see `replication.leadership_proof`.
        """
        if self.isr.pending is not None:
            return None
        lagging = [
            replica_id
            for replica_id in self.isr.committed
            if (remote := self.remotes.get(replica_id)) is not None
            and (
                remote.is_silent(now_ms=now_ms, max_lag_ms=max_lag_ms)
                or (
                    remote.end_offset != leader_end_offset
                    and not self._is_caught_up(remote, now_ms=now_ms, max_lag_ms=max_lag_ms)
                )
            )
        ]
        return self.isr.propose_shrink(lagging) if lagging else None

    def low_watermark(self, own_log_start_offset: int, *, is_live: Callable[[BrokerId], bool]) -> int:
        """The offset below which no live replica has anything any more; -1 while one has not said (KIP-107)."""
        starts = [remote.log_start_offset for replica_id, remote in self.remotes.items() if is_live(replica_id)]
        return min(own_log_start_offset, *starts) if starts else own_log_start_offset

    @staticmethod
    def _is_caught_up(remote: RemoteReplica, *, now_ms: int, max_lag_ms: int) -> bool:
        is_late = remote.caught_up_ms is None or now_ms - remote.caught_up_ms > max_lag_ms
        return not (is_late or remote.is_silent(now_ms=now_ms, max_lag_ms=max_lag_ms))


def may_join(end_offset: int, *, high_watermark: int, epoch_start: int) -> bool:
    """Whether a replica with this end holds all that is committed, and all that the leader had when it was elected."""
    return end_offset >= high_watermark and end_offset >= epoch_start


def has_enough_in_sync(maximal_size: int, min_in_sync: int) -> bool:
    """Whether the in-sync set is great enough for records to become committed."""
    return maximal_size >= min_in_sync


def fence(named_epoch: int, *, own_epoch: int) -> ErrorCode:
    """What a peer is told that believes in the leader epoch `named_epoch`, -1 where it names none (KIP-320)."""
    if named_epoch in (NO_LEADER_EPOCH, own_epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if named_epoch < own_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
