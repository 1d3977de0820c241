"""What a leader knows of its followers: the high watermark, who joins, who leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import BrokerEpoch, BrokerId, LeaderEpoch
from replication.isr import IsrAnswer
from replication.leader import UNKNOWN_OFFSET, LeaderState

ME, B, C = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH = LeaderEpoch(5)
MAX_LAG_MS = 30_000
LIVE = BrokerEpoch(77)


class Leader:
    """A leader with its log's end and high watermark, and a clock."""

    def __init__(self, *isr: BrokerId, end: int = 10, high_watermark: int = 0, min_in_sync: int = 1) -> None:
        self.now_ms = 1_000_000
        self.end = end
        self.high_watermark = high_watermark
        self.min_in_sync = min_in_sync
        self.state = LeaderState(
            broker_id=ME,
            leader_epoch=EPOCH,
            epoch_start_offset=end,
            replicas=(ME, B, C),
            isr=isr or (ME, B, C),
            zk_version=0,
            now_ms=self.now_ms,
        )

    def append(self, count: int = 1) -> None:
        self.state.on_append(end_offset_before=self.end, now_ms=self.now_ms)
        self.end += count

    def fetch(self, replica: BrokerId, offset: int, *, epoch: int = EPOCH, log_start: int = 0) -> bool:
        counted = self.state.on_follower_fetch(
            replica,
            leader_epoch=epoch,
            fetch_offset=offset,
            log_start_offset=log_start,
            leader_end_offset=self.end,
            now_ms=self.now_ms,
        )
        self.advance()
        return counted

    def advance(self) -> int:
        self.high_watermark = self.state.decide_high_watermark(
            self.end,
            high_watermark=self.high_watermark,
            now_ms=self.now_ms,
            max_lag_ms=MAX_LAG_MS,
            min_in_sync=self.min_in_sync,
        )
        return self.high_watermark

    def expand(self, replica: BrokerId, *, epoch: BrokerEpoch | None = LIVE) -> tuple[BrokerId, ...] | None:
        proposal = self.state.decide_expand(replica, high_watermark=self.high_watermark, broker_epoch=epoch)
        return None if proposal is None else proposal.new_isr

    def shrink(self) -> tuple[BrokerId, ...] | None:
        proposal = self.state.decide_shrink(leader_end_offset=self.end, now_ms=self.now_ms, max_lag_ms=MAX_LAG_MS)
        return None if proposal is None else proposal.new_isr


# The high watermark.


def test_nothing_is_committed_before_every_member_has_spoken_in_this_epoch() -> None:
    leader = Leader(high_watermark=3)
    assert leader.advance() == 3
    leader.fetch(B, 10)
    assert leader.high_watermark == 3
    leader.fetch(C, 7)
    assert leader.high_watermark == 7


def test_the_slowest_member_holds_the_high_watermark_and_it_never_falls() -> None:
    leader = Leader()
    leader.fetch(B, 10)
    leader.fetch(C, 8)
    assert leader.high_watermark == 8
    leader.fetch(C, 4)
    assert leader.high_watermark == 8
    leader.fetch(C, 10)
    assert leader.high_watermark == 10


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1, -1])
def test_a_fetch_that_names_another_epoch_moves_nothing(epoch: int) -> None:
    # KIP-320: that follower has perhaps yet to truncate what it says it has.
    leader = Leader()
    leader.fetch(B, 10)
    assert not leader.fetch(C, 10, epoch=epoch)
    assert leader.high_watermark == 0
    assert leader.state.remotes[C].end_offset == UNKNOWN_OFFSET


def test_a_replica_out_of_sync_that_lags_holds_nothing_but_one_that_is_caught_up_does() -> None:
    leader = Leader(ME, B)
    leader.fetch(B, 10)
    assert leader.high_watermark == 10
    leader.fetch(C, 10)
    leader.append(5)
    leader.fetch(B, 15)
    assert leader.high_watermark == 10, "it is about to join, and must not be left behind for ever"
    leader.now_ms += MAX_LAG_MS + 1
    assert leader.advance() == 15


def test_a_pending_member_holds_the_high_watermark_at_once_and_one_that_leaves_until_it_is_out() -> None:
    leader = Leader(ME, B)
    leader.fetch(B, 10)
    leader.fetch(C, 10)
    assert leader.expand(C) == (ME, B, C)
    leader.append()
    leader.now_ms += 10 * MAX_LAG_MS
    leader.fetch(B, 11)
    assert leader.high_watermark == 10
    leader = Leader()
    leader.fetch(B, 10)
    leader.now_ms += MAX_LAG_MS + 1
    assert leader.shrink() == (ME, B)
    assert leader.advance() == 0


@pytest.mark.parametrize(("min_in_sync", "committed"), [(0, 10), (1, 10), (2, 10), (3, 0)])
def test_nothing_is_committed_while_too_few_are_in_sync(min_in_sync: int, committed: int) -> None:
    # KAFKA-15583; 0 is as Kafka 2.7 does.
    leader = Leader(ME, B, min_in_sync=min_in_sync)
    leader.fetch(B, 10)
    assert leader.high_watermark == committed


# Joining.


def test_a_replica_joins_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    leader = Leader(ME, B, end=10, high_watermark=6)
    leader.fetch(B, 8)
    leader.fetch(C, 8)
    assert leader.expand(C) is None, "the leader was elected with more than that (KAFKA-7128)"
    leader.fetch(C, 10)
    assert leader.expand(C) == (ME, B, C)


