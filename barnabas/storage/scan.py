"""Walking over the batches of a segment's file, in pieces: no segment is ever held in memory whole.

`iterate_file_headers` trusts the file and reads headers only, for lookups. `scan_segment` trusts nothing: it checks
every batch as recovery does and builds all that follows from the log again. It touches nothing, takes and returns
values that can be pickled, and so can run in a worker process.

A batch is bad when its bytes end early, its length or counts are impossible, its checksum does not match, or its
offsets go back. Base offset and leader epoch stand outside of the checksum: where one batch jumps ahead and the next
continues what stood before it, the one that jumped is the bad one.

What was synced before need not be read whole again: of that part the headers are walked, with the checksum of a batch
looked at where its producer says something that does not follow from what is known of it. A bit that flipped there
would else make up a producer.

A log may hold entries of all message formats, as its topic's format changed over time: "batch" means any of them here.
Of a wrapper (message_set.py) only the last offset is known, so it seems to jump ahead. Old messages do not tell their
leader epoch: what was known before them is forgotten, as when they were appended.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from crc32c import crc32c

from barnabas.protocol.batch import (
    CURRENT_MAGIC,
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    CrcMismatch,
    TruncatedBatch,
)
from barnabas.protocol.entries import check_count, first_entry_offset, read_entry, verify_entry
from barnabas.protocol.records import ControlRecordType, iterate_records, read_control_record
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import Buffer, File
from barnabas.storage.damage import DamagedRange
from barnabas.storage.index import OffsetIndex, TimeIndex
from barnabas.storage.leader_epochs import EpochEntry
from barnabas.storage.log_config import MAX_INT32, MOST_INFLATED_BYTES
from barnabas.storage.producer_state import EndTxn, ProducerState
from barnabas.storage.txn_index import AbortedTxn

LOOKUP_WINDOW_BYTES: Final = 8 * 1024
_REPLAY_WINDOW: Final = 64 * 1024
_SCAN_WINDOW: Final = 1024 * 1024
_TRUSTED_WINDOW: Final = 1024
_CRC_COVERS_FROM: Final = 21
_CONTROL_BYTES: Final = 64 * 1024
_OLD_CRC_COVERS_FROM: Final = 16


class CorruptSegment(Exception):
    """A segment's file does not hold a batch where one must be."""


class OffsetsOutOfOrder(CorruptBatch):
    """A batch whose offsets do not follow those before it, or cannot stand in its segment."""


@dataclass(slots=True)
class SegmentScan:
    """What a scan found: how far the segment is good, and all that can be rebuilt from that part."""

    valid_bytes: int
    next_offset: int
    batches: int = 0
    offset_index: OffsetIndex = field(default_factory=OffsetIndex)
    time_index: TimeIndex = field(default_factory=TimeIndex)
    last_indexed_position: int = 0
    first_timestamp: int | None = None
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    epochs: list[EpochEntry] = field(default_factory=list)
    """Those that begin in this segment, after the last message of an old format."""
    forgets_epochs: bool = False
    """Whether there is such a message, so that no epoch from before is known any more."""
    epoch_floors: list[int] = field(default_factory=list)
    """For each of them where the batch before it ends: it began there or later."""
    aborted: list[AbortedTxn] = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)
    trusted_bytes: int = 0
    """How much of the file was not read but for its headers."""
    has_gaps: bool = False
    """Whether offsets are left out between batches, as compaction does, or may be."""
    problem: str | None = None
    """Why the scan ended before the end of the file."""
    damaged: list[DamagedRange] = field(default_factory=list)
    """What was gone over because it was synced (`damaged_scan.py`)."""


class Readable(Protocol):
    """What can be read from: a file, or a stretch of it that was read at once."""

    @property
    def path(self) -> str: ...

    def pread(self, size: int, position: int) -> bytes: ...


