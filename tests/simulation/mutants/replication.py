"""What takes the place of rules of replication. Each function gets the original and makes the replacement."""

from typing import Any, Final

from barnabas.protocol.error_code import ErrorCode
from barnabas.storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd, LeaderEpochs
from replication.follower import FollowedPartition, Phase, TruncateTo
from tests.simulation.mutants.mutant import Rule


def cut_to_high_watermark(_original: Rule) -> Rule:
    """1. As before there were epochs."""

    def decide_truncation(_epochs: object, *, log_end_offset: int, high_watermark: int, answer: EpochEnd) -> TruncateTo:
        return TruncateTo(min(high_watermark, log_end_offset))

    return decide_truncation


def epochs_end_with_the_log(_original: Rule) -> Rule:
    """2. Every epoch is answered with the end of the log."""

    def end_offset_for(_self: LeaderEpochs, epoch: int, *, log_end_offset: int) -> EpochEnd:
        return EpochEnd(epoch, log_end_offset)

    return end_offset_for


def trust_any_epoch(_original: Rule) -> Rule:
    """3. The answer's epoch is not looked at."""

    def decide_truncation(_epochs: object, *, log_end_offset: int, high_watermark: int, answer: EpochEnd) -> TruncateTo:
        if answer.end_offset == UNDEFINED_OFFSET:
            return TruncateTo(high_watermark)
        return TruncateTo(min(answer.end_offset, log_end_offset))

    return decide_truncation


def no_fence(_original: Rule) -> Rule:
    """4 and 5. No request is of the wrong epoch."""

    def fence(_named_epoch: int, *, own_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    return fence


def every_fetch_counts(_original: Rule) -> Rule:
    """5. Whatever epoch a fetch names, it tells where the follower stands."""

    def counts(_self: object, _leader_epoch: int) -> bool:
        return True

    return counts


def join_at_high_watermark(_original: Rule) -> Rule:
    """6. The epoch's start offset is not looked at."""

    def may_join(end_offset: int, *, high_watermark: int, epoch_start: int) -> bool:
        return end_offset >= high_watermark

    return may_join


def fetch_at_once(original: Rule) -> Rule:
    """7. A new epoch begins without truncation."""

    def begin(self: FollowedPartition, *arguments: Any) -> None:
        original(self, *arguments)
        self.phase = Phase.FETCHING

    return begin


def forget_empty_epochs(original: Rule) -> Rule:
    """8. An epoch is known once it has a record."""

    def end_offset_for(self: LeaderEpochs, epoch: int, *, log_end_offset: int) -> Any:
        known = LeaderEpochs(entry for entry in self.entries if entry.start_offset < log_end_offset)
        return original(known, epoch, log_end_offset=log_end_offset)

    return end_offset_for


def keep_epoch_at_end(_original: Rule) -> Rule:
    """9. Entries go only if they begin beyond the new end."""

    def truncate_from_end(self: Any, end_offset: int) -> bool:
        entries = self._entries
        count = len(entries)
        while entries and entries[-1].start_offset > end_offset:
            entries.pop()
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
        return len(entries) != count

    return truncate_from_end


NOBODY: Final = ()


def nobody_is_doubtful(_original: Rule) -> Rule:
    """18. Kafka 2.7: whoever comes back first leads."""
    return lambda *_: NOBODY


def always_enough(_original: Rule) -> Rule:
    """19. Kafka 2.7: min.insync.replicas is only about taking records."""

    def has_enough_in_sync(_maximal_size: int, _min_in_sync: int) -> bool:
        return True

    return has_enough_in_sync
