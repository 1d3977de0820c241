"""Which transactions of a log were aborted, and from where on it is undecided (read_committed, KIP-98).

The `.txnindex` of a segment tells of it once the segment is closed. From the newest producer snapshot on, the headers
of the batches tell the rest, up to the offset at which reading ends: what was not decided below it counts as open.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

from barnabas.pipeline.segments.log_copies import LogCopy, SegmentFile, UnreadableLogs
from barnabas.protocol.batch import CorruptBatch
from barnabas.protocol.entries import verify_entry
from barnabas.runtime.disk import Disk
from barnabas.storage.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, offset_of
from barnabas.storage.index import CorruptIndex
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.scan import CorruptSegment, apply_to_producers, iterate_file_headers
from barnabas.storage.txn_index import AbortedTxn, decode_aborted

_WINDOW_BYTES: Final = 64 * 1024


class AbortedSpan(NamedTuple):
    """The records of a producer from `first_offset` to its abort marker at `last_offset` are void."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Stability:
    """Below `end` all transactions are decided, and those of `aborted` were aborted."""

    end: int
    aborted: tuple[AbortedSpan, ...]


def find_stability(disk: Disk, copy: LogCopy, end: int, *, to_the_end_of_the_log: bool) -> Stability:
    """What a reader of committed records up to `end` has to know. Raises UnreadableLogs and OSError.

    What is wrong at the end of a log that is read `to_the_end_of_the_log` is left for its reader to find.
    """
    begun = [segment for segment in copy.segments if segment.base_offset < end]
    if not begun:
        return Stability(end, ())
    producers = _newest_producers(disk, copy, begun[-1].base_offset)
    aborted: set[AbortedSpan] = set()
    for segment, following in zip_longest(begun, begun[1:]):
        assert segment is not None
        if following is not None:
            aborted.update(_spans(_indexed(disk, segment)))
        if following is None or following.base_offset > producers.end_offset:
            torn_allowed = to_the_end_of_the_log and following is None
            aborted.update(_spans(_replayed(disk, segment, producers, end, torn_allowed=torn_allowed)))
    open_from = producers.first_unstable_offset
    return Stability(end if open_from is None else min(end, open_from), tuple(sorted(aborted)))


def _spans(transactions: Sequence[AbortedTxn]) -> list[AbortedSpan]:
    # What the index says was stable by then depends on where it was begun to be read.
    return [AbortedSpan(each.producer_id, each.first_offset, each.last_offset) for each in transactions]


def _newest_producers(disk: Disk, copy: LogCopy, upto: int) -> ProducerState:
    """The producers of the newest snapshot that can be read and is not after `upto`; none at the start of the log."""
    names = [name for name in disk.list_directory(copy.directory) if name.endswith(SNAPSHOT_SUFFIX)]
    offsets = sorted((offset_of(name), name) for name in names if offset_of(name) is not None)
    for offset, name in reversed(offsets):
        if offset is None or not copy.segments[0].base_offset <= offset <= upto:
            continue
        try:
            entries = decode_snapshot(disk.read_bytes(f"{copy.directory}/{name}"))
        except CorruptSnapshot:
            continue
        return ProducerState(entries, end_offset=offset)
    return ProducerState(end_offset=copy.segments[0].base_offset)


def _indexed(disk: Disk, segment: SegmentFile) -> Sequence[AbortedTxn]:
    path = segment.path.removesuffix(LOG_SUFFIX) + TXN_INDEX_SUFFIX
    if not disk.exists(path):
        return ()
    try:
        return decode_aborted(disk.read_bytes(path), base_offset=segment.base_offset)
    except CorruptIndex as error:
        raise UnreadableLogs(f"{path} cannot be read: {error}; read with isolationLevel read_uncommitted") from None


def _replayed(
    disk: Disk, segment: SegmentFile, producers: ProducerState, end: int, *, torn_allowed: bool
) -> list[AbortedTxn]:
    """What was aborted in the segment below `end`, of the part that the producers do not know yet."""
    found: list[AbortedTxn] = []
    file = disk.open(segment.path, writable=False)
    try:
        for position, header in iterate_file_headers(file, 0, segment.size_bytes, window_bytes=_WINDOW_BYTES):
            if header.base_offset >= end:
                break
            if header.next_offset <= producers.end_offset:
                continue
            # What ends a transaction is worth its checksum; the others are checked by who reads their records.
            content = file.pread(header.size_bytes, position) if header.is_control else b""
            if header.is_control:
                verify_entry(content, 0, header)
            transaction = apply_to_producers(producers, content, header)
            if transaction is not None:
                found.append(transaction)
    except (CorruptSegment, CorruptBatch) as error:
        if producers.end_offset < end and not torn_allowed:
            raise UnreadableLogs(f"{error}; what was aborted is not known; read with read_uncommitted") from None
    finally:
        file.close()
    producers.apply_high_watermark(end)
    return found
