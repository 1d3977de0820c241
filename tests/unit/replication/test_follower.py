"""Where a follower cuts its log, and what it makes of a leader's errors."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.storage.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from replication.follower import (
    AskAgain,
    FetchFrom,
    FollowedPartition,
    OnFetchError,
    Phase,
    RestartAt,
    TruncateTo,
    decide_on_fetch_error,
    decide_restart,
    decide_truncation,
    epoch_to_ask,
    fetcher_index,
    java_hash,
)

TP = TopicPartition("t", 0)
NOTHING_KNOWN = EpochEnd(-1, -1)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def decide(own: LeaderEpochs, end: int, answer: tuple[int, int], *, high_watermark: int = 0) -> TruncateTo | AskAgain:
    return decide_truncation(own, log_end_offset=end, high_watermark=high_watermark, answer=EpochEnd(*answer))


def test_a_log_that_agrees_keeps_all_above_its_high_watermark() -> None:
    # KIP-101: cut to the high watermark, a record that was acknowledged would go, and with the leader's death be lost.
    assert decide(epochs((0, 0)), 2, (0, 2), high_watermark=1) == TruncateTo(2)


def test_records_that_the_leader_has_not_in_the_same_epoch_go() -> None:
    assert decide(epochs((0, 0)), 5, (0, 3)) == TruncateTo(3)


def test_a_leader_with_more_of_the_epoch_cuts_nothing() -> None:
    assert decide(epochs((0, 0)), 3, (0, 9)) == TruncateTo(3)


def test_an_epoch_that_the_leader_never_had_goes_whole() -> None:
    # Asked for epoch 1 the leader, which led in 2, answers with epoch 0: what it has in common ends with that.
    assert decide(epochs((0, 0), (1, 10)), 15, (0, 12)) == TruncateTo(10)


def test_an_epoch_that_only_the_leader_had_is_asked_about_again() -> None:
    # KIP-279: the leader has epoch 1 between, which this log never had, so its end says nothing of this log.
    assert decide(epochs((0, 0), (2, 10)), 15, (1, 12)) == AskAgain(10, 0)


def test_an_epoch_without_records_at_the_end_is_cut_though_no_record_is() -> None:
    own = epochs((0, 0), (2, 15))
    assert decide(own, 15, (1, 20)) == AskAgain(15, 0)
    own.truncate_from_end(15)
    assert epoch_to_ask(own) == 0


def test_epoch_0_is_an_epoch() -> None:
    assert epoch_to_ask(epochs((0, 0))) == 0
    assert decide(epochs((0, 0)), 4, (0, 0)) == TruncateTo(0)


def test_without_epochs_nothing_is_asked() -> None:
    assert epoch_to_ask(epochs()) is None


def test_a_leader_that_knows_no_epoch_leaves_the_high_watermark() -> None:
    assert decide(epochs((3, 0)), 9, NOTHING_KNOWN, high_watermark=4) == TruncateTo(4)


def test_a_leader_that_does_not_name_the_epoch_leaves_its_offset() -> None:
    assert decide(epochs((3, 0)), 9, (-1, 7), high_watermark=4) == TruncateTo(7)
    assert decide(epochs((3, 0)), 9, (-1, 12), high_watermark=4) == TruncateTo(9)


def test_a_log_whose_records_are_all_newer_is_cut_to_where_it_begins_to_know() -> None:
    assert decide(epochs((5, 3), (6, 8)), 9, (4, 20)) == TruncateTo(3)


def test_an_answer_newer_than_anything_here_keeps_what_the_leader_has() -> None:
    assert decide(epochs((1, 0)), 9, (4, 20)) == TruncateTo(9)
    assert decide(epochs((1, 0)), 9, (4, 6)) == TruncateTo(6)


# Random lives: brokers lead in turn, also such that lack acknowledged records, and follow.


@dataclass
class Replica:
    """A log as a list of (epoch, what was written)."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    @property
    def end(self) -> int:
        return len(self.records)

    def write(self, epoch: int, record: int) -> None:
        self.epochs.assign(epoch, start_offset=self.end)
        self.records.append((epoch, record))

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs.truncate_from_end(self.end)

    def agree_with(self, leader: "Replica") -> int:
        """Truncate by question and answer; how many questions it took."""
        asked = 0
        epoch = epoch_to_ask(self.epochs)
        while epoch is not None:
            asked += 1
            answer = leader.epochs.end_offset_for(epoch, log_end_offset=leader.end)
            step = decide_truncation(self.epochs, log_end_offset=self.end, high_watermark=0, answer=answer)
            self.cut(step.offset)
            if isinstance(step, TruncateTo):
                return asked
            assert epoch_to_ask(self.epochs) == step.epoch < epoch
            epoch = step.epoch
        self.cut(0)
        return asked

    def agrees_up_to(self, other: "Replica") -> int:
        pairs = zip(self.records, other.records, strict=False)
        return next((at for at, (own, its) in enumerate(pairs) if own != its), min(self.end, other.end))


