"""Reading again what a log knows of its producers and aborted transactions, when damage that hid some of it is mended.

Where a log was loaded or cut with damage in it, the batches there were left out. Once they are good again the producers
are read from the newest snapshot before them, as at a start, and with them which transactions were aborted in the
segments from there on. Until then no snapshot is written, so that a start reads them again too.

Nothing may be appended or cut meanwhile.
"""

import asyncio
import logging
from dataclasses import dataclass

from barnabas.runtime.disk import Disk
from barnabas.runtime.offload import Offload
from barnabas.storage.directory import LogDirectory
from barnabas.storage.file_names import LOG_SUFFIX, TXN_INDEX_SUFFIX
from barnabas.storage.index import CorruptIndex
from barnabas.storage.log import Log
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import replay_producers
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTxn, encode_aborted

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Replay:
    """The files of the segments to read, with their sizes, and the producers before them."""

    disk: Disk
    producers: ProducerState
    files: tuple[tuple[str, int], ...]
    upto: int

    def run(self) -> list[list[AbortedTxn]]:
        """What was aborted, by segment. Raises CorruptSegment and OSError."""
        return [
            replay_producers(self.disk, path, self.producers, position=0, end=size_bytes, upto=self.upto)
            for path, size_bytes in self.files
        ]


async def rebuild_producers(directory: LogDirectory, member: Log, *, offload: Offload, lane: str) -> bool:
    """Read them again; False where the log has changed meanwhile. Raises CorruptSegment, LogOffline and OSError."""
    hidden_from = member.hidden_from
    assert hidden_from is not None
    await directory.settled(member)
    # What was rolled is closed then, and its indexes written.
    await directory.flush(member, member.log_end_offset)
    generation, end_offset = member.generation, member.log_end_offset
    producers = member.snapshots.load(
        upto=hidden_from,
        log_start_offset=member.log_start_offset,
    )
    begun = producers.end_offset
    segments = list(member.segments.from_offset(begun))
    files = tuple((segment.path(LOG_SUFFIX), segment.size_bytes) for segment in segments)
    replay = _Replay(member.ports.disk, producers, files, end_offset)
    aborted = await offload.thread(lane, replay.run)
    found = list(zip(segments, aborted, strict=True))

    def is_the_same() -> bool:
        there = list(member.segments.from_offset(begun))
        return not member.offline and member.generation == generation and there == segments

    await directory.settled(member)
    if not is_the_same():
        return False
    done = directory.replacing[member] = asyncio.Event()
    try:
        for segment, transactions in found:
            if segment.growing is None:
                await _write_index(member, segment, transactions, begun, offload=offload, lane=lane)
    finally:
        del directory.replacing[member]
        done.set()
    if not is_the_same() or any(segment.growing is not None for segment in segments[:-1]):
        return False
    active = segments[-1]
    if active.growing is not None:
        active.growing.aborted = [*(each for each in active.growing.aborted if each.last_offset < begun), *aborted[-1]]
    producers.end_offset = end_offset
    member.producers, member.hidden_from = producers, None
    producers.apply_high_watermark(member.high_watermark)
    # A cleaning may have read what it said of aborted transactions before.
    member.generation += 1
    log.info("%s: %d producers were read again from offset %d on", member.topic_partition, len(producers), begun)
    return True


async def _write_index(
    member: Log, segment: Segment, found: list[AbortedTxn], begun: int, *, offload: Offload, lane: str
) -> None:
    """Let a closed segment's index say what was found, behind what it says of the part that was not read."""
    try:
        said = segment.aborted_transactions()
    except CorruptIndex:
        said = []
    wanted = [*(each for each in said if each.last_offset < begun), *found]
    if wanted != said:
        path = segment.path(TXN_INDEX_SUFFIX)
        await offload.thread(lane, member.ports.disk.write_durably, path, encode_aborted(wanted))
        segment.has_txn_index = bool(wanted)