class _ReadAhead:
    """A file that is read in stretches, for who goes through it in small steps: a slow device is asked seldom."""

    __slots__ = ("_file", "_position", "_stretch")

    def __init__(self, file: File) -> None:
        self._file = file
        self._stretch, self._position = b"", 0

    @property
    def path(self) -> str:
        return self._file.path

    def pread(self, size: int, position: int) -> bytes:
        at = position - self._position
        if at < 0 or at + size > len(self._stretch):
            if size > _REPLAY_WINDOW:
                return self._file.pread(size, position)
            self._stretch, self._position, at = self._file.pread(_REPLAY_WINDOW, position), position, 0
        return self._stretch[at : at + size]


def iterate_file_headers(
    file: Readable, position: int, end: int, *, window_bytes: int = LOOKUP_WINDOW_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches from `position`, where one starts, to `end`: (position, header). Raises CorruptSegment."""
    window, window_at = b"", position
    while position < end:
        at = position - window_at
        if at + HEADER_BYTES > len(window):
            window, window_at, at = file.pread(min(window_bytes, end - position), position), position, 0
        try:
            header = read_entry(window, at)
        except CorruptBatch as error:
            raise CorruptSegment(f"{file.path}: no batch at byte {position}: {error}") from error
        if position + header.size_bytes > end:
            raise CorruptSegment(f"{file.path}: the batch at byte {position} goes over the end, byte {end}")
        yield position, header
        position += header.size_bytes


def header_at(file: Readable, position: int, end: int) -> BatchHeader:
    """The header of the batch at `position`, which is before `end`. Raises CorruptSegment."""
    return next(iterate_file_headers(file, position, end, window_bytes=HEADER_BYTES))[1]


def begin_of(file: File, position: int, header: BatchHeader) -> int:
    """The offset of the first record of the batch at `position`. Raises CorruptSegment."""
    if header.magic == CURRENT_MAGIC:
        return header.base_offset
    try:
        return first_entry_offset(file.pread(header.size_bytes, position), 0, header, MOST_INFLATED_BYTES)
    except CorruptBatch as error:
        raise CorruptSegment(f"{file.path}: the wrapper at byte {position}: {error}") from error


def read_end_txn(batch: Buffer, header: BatchHeader) -> tuple[EndTxn, int] | None:
    """What the control batch says and its timestamp; None for an empty one or a type that ends no transaction."""
    for record in iterate_records(batch, 0, header, _CONTROL_BYTES):
        marker = read_control_record(record)
        if marker.kind is ControlRecordType.UNKNOWN:
            return None
        commit = marker.kind is ControlRecordType.COMMIT
        return EndTxn(commit, marker.coordinator_epoch), record.timestamp
    return None


def apply_to_producers(producers: ProducerState, batch: Buffer, header: BatchHeader) -> AbortedTxn | None:
    """Record a batch of the log, with its bytes where it is a control batch; the transaction that it aborted."""
    aborted = None
    if header.producer_id >= 0:
        if not header.is_control:
            producers.apply_batch(header, base_offset=header.base_offset)
        elif (end_txn := read_end_txn(batch, header)) is not None:
            marker, timestamp = end_txn
            done = producers.apply_marker(header, marker, offset=header.base_offset, timestamp=timestamp)
            if done.aborted:
                stable = producers.last_stable_offset_after(done)
                aborted = AbortedTxn(done.producer_id, done.first_offset, done.last_offset, stable)
    producers.end_offset = header.next_offset
    return aborted


def replay_producers(
    disk: Disk, path: str, producers: ProducerState, *, position: int, end: int, upto: int
) -> list[AbortedTxn]:
    """Apply the batches of a segment, from the state's end offset to `upto`, to the producers; what was aborted there.

    `position` is where a batch starts that is not after the state's end offset. Raises CorruptSegment, with what comes
    before the damage applied.
    """
    file = disk.open(path, writable=False)
    ahead = _ReadAhead(file)
    aborted: list[AbortedTxn] = []
    try:
        for at, header in iterate_file_headers(ahead, position, end):
            if header.base_offset >= upto:
                break
            if header.next_offset <= producers.end_offset:
                continue
            try:
                batch = _read_for_producers(ahead, at, header, producers)
                ended = apply_to_producers(producers, batch, header)
            except CorruptBatch as error:
                raise CorruptSegment(f"{path}: the batch at byte {at}: {error}") from error
            if ended is not None:
                aborted.append(ended)
    finally:
        file.close()
    return aborted


def _read_for_producers(file: Readable, position: int, header: BatchHeader, producers: ProducerState) -> bytes:
    """The bytes of a control batch, none of another. Raises CorruptBatch where a surprising one is damaged."""
    if header.producer_id >= 0 and (header.is_control or not producers.expects(header)):
        verify_at(file, position, header)
    return file.pread(header.size_bytes, position) if header.is_control else b""


def scan_segment(
    disk: Disk,
    path: str,
    *,
    base_offset: int,
    next_base_offset: int | None,
    index_interval_bytes: int,
    producers: ProducerState,
    trusted_to: int = 0,
    may_have_gaps: bool = True,
) -> SegmentScan:
    """Check the whole segment and rebuild what follows from it, up to the first bad batch.

    `next_base_offset` is where the next segment starts, if there is one. `producers` is the state at the segment's
    base offset; it is changed. Of the batches below `trusted_to`, which were synced, only headers and control records
    are read. Base offsets stand outside of checksums: what follows tells whether one that leaves offsets out is right,
    and where nothing follows it is bad, unless there `may_have_gaps`, or are others. Raises OSError.
    """
    file = disk.open(path, writable=False)
    scan = SegmentScan(0, base_offset, producers=producers)
    try:
        scan_on(
            scan,
            file,
            base_offset=base_offset,
            next_base_offset=next_base_offset,
            index_interval_bytes=index_interval_bytes,
            trusted_to=trusted_to,
            may_have_gaps=may_have_gaps,
        )
    finally:
        file.close()
    return scan


def scan_on(
    scan: SegmentScan,
    file: File,
    *,
    base_offset: int,
    next_base_offset: int | None,
    index_interval_bytes: int,
    trusted_to: int = 0,
    may_have_gaps: bool = True,
) -> None:
    """Go on from where the scan is, up to the first bad batch, of which `scan.problem` tells, or to the end."""
    highest_offset = base_offset + MAX_INT32
    if next_base_offset is not None:
        highest_offset = min(highest_offset, next_base_offset - 1)
    try:
        batches = _batches(scan, file, file.size(), trusted_to)
        scan.has_gaps = scan.has_gaps or may_have_gaps
        _scan_batches(scan, batches, base_offset, highest_offset, index_interval_bytes)
    except CorruptBatch as error:
        scan.problem = str(error)


_Checked = tuple[int, BatchHeader, memoryview]


def _scan_batches(
    scan: SegmentScan, checked: Iterator[_Checked], base_offset: int, highest_offset: int, interval: int
) -> None:
    jumped: _Checked | None = None
    try:
        for found in checked:
            header = found[1]
            if jumped is not None:
                if header.base_offset < jumped[1].next_offset:
                    suspect, jumped = jumped, None
                    raise OffsetsOutOfOrder(f"base offset {suspect[1].base_offset} is ahead of what follows")
                _note(scan, jumped, base_offset, interval)
                scan.has_gaps, jumped = True, None
            if not scan.next_offset <= header.base_offset <= header.last_offset <= highest_offset:
                raise OffsetsOutOfOrder(
                    f"offsets {header.base_offset} to {header.last_offset} do not follow {scan.next_offset - 1}"
                )
            if header.base_offset > scan.next_offset:
                jumped = found
            else:
                _note(scan, found, base_offset, interval)
    finally:
        # Nothing good follows it, at the end or before a bad batch.
        if jumped is not None and _may_end_with(scan, jumped[1], highest_offset):
            _note(scan, jumped, base_offset, interval)
            jumped = None
    if jumped is not None:
        raise OffsetsOutOfOrder(f"base offset {jumped[1].base_offset} is ahead of {scan.next_offset}")


def _may_end_with(scan: SegmentScan, header: BatchHeader, highest_offset: int) -> bool:
    """Whether a batch that leaves offsets out may be right though nothing follows that would tell."""
    return scan.has_gaps or header.last_offset == highest_offset or header.magic < CURRENT_MAGIC


def _batches(scan: SegmentScan, file: File, end: int, trusted_to: int) -> Iterator[_Checked]:
    """Every batch with its position and bytes (none for one greater than the window). Raises CorruptBatch."""
    position = scan.valid_bytes
    trusted_end = end if trusted_to > 0 else position
    try:
        for at, header in iterate_file_headers(file, position, trusted_end, window_bytes=_TRUSTED_WINDOW):
            if header.next_offset > trusted_to:
                break
            check_count(header)
            yield at, header, memoryview(_read_for_producers(file, at, header, scan.producers))
            position = scan.trusted_bytes = at + header.size_bytes
    except CorruptSegment:
        # What is wrong there is found by the checks.
        pass
    yield from _checked_batches(file, position, end)


def _checked_batches(file: File, position: int, end: int) -> Iterator[_Checked]:
    window, window_at = memoryview(b""), 0
    while position < end:
        at = position - window_at
        if at + HEADER_BYTES > len(window):
            window, window_at, at = memoryview(file.pread(_SCAN_WINDOW, position)), position, 0
        header = read_entry(window, at)
        size = header.size_bytes
        if position + size > end:
            raise TruncatedBatch(f"the batch ends at byte {position + size}, after the file's end")
        check_count(header)
        if at + size > len(window) and size <= _SCAN_WINDOW:
            window, window_at, at = memoryview(file.pread(_SCAN_WINDOW, position)), position, 0
        if size <= len(window) - at:
            verify_entry(window, at, header)
            yield position, header, window[at : at + size]
        else:
            _verify_crc_in_pieces(file, position, header)
            yield position, header, memoryview(b"")
        position += size


def verify_at(file: Readable, position: int, header: BatchHeader) -> None:
    """Check a batch's checksum where it lies, however great it is. Raises CorruptBatch."""
    if header.size_bytes <= _SCAN_WINDOW:
        verify_entry(file.pread(header.size_bytes, position), 0, header)
    else:
        _verify_crc_in_pieces(file, position, header)


def _verify_crc_in_pieces(file: Readable, position: int, header: BatchHeader) -> None:
    is_batch = header.magic == CURRENT_MAGIC
    checksum: Callable[[bytes, int], int] = crc32c if is_batch else zlib.crc32
    at = position + (_CRC_COVERS_FROM if is_batch else _OLD_CRC_COVERS_FROM)
    end, crc = position + header.size_bytes, 0
    while at < end:
        piece = file.pread(min(_SCAN_WINDOW, end - at), at)
        if not piece:
            raise TruncatedBatch("the file became shorter")
        crc = checksum(piece, crc)
        at += len(piece)
    if crc != header.crc:
        raise CrcMismatch(f"the checksum is {crc:#010x}, the batch says {header.crc:#010x}")


def _note(scan: SegmentScan, found: _Checked, base_offset: int, interval: int) -> None:
    """Add a good batch to what the scan found."""
    position, header, batch = found
    aborted = apply_to_producers(scan.producers, batch, header)
    if aborted is not None:
        scan.aborted.append(aborted)
    if header.max_timestamp > scan.max_timestamp:
        scan.max_timestamp, scan.offset_of_max_timestamp = header.max_timestamp, header.last_offset
    if scan.first_timestamp is None:
        scan.first_timestamp = header.max_timestamp
    if position - scan.last_indexed_position > interval:
        scan.offset_index.append(header.last_offset - base_offset, position)
        scan.time_index.maybe_append(scan.max_timestamp, scan.offset_of_max_timestamp - base_offset)
        scan.last_indexed_position = position
    if header.magic < CURRENT_MAGIC:
        scan.epochs, scan.epoch_floors, scan.forgets_epochs = [], [], True
    elif header.leader_epoch >= 0 and (not scan.epochs or header.leader_epoch > scan.epochs[-1].epoch):
        scan.epochs.append(EpochEntry(header.leader_epoch, header.base_offset))
        scan.epoch_floors.append(scan.next_offset)
    scan.valid_bytes = position + header.size_bytes
    scan.next_offset = header.next_offset
    scan.batches += 1
