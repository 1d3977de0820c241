"""What a log directory knows to be damaged, over the end of the process: read and kept when its logs are loaded.

What shows damage at a start may be gone at the next one: indexes that tell of batches which a segment has lost are
built again, and what is behind a recovery point is not looked at. So what was found is kept first, whether or not
anybody checks the logs later on. The file is the scrubber's (`scrub_record.py`), which writes it from then on.

The record may be older than the log: a kill may have come after damage was mended, or cut and fetched again, and before
that was written. Bytes that are good again the scrubber finds; a lost end has none, so that is looked at here.
"""

from dataclasses import replace

from barnabas.protocol.ids import TopicPartition
from barnabas.runtime.disk import Disk
from barnabas.storage.damage import DamagedRange
from barnabas.storage.directory import LogDirectory
from barnabas.storage.log import Log
from barnabas.storage.scan import CorruptSegment, begin_of, header_at
from barnabas.storage.scrub_record import SCRUB_RECORD, ScrubRecord


def recall_damage(directory: LogDirectory, disk: Disk) -> None:
    """Add what the last life knew to what loading found, and keep both durably. Raises OSError."""
    path = f"{directory.path}/{SCRUB_RECORD}"
    try:
        record = ScrubRecord.decode(disk.read_bytes(path))
    except FileNotFoundError:
        record = ScrubRecord()
    directory.scrub_record = record
    for at, member in directory.logs.items():
        # What loading found is newer than what was known before.
        found = list(member.damage)
        known_before = [_still_lost(member, each) for each in record.damage.get(at, ())]
        for damaged in (*known_before, *found):
            if damaged is not None:
                member.damage.add(damaged)
        forget_what_went(member)
    known = known_damage(directory)
    if known != {at: tuple(ranges) for at, ranges in record.damage.items()}:
        record.damage = known
        disk.write_durably(path, record.encode())


def _still_lost(member: Log, damaged: DamagedRange) -> DamagedRange | None:
    """What is left of a lost end: none of what stands there again, nor what follows. Raises OSError."""
    place = max(0, member.segments.place_of(damaged.segment_base_offset))
    segment = member.segments[place]
    if damaged.size_bytes or segment.base_offset != damaged.segment_base_offset:
        return damaged
    lost_from = max(damaged.start_offset, member.log_start_offset)
    try:
        position = segment.position_of(lost_from)
        if position is not None:
            header = header_at(segment.log_file, position, segment.size_bytes)
            follows = begin_of(segment.log_file, position, header)
        else:
            follows = (
                member.log_end_offset if place + 1 == len(member.segments) else member.segments[place + 1].base_offset
            )
    except CorruptSegment:
        return damaged
    return replace(damaged, end_offset=min(damaged.end_offset, follows)) if lost_from < follows else None


def known_damage(directory: LogDirectory) -> dict[TopicPartition, tuple[DamagedRange, ...]]:
    """What the record has to say now."""
    return {at: tuple(member.damage) for at, member in directory.logs.items() if member.damage}


def forget_what_went(member: Log) -> None:
    """Forget damage that was cut, or that nobody reads any more."""
    member.damage.keep_segments([segment.base_offset for segment in member.segments])
    member.damage.keep_within(
        start_offset=member.log_start_offset,
        end_offset=member.log_end_offset,
        end_position=member.segments.active.size_bytes,
    )
