"""Building a closed segment's index of aborted transactions again, in its place, while the log goes on.

What it says is nowhere else but in the batches, and without it nobody can be told which records were aborted: readers
of committed records are refused, and the log is not cleaned. The other indexes only make searches short; these go
without where one cannot be read, and a start builds it again.

As a start does: the segment is scanned with the producers as they were at its beginning, from a snapshot and the
batches after it. All of it is read again, in a thread. The new file takes the old one's place between two replacements
(`replacement.py`), and only if the segment still is the log's.
"""

import asyncio
import logging
from collections.abc import Sequence

from barnabas.runtime.offload import Offload
from barnabas.storage.damaged_scan import ScanTask
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import LOG_SUFFIX, TXN_INDEX_SUFFIX
from barnabas.storage.index import CorruptIndex
from barnabas.storage.log import Log
from barnabas.storage.scan import CorruptSegment, replay_producers
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTxn, encode_aborted

log = logging.getLogger(__name__)


def lacks_aborted(segment: Segment) -> str | None:
    """Why a closed segment's aborted transactions cannot be read; None where they can. Raises OSError."""
    if segment.growing is None:
        try:
            segment.aborted_transactions()
        except CorruptIndex as error:
            return str(error)
    return None


async def rebuild_aborted(
    directory: LogDirectory, member: Log, segment: Segment, *, offload: Offload, lane: str
) -> bool:
    """Build the index again; False where the log has changed meanwhile. Raises CorruptSegment and OSError."""
    generation = member.generation
    place = member.segments.place_of(segment.base_offset)
    producers = member.snapshots.load(
        upto=segment.base_offset,
        log_start_offset=member.log_start_offset,
    )
    before = [
        (each.path(LOG_SUFFIX), each.size_bytes)
        for each in member.segments.from_offset(producers.end_offset)
        if each.base_offset < segment.base_offset
    ]
    # Of the scan only the markers count: no entry of another index is wanted.
    scan = ScanTask(
        member.ports.disk,
        segment.path(LOG_SUFFIX),
        segment.base_offset,
        member.segments[place + 1].base_offset,
        1 << 31,
        producers,
    )
    aborted = await offload.thread(lane, _find_aborted, scan, before)
    await directory.settled(member)
    place = member.segments.place_of(segment.base_offset)
    if member.offline or member.generation != generation or place < 0 or member.segments[place] is not segment:
        return False
    done = directory.replacing[member] = asyncio.Event()
    try:
        data = encode_aborted(aborted)
        await offload.thread(lane, member.ports.disk.write_durably, segment.path(TXN_INDEX_SUFFIX), data)
    finally:
        del directory.replacing[member]
        done.set()
    # A cleaning may have read the old one.
    member.generation += 1
    log.warning("%s: built again: %d aborted transactions", segment.path(TXN_INDEX_SUFFIX), len(aborted))
    return True


def _find_aborted(task: ScanTask, before: Sequence[tuple[str, int]]) -> list[AbortedTxn]:
    """`before` are the log files, with their sizes, from where the task's producers are known."""
    for path, size_bytes in before:
        replay_producers(task.disk, path, task.producers, position=0, end=size_bytes, upto=task.base_offset)
    scan = task.run()
    if scan.problem is not None:
        raise CorruptSegment(f"{task.path}: {scan.problem}")
    return scan.aborted