@dataclass
class Term:
    """One leader epoch: who leads, what it writes, who follows and how far that gets."""

    leader: int
    writes: int
    followers: list[tuple[int, int]]


terms = st.lists(
    st.builds(
        Term,
        leader=st.integers(0, 2),
        writes=st.integers(0, 3),
        followers=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=2),
    ),
    max_size=12,
)


@settings(max_examples=400)
@given(terms)
def test_after_truncation_a_log_is_the_beginning_of_its_leaders_and_nothing_in_common_went(history: list[Term]) -> None:
    replicas = [Replica() for _ in range(3)]
    for epoch, term in enumerate(history):
        leader = replicas[term.leader]
        leader.epochs.assign(epoch, start_offset=leader.end)
        for number in range(term.writes):
            leader.write(epoch, epoch * 100 + number)
        for who, count in term.followers:
            if who == term.leader:
                continue
            follower = replicas[who]
            common = follower.agrees_up_to(leader)
            follower.agree_with(leader)
            assert follower.records == leader.records[: follower.end]
            assert follower.end == common
            for offset in range(follower.end, min(leader.end, follower.end + count)):
                follower.write(*leader.records[offset])


# Out of range.


def test_a_leader_that_ends_earlier_cuts_the_log_there() -> None:
    assert decide_restart(log_end_offset=10, leader_start_offset=2, leader_end_offset=8) == TruncateTo(8)


def test_a_leader_that_begins_later_has_the_log_begin_again() -> None:
    assert decide_restart(log_end_offset=10, leader_start_offset=12, leader_end_offset=20) == RestartAt(12)


@pytest.mark.parametrize("start", [0, 10])
def test_a_log_within_the_leaders_goes_on_at_its_end(start: int) -> None:
    assert decide_restart(log_end_offset=10, leader_start_offset=start, leader_end_offset=10) == FetchFrom(10)


# Errors.


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_may_pass_is_tried_again_later(error: ErrorCode) -> None:
    assert decide_on_fetch_error(error) is OnFetchError.DELAY


def test_a_follower_that_is_fenced_waits_for_the_controller() -> None:
    assert decide_on_fetch_error(ErrorCode.FENCED_LEADER_EPOCH) is OnFetchError.WAIT_FOR_EPOCH


def test_an_offset_out_of_range_asks_for_the_leaders_range() -> None:
    assert decide_on_fetch_error(ErrorCode.OFFSET_OUT_OF_RANGE) is OnFetchError.FIND_RANGE


# What a fetcher remembers.


def test_each_epoch_begins_with_truncation() -> None:
    assert FollowedPartition(TP, LeaderEpoch(3)).phase is Phase.TRUNCATING


# Which fetcher.


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_hashes_are_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_partitions_are_spread_over_the_fetchers_as_in_kafka() -> None:
    # 31 * 97 + partition
    assert [fetcher_index(TopicPartition("a", partition), 4) for partition in range(4)] == [3, 0, 1, 2]
    # 31 * -(2**31) overflows to -(2**31), which has no absolute value.
    assert fetcher_index(TopicPartition("polygenelubricants", 0), 7) == 0
    assert fetcher_index(TopicPartition("polygenelubricants", 1), 7) == (2**31 - 1) % 7
