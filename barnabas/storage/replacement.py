"""Putting a cleaned segment into the place of those it was made from, so that a crash at any point loses nothing.

    worker: .cleaned written and synced
            the recovery point, which is above it, is in its checkpoint
    begin:  .cleaned -> .swap      then the directory is synced: from here on a start finishes the replacement
    finish: old -> .deleted, .swap -> its plain name, the log goes on with it
                                   then the directory is synced: only now the cleaner may count the range as clean

The old names must not go before the new one is there to stay, hence the first sync. Without the second a power cut
after the cleaner's checkpoint was written could bring back, below that checkpoint, those of the old segments that lie
behind the last batch of the new one: what they hold of deleted keys would come back to life.

Only the log renames, and only where it is still as it was when the cleaning began (`Log.generation`). Between the
steps nothing is cut (`LogDirectory.settled`): a swap that a start finishes must not hold what was cut. A log that is
deleted or moved away meanwhile takes its swap along.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.runtime.offload import Offload
from barnabas.runtime.tasks import uncancelled
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, RECOVERY_POINT_CHECKPOINT, SWAP_SUFFIX
from barnabas.storage.log import Log
from barnabas.storage.segment import Segment

if TYPE_CHECKING:
    from barnabas.storage.cleaning.clean_job import CleanedSegment

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class Replacement:
    """A replacement that has begun."""

    member: Log
    sources: tuple[Segment, ...]
    segment: Segment
    directory: str


async def replace_segments(
    directory: LogDirectory, member: Log, cleaned: "CleanedSegment", *, generation: int, offload: Offload
) -> bool:
    """Replace the segments that `cleaned` was made from, durably; False where the log is not what it was any more.

    A failure takes the directory offline, and is False too. Who is cancelled is so when all is done.
    """
    return await uncancelled(_replace(directory, member, cleaned, generation, offload))


async def _replace(
    directory: LogDirectory, member: Log, cleaned: "CleanedSegment", generation: int, offload: Offload
) -> bool:
    if _sources(member, cleaned) is None:
        return False
    # A start must know that all of it was synced: above the recovery point it takes a gap for a loss, and cuts there.
    await directory.checkpoint(RECOVERY_POINT_CHECKPOINT)
    await directory.settled(member)
    if member.offline or member.generation != generation:
        return False
    lane = f"flush:{directory.path}"
    done = directory.replacing[member] = asyncio.Event()
    try:
        replacement = begin_replacement(member, cleaned)
        if replacement is None:
            return False
        await offload.thread(lane, member.ports.disk.fsync_directory, replacement.directory)
        if not finish_replacement(replacement):
            return False
        await offload.thread(lane, member.ports.disk.fsync_directory, replacement.directory)
    except OSError as error:
        # A partition that is deleted meanwhile takes its directory along.
        if not member.offline:
            directory.fail(error)
        return False
    finally:
        del directory.replacing[member]
        done.set()
    return not member.offline


def begin_replacement(member: Log, cleaned: "CleanedSegment") -> Replacement | None:
    """Give the cleaned files the name under which a start finds them; None where their sources are gone."""
    sources = _sources(member, cleaned)
    if sources is None:
        return None
    segment = Segment(
        member.ports.files, member.directory, cleaned.base_offset, created_ms=member.ports.clock.wall_ms()
    )
    segment.file_suffix = CLEANED_SUFFIX
    segment.size_bytes = segment.flushed_bytes = cleaned.size_bytes
    segment.directory_synced = True
    segment.first_timestamp = cleaned.first_timestamp
    segment.max_timestamp = cleaned.max_timestamp
    segment.offset_of_max_timestamp = cleaned.offset_of_max_timestamp
    segment.has_txn_index = cleaned.has_txn_index
    segment.growing = None
    segment.rename(SWAP_SUFFIX)
    return Replacement(member, sources, segment, member.directory)


def finish_replacement(replacement: Replacement) -> bool:
    """Let the log go on with the new segment; False where it was deleted, moved away or failed meanwhile."""
    member = replacement.member
    if member.offline or member.directory != replacement.directory:
        return False
    for source in replacement.sources:
        source.rename(DELETED_SUFFIX)
    replacement.segment.rename("")
    member.segments.replace(replacement.sources, replacement.segment)
    member.ports.owner.remove_later(replacement.sources, member.config.file_delete_delay_ms)
    log.info(
        "%s: cleaned the segments at offsets %s: %d bytes became %d",
        member.topic_partition,
        ", ".join(str(source.base_offset) for source in replacement.sources),
        sum(source.size_bytes for source in replacement.sources),
        replacement.segment.size_bytes,
    )
    return True


def _sources(member: Log, cleaned: "CleanedSegment") -> tuple[Segment, ...] | None:
    """The segments of the log that are to be replaced, if they are there, closed and below the recovery point."""
    place = member.segments.place_of(cleaned.base_offset)
    end = place + len(cleaned.sources)
    if place < 0 or end >= len(member.segments):
        return None
    sources = tuple(member.segments[at] for at in range(place, end))
    if tuple(source.base_offset for source in sources) != cleaned.sources:
        return None
    is_synced = member.recovery_point_to_keep >= member.segments[end].base_offset
    return sources if is_synced and all(source.growing is None for source in sources) else None
