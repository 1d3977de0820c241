"""Cutting a log's end, which a follower does to agree with its leader, and starting it again elsewhere.

The batch that holds the offset goes too, and the log ends where that batch began: a log is cut between batches. The
producers are taken from the newest snapshot at or below the new end and brought up to it from the batches after it.
A cut is several changes on disk. So the recovery point's checkpoint is lowered first, and the cut is synced before
anything is appended again (`LogDirectories.truncate` does both): else a power failure could leave a hole, old batches
behind new ones, or bytes that recovery does not look at.
"""

import logging
from typing import TYPE_CHECKING

from barnabas.storage.file_names import LOG_SUFFIX
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import replay_producers

if TYPE_CHECKING:
    from barnabas.storage.log import Log

log = logging.getLogger(__name__)


def cut_offset(target: "Log", offset: int) -> int:
    """Where the log will end when it is truncated to `offset`: there, or where the batch begins that holds it."""
    place = target.segments.place_of(offset)
    return offset if place < 0 or offset >= target.log_end_offset else target.segments[place].cut_offset(offset)


def is_cut_by(target: "Log", offset: int) -> bool:
    """Whether a cut at `offset` changes anything: records are there, or an epoch of which nothing was written."""
    latest = target.leader_epochs.latest
    return offset < target.log_end_offset or (latest is not None and latest.start_offset >= target.log_end_offset)


def truncate(target: "Log", offset: int) -> bool:
    """Cut the batches that reach to `offset` or over it. Raises OSError or CorruptSegment."""
    assert offset >= 0
    if offset >= target.log_end_offset:
        # An epoch of which nothing was written may stand at the end of this log and contradict the leader's.
        if target.leader_epochs.truncate_from_end(target.log_end_offset):
            target.note_epochs_changed()
        return False
    if offset < target.segments.first.base_offset:
        truncate_fully(target, offset)
        return True
    log.info(
        "%s: cutting the log, which ends at %d, to offset %d", target.topic_partition, target.log_end_offset, offset
    )
    target.discard(target.segments.remove_after(offset))
    end_offset = target.segments.active.truncate_to(offset)
    _complete(target, start_offset=min(end_offset, target.log_start_offset), end_offset=end_offset)
    target.leader_epochs.truncate_from_end(end_offset)
    target.note_epochs_changed()
    return True


def truncate_fully(target: "Log", offset: int) -> None:
    """Drop everything and begin again, empty, at `offset`. Raises OSError."""
    log.info(
        "%s: dropping the log, which ends at %d, for an empty one at %d",
        target.topic_partition,
        target.log_end_offset,
        offset,
    )
    target.discard(list(target.segments))
    target.segments.replace_all(target.new_segment(offset))
    target.snapshots.remove_all()
    target.producers = ProducerState(end_offset=offset)
    _complete(target, start_offset=offset, end_offset=offset)
    target.leader_epochs.clear()
    target.note_epochs_changed()


def _complete(target: "Log", *, start_offset: int, end_offset: int) -> None:
    target.log_start_offset = start_offset
    target.durable_start_offset = min(target.durable_start_offset, start_offset)
    target.log_end_offset = end_offset
    target.recovery_point = min(target.recovery_point, end_offset)
    target.damage.keep_within(
        start_offset=start_offset, end_offset=end_offset, end_position=target.segments.active.size_bytes
    )
    target.snapshots.remove_after(end_offset)
    if target.producers.end_offset != end_offset:
        _reload_producers(target, end_offset)
    target.set_high_watermark(min(target.high_watermark, end_offset))


def _reload_producers(target: "Log", end_offset: int) -> None:
    # Who never saw a producer need not look for one.
    if target.producers.is_empty:
        target.producers = ProducerState(end_offset=end_offset)
        return
    producers = target.snapshots.load(
        upto=end_offset,
        log_start_offset=target.log_start_offset,
        now_ms=target.ports.clock.wall_ms(),
        expiration_ms=target.ports.producer_expiration_ms,
    )
    for segment in target.segments.from_offset(producers.end_offset):
        position = segment.position_of(max(producers.end_offset, segment.base_offset))
        if position is not None:
            replay_producers(
                target.ports.disk,
                segment.path(LOG_SUFFIX),
                producers,
                position=position,
                end=segment.size_bytes,
                upto=end_offset,
            )
    producers.end_offset = end_offset
    target.producers = producers
