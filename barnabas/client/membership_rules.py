"""What a member of a group does about the coordinator's answers, and what a new assignment changes. Pure."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import TopicPartition


class Verdict(Enum):
    """What an answer to JoinGroup, SyncGroup or Heartbeat asks of the member."""

    FINE = auto()
    REJOIN = auto()
    """Join again as the same member; what it has it may keep as far as its assignors let it."""
    LOST = auto()
    """Others may have its partitions already: give everything up, and join again as the same member."""
    STRANGER = auto()
    """As LOST, but the coordinator does not know the member id any more."""
    LATER = auto()
    """The same once more after a pause."""
    FATAL = auto()
    """Trying again does not help."""


_VERDICTS: Final = {
    ErrorCode.NONE: Verdict.FINE,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOST,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.STRANGER,
}


def judge(error: ErrorCode) -> Verdict:
    """The verdict of an error code."""
    verdict = _VERDICTS.get(error)
    if verdict is None:
        verdict = Verdict.LATER if error.retriable else Verdict.FATAL
    return verdict


class Change(NamedTuple):
    """What a new assignment takes from a member and gives to it, both sorted."""

    revoked: list[TopicPartition]
    added: list[TopicPartition]


def change_between(owned: Iterable[TopicPartition], assigned: Iterable[TopicPartition]) -> Change:
    """Compare what a member has with what it shall have."""
    before, after = set(owned), set(assigned)
    return Change(sorted(before - after), sorted(after - before))


def to_revoke_before_joining(
    owned: Iterable[TopicPartition], topics: Sequence[str], *, is_cooperative: bool
) -> list[TopicPartition]:
    """What a member gives up before it joins: all, or cooperatively (KIP-429) only what it does not want any more."""
    return sorted(each for each in owned if not is_cooperative or each.topic not in topics)
