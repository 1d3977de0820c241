"""Whether a closed segment's indexes can be true of its log: looked at cheaply, when a log is loaded.

Only their last entries are read, and the whole index of aborted transactions.
"""

from barnabas.runtime.disk import Disk
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, PointsBehindEnd, StoredIndex
from barnabas.storage.scan import CorruptSegment, iterate_file_headers
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import decode_aborted


def check_indexes(disk: Disk, segment: Segment) -> tuple[int, int] | None:
    """Whether the indexes can be true of the log; the last entry of the time index.

    Raises CorruptIndex, PointsBehindEnd where the log was longer once, FileNotFoundError and OSError.
    """
    offsets = StoredIndex(disk.open(segment.path(INDEX_SUFFIX), writable=False), OFFSET_ENTRY)
    try:
        last = offsets.last
        if last is not None and last[1] >= segment.size_bytes:
            raise PointsBehindEnd(f"an entry points to byte {last[1]} of a log of {segment.size_bytes}")
        if last is not None and (last[0] < 0 or last[1] <= 0):
            raise CorruptIndex(f"an entry for offset {last[0]} points to byte {last[1]}")
    finally:
        offsets.close()
    times = StoredIndex(disk.open(segment.path(TIME_INDEX_SUFFIX), writable=False), TIME_ENTRY)
    try:
        last_time, first_time = times.last, times.entry(0) if len(times) else None
    finally:
        times.close()
    if last_time is not None and not segment.size_bytes:
        raise PointsBehindEnd(f"an entry points to offset {segment.base_offset + last_time[1]} of a log of 0 bytes")
    if last_time is not None and first_time is not None and (last_time < first_time or min(last_time) < 0):
        raise CorruptIndex("the timestamps do not rise")
    if last_time is None and segment.size_bytes and len(times) == 0 and _has_timestamps(disk, segment):
        raise CorruptIndex("the time index is empty")
    if segment.has_txn_index:
        decode_aborted(disk.read_bytes(segment.path(TXN_INDEX_SUFFIX)), base_offset=segment.base_offset)
    return last_time


def _has_timestamps(disk: Disk, segment: Segment) -> bool:
    file = disk.open(segment.path(LOG_SUFFIX), writable=False)
    try:
        for _, header in iterate_file_headers(file, 0, segment.size_bytes):
            return header.max_timestamp >= 0
    except CorruptSegment:
        return False
    finally:
        file.close()
    return False
