"""Building a closed segment's index and time index again, in their place, while the log goes on.

Without them nothing is lost but time: who searches reads the segment from its beginning. What one of them says is not
believed where the batches say otherwise (`Segment.index_problem`); the scrubber is told of it, and has both made from
the batches, in a thread. The new files take the place of the old ones between two replacements (`replacement.py`).
"""

import asyncio
import logging

from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Offload
from barnabas.storage.damaged_scan import ScanTask
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from barnabas.storage.log import Log
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import CorruptSegment, SegmentScan
from barnabas.storage.segment import Segment

log = logging.getLogger(__name__)


async def rebuild_indexes(
    directory: LogDirectory, member: Log, segment: Segment, *, offload: Offload, lane: str
) -> bool:
    """Build both again; False where the log has changed meanwhile. Raises CorruptSegment and OSError."""
    problem, generation, disk = segment.index_problem, member.generation, member.ports.disk
    place = member.segments.place_of(segment.base_offset)
    path = segment.path(LOG_SUFFIX)
    task = ScanTask(
        disk,
        path,
        segment.base_offset,
        member.segments[place + 1].base_offset,
        member.config.index_interval_bytes,
        ProducerState(end_offset=segment.base_offset),
    )
    scan = await offload.thread(lane, task.run)
    if scan.problem is not None:
        raise CorruptSegment(f"{path}: {scan.problem}")
    scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp - segment.base_offset)
    await directory.settled(member)
    place = member.segments.place_of(segment.base_offset)
    if member.offline or member.generation != generation or place < 0 or member.segments[place] is not segment:
        return False
    done = directory.replacing[member] = asyncio.Event()
    try:
        paths = segment.path(INDEX_SUFFIX), segment.path(TIME_INDEX_SUFFIX)
        await offload.thread(lane, _write, disk, paths, scan)
    finally:
        del directory.replacing[member]
        done.set()
    segment.reread_indexes()
    segment.max_timestamp, segment.offset_of_max_timestamp = scan.max_timestamp, scan.offset_of_max_timestamp
    log.warning("%s: its indexes are built again: %s", path, problem)
    return True


def _write(disk: Disk, paths: tuple[str, str], scan: SegmentScan) -> None:
    disk.write_durably(paths[0], scan.offset_index.encode())
    disk.write_durably(paths[1], scan.time_index.encode())
