"""What a follower decides: where its log is cut to agree with the leader's, and what an error of a fetch means.

A follower that begins under a new leader epoch does not know how much of its log the leader has. It asks the leader
where the newest epoch of its own log ends there (OffsetForLeaderEpoch, KIP-101). The answer is a pair (epoch, end):
the greatest epoch of the leader's log that is not above the one asked for (KIP-279). Where the follower has that epoch
too, both logs agree up to the smaller of its two ends. Where it has not, the follower cuts its log to the end of
its own greatest epoch below the answer's, and asks again; epochs fall with each question, so this ends.

    leader    | 1 1 1 | 3 3 3 3         asked for epoch 2: (1, 3), as it never had 2
    follower  | 1 1 1 1 1 | 2 2         has epoch 1 up to 5: cut to min(3, 5), done

The high watermark is no such place: a follower's lags, and records above it may be acknowledged (KIP-101). It is used
only where there are no epochs to speak of. Each question and each fetch names the leader epoch under which it is asked
(KIP-320), so a leader of another epoch refuses it. Every new leader epoch begins with truncation, also under the same
leader: an epoch may have been missed in between.

Pure: `replication.fetcher` asks and acts.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import LeaderEpoch, TopicPartition
from barnabas.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd

_INT32: Final = 1 << 32
_INT32_MIN: Final = -(1 << 31)


class KnownEpochs(Protocol):
    """The leader epochs of a follower's own log: `barnabas.storage.leader_epochs.LeaderEpochs`."""

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEnd: ...


@dataclass(slots=True, frozen=True)
class TruncateTo:
    """Cut the log there; it agrees with the leader's then."""

    offset: int


@dataclass(slots=True, frozen=True)
class AskAgain:
    """Cut the log there and ask where `epoch`, the greatest that is left, ends in the leader's log."""

    offset: int
    epoch: int


@dataclass(slots=True, frozen=True)
class RestartAt:
    """Drop the log and begin again, empty, at the leader's start: what lay between is gone there."""

    offset: int


@dataclass(slots=True, frozen=True)
class FetchFrom:
    """The log is as it must be; go on there."""

    offset: int


def epoch_to_ask(epochs: KnownEpochs) -> int | None:
    """The epoch to ask the leader for; None where the log knows none, and is cut to its high watermark."""
    return None if epochs.latest_epoch == UNDEFINED_EPOCH else epochs.latest_epoch


def decide_truncation(
    epochs: KnownEpochs, *, log_end_offset: int, high_watermark: int, answer: EpochEnd
) -> TruncateTo | AskAgain:
    """What the leader's answer means for this log (KIP-101, KIP-279).

    A cut at the log's end is no idle one: an epoch in which nothing was written may stand there and contradict the
    leader's.
    """
    if answer.end_offset == UNDEFINED_OFFSET:
        # The leader has no epoch of its own: as before there were epochs.
        return TruncateTo(high_watermark)
    if answer.epoch == UNDEFINED_EPOCH:
        # A leader of version 0 does not say which epoch ends there.
        return TruncateTo(min(answer.end_offset, log_end_offset))
    own = epochs.end_offset_for(answer.epoch, log_end_offset=log_end_offset)
    if own.end_offset == UNDEFINED_OFFSET:
        # All that is here is older than the leader's epoch.
        return TruncateTo(min(answer.end_offset, log_end_offset))
    if own.epoch != answer.epoch:
        return AskAgain(min(own.end_offset, log_end_offset), own.epoch)
    return TruncateTo(min(own.end_offset, answer.end_offset, log_end_offset))


def decide_restart(
    *, log_end_offset: int, leader_start_offset: int, leader_end_offset: int
) -> TruncateTo | RestartAt | FetchFrom:
    """What to do when the leader has not got the offset that was fetched (OFFSET_OUT_OF_RANGE).

    It happens after an unclean election (the leader's log is shorter) or when the leader deleted what was not fetched.
    """
    if leader_end_offset < log_end_offset:
        return TruncateTo(leader_end_offset)
    if leader_start_offset > log_end_offset:
        return RestartAt(leader_start_offset)
    return FetchFrom(log_end_offset)


class OnFetchError(Enum):
    """What a follower does about an error that the leader answered for one partition."""

    DELAY = auto()
    """Try again later, at replica.fetch.backoff.ms in the end: the leader does not lead yet, or does no more."""
    FIND_RANGE = auto()
    """Ask for the leader's first and last offset, then `decide_restart`."""
    WAIT_FOR_EPOCH = auto()
    """This epoch is over: nothing is asked until the controller tells the next one."""


def decide_on_fetch_error(error: ErrorCode, *, may_find_range: bool = True) -> OnFetchError:
    """What an error of Fetch, OffsetForLeaderEpoch or ListOffsets means; without `may_find_range` not of a Fetch.

    It must be of a question of the present epoch.
    """
    assert error is not ErrorCode.NONE
    if error is ErrorCode.FENCED_LEADER_EPOCH:
        return OnFetchError.WAIT_FOR_EPOCH
    if error is ErrorCode.OFFSET_OUT_OF_RANGE and may_find_range:
        return OnFetchError.FIND_RANGE
    return OnFetchError.DELAY


class Phase(Enum):
    """What a followed partition needs next."""

    TRUNCATING = auto()
    FETCHING = auto()
    STOPPED = auto()
    """Its epoch is over or its log failed: nothing until the controller speaks."""


class FollowedPartition:
    """What is remembered of a partition while it is followed in one leader epoch; a new epoch begins with truncation.

    It is delayed while the clock is below `delayed_until_ms`.
    """

    __slots__ = ("delayed_until_ms", "is_busy", "leader_epoch", "phase", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.phase = Phase.TRUNCATING
        self.delayed_until_ms = 0
        self.is_busy = False
        """Whether something is being done to its log that others need not wait for."""

    def delay(self, until_ms: int) -> None:
        """Ask nothing before `until_ms`, then what was asked before."""
        self.delayed_until_ms = until_ms


def fetcher_index(topic_partition: TopicPartition, fetchers: int) -> int:
    """Which fetcher follows a partition: |31 * hash(topic) + partition| mod `fetchers`, as in Kafka 2.7."""
    mixed = _to_int32(31 * java_hash(topic_partition.topic) + topic_partition.partition)
    # The absolute value of the least 32-bit number is not one; Kafka takes 0.
    return 0 if mixed == _INT32_MIN else abs(mixed) % fetchers


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 units, 32 bits with sign."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for position in range(0, len(encoded), 2):
        total = (31 * total + (encoded[position] << 8 | encoded[position + 1])) % _INT32
    return _to_int32(total)


def _to_int32(number: int) -> int:
    return (number - _INT32_MIN) % _INT32 + _INT32_MIN
