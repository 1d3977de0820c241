"""Cutting a log's end, which a follower does to agree with its leader, and starting it again elsewhere.

The batch that holds the offset goes too, and the log ends where that batch began: a log is cut between batches. So does
known damage of which nothing is committed, with all that follows it: the leader has that, and it is fetched again.
Damage of which something is committed stays, for this replica has promised what it held: a cut within it leaves what
lies below, and the log ends in damage then. Where what is damaged would have to be read for the cut it waits until that
is mended; unless that can only be when more is fetched, as it reaches over the high watermark: it is left out then.

The producers are taken from the newest snapshot at or below the new end and brought up to it from the batches after it.
All that must be read for a cut is read before anything is changed: what cannot be read leaves the log as it was.
A cut is several changes on disk. So the recovery point's checkpoint is lowered first, and the cut is synced before
anything is appended again (`LogDirectories.truncate` does both): else a power failure could leave a hole, old batches
behind new ones, or bytes that recovery does not look at.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.storage.damage import Damage
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX
from barnabas.storage.growing_indexes import GrowingIndexes, SegmentCut
from barnabas.storage.index import CorruptIndex
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import CorruptSegment, begin_of, header_at, iterate_file_headers, replay_producers
from barnabas.storage.segment import Segment

if TYPE_CHECKING:
    from barnabas.storage.log import Log

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a log is cut: at `offset`, byte `position` of `segment`."""

    segment: Segment
    offset: int
    position: int


def cut_offset(target: "Log", offset: int) -> int:
    """Where the log will end when it is truncated to `offset`: there, or where the batch or the damage begins.

    Raises CorruptSegment or OSError.
    """
    if offset >= target.log_end_offset or offset < target.segments.first.base_offset:
        return offset
    return _place_of(target, offset).offset


def is_cut_by(target: "Log", offset: int) -> bool:
    """Whether a cut at `offset` changes anything: records are there, or an epoch of which nothing was written."""
    latest = target.leader_epochs.latest
    return offset < target.log_end_offset or (latest is not None and latest.start_offset >= target.log_end_offset)


def truncate(target: "Log", offset: int) -> bool:
    """Cut the batches that reach to `offset` or over it. Raises OSError, CorruptSegment or CorruptIndex."""
    assert offset >= 0
    if offset >= target.log_end_offset:
        # An epoch of which nothing was written may stand at the end of this log and contradict the leader's.
        if target.leader_epochs.truncate_from_end(target.log_end_offset):
            target.note_epochs_changed()
        return False
    if offset < target.segments.first.base_offset:
        truncate_fully(target, offset)
        return True
    place = _place_of(target, offset)
    left_out = _left_out(target, place)
    try:
        cut = _plan_cut(place, left_out)
        producers = _producers_at(target, place)
    except (CorruptSegment, CorruptIndex):
        target.ports.owner.suspect(target, place.segment.base_offset)
        raise
    log.info(
        "%s: cutting the log, which ends at %d, to offset %d",
        target.topic_partition,
        target.log_end_offset,
        place.offset,
    )
    target.discard(target.segments.remove_after(place.segment.base_offset))
    place.segment.cut(cut)
    target.producers = producers
    if target.hidden_from is not None and target.hidden_from >= place.offset:
        target.hidden_from = None
    for damaged in left_out:
        if damaged.start_offset < place.offset:
            target.note_hidden(damaged.start_offset)
    _complete(target, start_offset=min(place.offset, target.log_start_offset), end_offset=place.offset)
    target.leader_epochs.truncate_from_end(place.offset)
    target.note_epochs_changed()
    if target.damage.ends_lost_at(place.offset):
        # As after a start: to the next one a batch behind what is lost would seem to jump ahead.
        target.roll("it has lost its end")
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
    target.hidden_from = None
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
    target.set_high_watermark(min(target.high_watermark, end_offset))


def _place_of(target: "Log", offset: int) -> _Place:
    """Raises CorruptSegment, and tells the scrubber unless it knows."""
    segments, damage = target.segments, target.damage
    damaged = damage.cut_by(offset, high_watermark=target.high_watermark)
    if damaged is not None:
        segment = segments[segments.place_of(damaged.segment_base_offset)]
        return _Place(segment, damaged.start_offset, damaged.position)
    segment = segments[segments.place_of(offset)]
    around = damage.first_after(offset)
    if around is not None and around.start_offset < offset:
        return _Place(segments[segments.place_of(around.segment_base_offset)], offset, around.end_position)
    before = damage.last_before(offset, segment_base_offset=segment.base_offset)
    try:
        position = segment.position_of(offset, at_least=0 if before is None else before.end_position)
        if position is None:
            return _Place(segment, offset, segment.size_bytes)
        header = header_at(segment.log_file, position, segment.size_bytes)
        return _Place(segment, min(offset, begin_of(segment.log_file, position, header)), position)
    except CorruptSegment:
        target.ports.owner.suspect(target, offset)
        raise


def _left_out(target: "Log", place: _Place) -> Damage:
    """The damage that a cut goes around: what cannot be mended before it, or lies at the cut itself."""
    return target.damage.above(min(target.high_watermark, place.offset))


def _plan_cut(place: _Place, left_out: Damage) -> SegmentCut:
    """Read what the segment's indexes will say. Raises CorruptSegment and OSError."""
    segment = place.segment
    try:
        indexes = segment.read_indexes()
    except CorruptIndex as error:
        log.warning("%s: begun again, the segment is searched without: %s", segment.path(INDEX_SUFFIX), error)
        indexes = GrowingIndexes(aborted=segment.aborted_transactions())
    # The greatest timestamp: the index up to its last entry, then the batches after it.
    max_timestamp, offset_of_max_timestamp, start = -1, segment.base_offset, 0
    last = indexes.times.last_below(place.offset - segment.base_offset)
    if last is not None:
        max_timestamp, offset_of_max_timestamp = last[0], segment.base_offset + last[1]
        start = indexes.offsets.lookup(last[1])
    for begin, end in left_out.good_pieces(segment.base_offset, position=start, end=place.position):
        for _, header in iterate_file_headers(segment.log_file, begin, end):
            if header.max_timestamp > max_timestamp:
                max_timestamp, offset_of_max_timestamp = header.max_timestamp, header.last_offset
    return SegmentCut(place.offset, place.position, indexes, max_timestamp, offset_of_max_timestamp)


def _producers_at(target: "Log", place: _Place) -> ProducerState:
    """The producers as they were where the log is cut. Raises CorruptSegment and OSError."""
    if target.producers.end_offset == place.offset:
        return target.producers
    # Who never saw a producer need not look for one.
    if target.producers.is_empty:
        return ProducerState(end_offset=place.offset)
    producers = target.snapshots.load(
        upto=place.offset,
        log_start_offset=min(place.offset, target.log_start_offset),
    )
    left_out = _left_out(target, place)
    for segment in target.segments.from_offset(producers.end_offset):
        if producers.end_offset >= place.offset or segment.base_offset >= place.offset:
            break
        begun = max(producers.end_offset, segment.base_offset)
        before = left_out.last_before(begun, segment_base_offset=segment.base_offset)
        position = segment.position_of(begun, at_least=0 if before is None else before.end_position)
        if position is None:
            continue
        end = place.position if segment is place.segment else segment.size_bytes
        for piece, piece_end in left_out.good_pieces(segment.base_offset, position=position, end=end):
            path = segment.path(LOG_SUFFIX)
            replay_producers(target.ports.disk, path, producers, position=piece, end=piece_end, upto=place.offset)
    producers.end_offset = place.offset
    return producers