def test_a_replica_below_the_high_watermark_does_not_join() -> None:
    leader = Leader(ME, B)
    leader.append(5)
    leader.now_ms += MAX_LAG_MS + 1
    leader.fetch(B, 15)
    leader.fetch(C, 12)
    assert leader.high_watermark == 15
    assert leader.expand(C) is None
    leader.fetch(C, 15)
    assert leader.expand(C) == (ME, B, C)


def test_a_broker_that_is_not_known_to_live_does_not_join() -> None:
    leader = Leader(ME, B)
    leader.fetch(C, 10)
    assert leader.expand(C, epoch=None) is None
    assert leader.state.isr.pending is None
    assert leader.expand(C) == (ME, B, C)
    assert leader.state.isr.pending is not None
    assert leader.state.isr.pending.joiner_epoch == LIVE


def test_nobody_joins_while_a_change_is_under_way_nor_who_is_in() -> None:
    leader = Leader(ME)
    for replica in (B, C):
        leader.fetch(replica, 10)
    assert leader.expand(B) == (ME, B)
    assert leader.expand(C) is None
    assert Leader().expand(B) is None


# Leaving.


def test_who_has_all_does_not_lag_however_long_it_says_nothing() -> None:
    leader = Leader()
    leader.fetch(B, 10)
    leader.fetch(C, 10)
    leader.now_ms += 100 * MAX_LAG_MS
    assert leader.shrink() is None
    leader.append()
    assert leader.shrink() is None, "it lags since now"
    leader.now_ms += MAX_LAG_MS
    assert leader.shrink() is None
    leader.now_ms += 1
    assert leader.shrink() == (ME,)


def test_later_records_do_not_renew_the_time_of_who_lags() -> None:
    leader = Leader(ME, B)
    leader.fetch(B, 10)
    leader.append()
    leader.now_ms += MAX_LAG_MS
    leader.append()
    leader.now_ms += 1
    assert leader.shrink() == (ME,)


def test_who_reaches_the_end_of_a_while_ago_has_caught_up_then() -> None:
    leader = Leader(ME, B)
    leader.append(5)
    for _ in range(10):
        leader.now_ms += MAX_LAG_MS - 1
        end = leader.end
        leader.fetch(B, end - 5)
        leader.append(5)
    assert leader.shrink() is None, "it is never at the end, yet never far behind"
    leader.now_ms += MAX_LAG_MS + 1
    assert leader.shrink() == (ME,)


def test_who_never_spoke_in_this_epoch_has_the_whole_time_from_its_start() -> None:
    leader = Leader()
    leader.fetch(B, 10)
    leader.now_ms += MAX_LAG_MS
    assert leader.shrink() is None
    leader.now_ms += 1
    assert leader.shrink() == (ME, B)


def test_one_shrink_is_under_way_at_a_time() -> None:
    leader = Leader()
    leader.now_ms += MAX_LAG_MS + 1
    assert leader.shrink() == (ME,)
    assert leader.shrink() is None


# Deleted records.


def test_the_low_watermark_is_the_least_start_of_a_live_replica() -> None:
    leader = Leader()

    def low(*live: BrokerId) -> int:
        return leader.state.low_watermark(6, is_live=lambda replica: replica in live)

    assert low() == 6
    assert low(B) == UNKNOWN_OFFSET
    leader.fetch(B, 10, log_start=4)
    leader.fetch(C, 10, log_start=7)
    assert (low(B), low(C), low(B, C)) == (4, 6, 4)


# Properties.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "fetch", "stale", "wait", "shrink", "expand", "commit"]),
        st.sampled_from([B, C]),
        st.integers(0, 12),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 3))
def test_the_high_watermark_rises_only_and_stays_below_every_member_that_may_be_in_sync(
    steps: list[tuple[str, BrokerId, int]], min_in_sync: int
) -> None:
    leader = Leader(min_in_sync=min_in_sync)
    for kind, replica, amount in steps:
        before = leader.high_watermark
        if kind == "append":
            leader.append(amount)
        elif kind == "fetch":
            leader.fetch(replica, max(leader.state.remotes[replica].end_offset, leader.end - amount, 0))
        elif kind == "stale":
            leader.fetch(replica, leader.end, epoch=EPOCH - 1)
        elif kind == "wait":
            leader.now_ms += amount * 5_000
        elif kind == "shrink":
            leader.shrink()
        elif kind == "expand":
            leader.expand(replica)
        elif (pending := leader.state.isr.pending) is not None:
            leader.state.isr.apply_answer(
                pending, IsrAnswer(ErrorCode.NONE, EPOCH, pending.new_isr, pending.zk_version + 1)
            )
        leader.advance()
        assert leader.high_watermark >= before
        assert leader.high_watermark <= leader.end
        if leader.high_watermark > before:
            assert len(leader.state.isr.maximal) >= min_in_sync
            for member in leader.state.isr.maximal:
                if member != ME:
                    assert leader.state.remotes[member].end_offset >= leader.high_watermark


@given(STEPS)
def test_whoever_joins_holds_all_that_is_committed(steps: list[tuple[str, BrokerId, int]]) -> None:
    leader = Leader(ME)
    for kind, replica, amount in steps:
        if kind == "append":
            leader.append(amount)
        elif kind == "fetch":
            leader.fetch(replica, max(leader.end - amount, 0))
        elif kind == "wait":
            leader.now_ms += amount * 5_000
        elif kind == "expand" and leader.expand(replica) is not None:
            end = leader.state.remotes[replica].end_offset
            assert end >= leader.high_watermark
            assert end >= leader.state.epoch_start_offset
            return
