"""Checking a piece of a segment: every batch's checksum, length, counts and place in the order of offsets.

Runs in a thread and touches nothing. Where something is wrong it looks for the next batch that can be trusted: first
where the bad one says that it ends, then byte by byte for what looks like a header and has the right checksum. What
lies between is a damaged range.

Base offset and leader epoch stand outside of the checksum. A base offset is wrong where offsets go back: there
that batch is bad, and the one before it too if it left offsets out. A leader epoch is wrong where the log's own list of
epochs says another.
"""

import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from barnabas.protocol.batch import HEADER_BYTES, BatchHeader, CorruptBatch, CrcMismatch, TruncatedBatch
from barnabas.protocol.entries import check_count, first_entry_offset, read_entry, verify_entry
from barnabas.runtime.files import File
from barnabas.storage.damage import DamagedRange
from barnabas.storage.leader_epochs import EpochEntry
from barnabas.storage.scan import OffsetsOutOfOrder

BATCH_COST_BYTES: Final = 1024
"""What the check of a batch costs at least, as that of so many bytes."""
_WINDOW_BYTES: Final = 256 * 1024
_SEARCH_BYTES: Final = 1024 * 1024
_TRIED_AT_ONCE: Final = 256
_ALL: Final = 1 << 31
_MAGIC_AT: Final = 16
_CURRENT_MAGIC: Final = 2
_COVERED_FROM: Final = {0: 16, 1: 16, 2: 21}
"""Where the part of an entry begins that its checksum covers, by format."""


class WrongEpoch(CorruptBatch):
    """The batch says another leader epoch than the log's list."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What of a segment is to be checked: up to byte `end`; its offsets lie in [base_offset, next_base_offset)."""

    base_offset: int
    next_base_offset: int
    end: int
    epochs: Sequence[EpochEntry]
    max_inflated_bytes: int
    may_have_gaps: bool = False
    """Whether offsets may be missing between batches: compaction may have been here."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two batches: a byte, and the least offset that may follow.

    `jumped` is the place before the batch that ends here, if that left offsets out: what follows tells whether it
    was right.
    """

    position: int
    next_offset: int
    jumped: "Place | None" = None


@dataclass(slots=True)
class ScrubPiece:
    """What was found up to `place`."""

    place: Place
    checked_bytes: int = 0
    cost_bytes: int = 0
    """As a rate counts them: small batches for more than they are, so that a pass over many takes longer."""
    batches: int = 0
    damaged: list[DamagedRange] = field(default_factory=list)


def check_piece(file: File, extent: Extent, place: Place, *, max_bytes: int, max_batches: int = _ALL) -> ScrubPiece:
    """Check at most so many batches from `place` on, until there are `max_bytes` of them. Raises OSError."""
    piece = ScrubPiece(place)
    window = _Window(file)
    stop = min(extent.end, place.position + max_bytes)
    while piece.place.position < stop and piece.batches < max_batches:
        here = piece.place
        try:
            header, size = _check(window, extent, here)
        except CorruptBatch as error:
            bad = here
            if here.jumped is not None and isinstance(error, OffsetsOutOfOrder):
                # Either this one went back or the one before it jumped; a log with gaps does not tell. Both go.
                bad = here.jumped
            damaged = _find_end(window, extent, bad, here.position, problem=str(error))
            piece.damaged.append(damaged)
            piece.place = Place(damaged.end_position, damaged.end_offset)
            piece.checked_bytes += max(0, piece.place.position - here.position)
            piece.cost_bytes += max(0, piece.place.position - here.position)
            continue
        jumped = here if header.base_offset > here.next_offset and header.magic == _CURRENT_MAGIC else None
        if jumped is not None and jumped.jumped is not None:
            jumped = Place(here.position, here.next_offset)
        piece.place = Place(here.position + size, header.next_offset, jumped)
        piece.checked_bytes += size
        piece.cost_bytes += max(size, BATCH_COST_BYTES)
        piece.batches += 1
    return piece


def find_damage(file: File, extent: Extent, place: Place, *, problem: str) -> DamagedRange:
    """What is damaged from a bad batch at `place` to the next good one, or the extent's end. Raises OSError."""
    return _find_end(_Window(file), extent, place, place.position, problem=problem)


class _Window:
    """A part of the file in memory, moved as needed."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._data = memoryview(b"")
        self._at = 0

    def read(self, position: int, size: int, *, ahead: int = _WINDOW_BYTES) -> memoryview:
        """`size` bytes, fewer at the file's end."""
        at = position - self._at
        if at < 0 or at + size > len(self._data):
            self._data, self._at, at = memoryview(self.file.pread(max(size, ahead), position)), position, 0
        return self._data[at : at + size]


def _check(window: _Window, extent: Extent, place: Place) -> tuple[BatchHeader, int]:
    """The batch at `place`, if it is good, and its size. Raises CorruptBatch."""
    position = place.position
    header = read_entry(window.read(position, min(HEADER_BYTES, extent.end - position)))
    size = header.size_bytes
    if position + size > extent.end:
        raise TruncatedBatch(f"the batch ends at byte {position + size}, after the end, byte {extent.end}")
    check_count(header)
    if size <= _WINDOW_BYTES:
        verify_entry(window.read(position, size), 0, header)
    else:
        _verify_in_pieces(window.file, position, header)
    if not place.next_offset <= header.base_offset <= header.last_offset < extent.next_base_offset:
        raise OffsetsOutOfOrder(
            f"offsets {header.base_offset} to {header.last_offset} where {place.next_offset} to "
            f"{extent.next_base_offset - 1} may follow"
        )
    if header.magic == _CURRENT_MAGIC:
        _check_epoch(extent.epochs, header)
    return header, size


def _check_epoch(epochs: Sequence[EpochEntry], header: BatchHeader) -> None:
    at = bisect_right(epochs, header.base_offset, key=_start_offset) - 1
    if at >= 0 and epochs[at].epoch != header.leader_epoch:
        raise WrongEpoch(f"leader epoch {header.leader_epoch} where the log has {epochs[at].epoch}")


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _verify_in_pieces(file: File, position: int, header: BatchHeader) -> None:
    at, end, crc = position + _COVERED_FROM[header.magic], position + header.size_bytes, 0
    while at < end:
        piece = file.pread(min(_SEARCH_BYTES, end - at), at)
        if not piece:
            raise TruncatedBatch("the file is shorter")
        crc = crc32c(piece, crc) if header.magic == _CURRENT_MAGIC else zlib.crc32(piece, crc)
        at += len(piece)
    if crc != header.crc:
        raise CrcMismatch(f"the checksum is {crc:#010x}, the batch says {header.crc:#010x}")


def _find_end(window: _Window, extent: Extent, bad: Place, last_bad: int, *, problem: str) -> DamagedRange:
    """The damage from `bad` over the batch at `last_bad` to the next good one."""
    found = _announced(window, extent, bad, last_bad) or _search(window, extent, bad, last_bad)
    end_position, end_offset = (extent.end, extent.next_base_offset) if found is None else found
    return DamagedRange(extent.base_offset, bad.position, end_position, bad.next_offset, end_offset, problem)


def _announced(window: _Window, extent: Extent, bad: Place, last_bad: int) -> tuple[int, int] | None:
    """Where the bad batch says that it ends, if a good one stands there."""
    try:
        header = read_entry(window.read(last_bad, min(HEADER_BYTES, extent.end - last_bad)))
    except CorruptBatch:
        return None
    position = last_bad + header.size_bytes
    if position == extent.end:
        return extent.end, extent.next_base_offset
    return _trusted(window, extent, bad, position) if position < extent.end else None


def _search(window: _Window, extent: Extent, bad: Place, last_bad: int) -> tuple[int, int] | None:
    """The first good batch after the bad one: (position, offset)."""
    # Offsets of a segment span 31 bits, so the upper half of a base offset has one value or two.
    prefixes = {(offset >> 32).to_bytes(4, "big") for offset in (bad.next_offset, extent.next_base_offset - 1)}
    starts = b"|".join(re.escape(prefix) for prefix in sorted(prefixes))
    # Messages of old formats have a 0 or 1 there, no mark among zeros: they are found only where they are announced.
    # The mark leads: ranges of zeros are long, and full of what base offsets begin with.
    pattern = re.compile(rb"\x02(?<=(?:" + starts + rb")[\x00-\xff]{12}\x02)")
    at = last_bad + 1
    while at < extent.end:
        data = window.file.pread(min(_SEARCH_BYTES + _MAGIC_AT, extent.end - at), at)
        for number, match in enumerate(pattern.finditer(data), 1):
            if number % _TRIED_AT_ONCE == 0:
                # Compiled, nothing else here lets other threads run.
                window.file.pread(1, at)
            found = _trusted(window, extent, bad, at + match.start() - _MAGIC_AT)
            if found is not None:
                return found
        at += _SEARCH_BYTES
    return None


def _trusted(window: _Window, extent: Extent, bad: Place, position: int) -> tuple[int, int] | None:
    """Whether a batch stands there that is good and in its place: at least one offset is damaged before it."""
    try:
        header, size = _check(window, extent, Place(position, bad.next_offset + 1))
        if not extent.may_have_gaps and position + size < extent.end:
            # Its base offset is outside of the checksum, and may have been damaged along.
            follower, _ = _check(window, extent, Place(position + size, header.next_offset))
            if follower.magic == _CURRENT_MAGIC and follower.base_offset != header.next_offset:
                return None
        if header.magic == _CURRENT_MAGIC:
            return position, header.base_offset
        entry = window.read(position, size)
        return position, max(first_entry_offset(entry, 0, header, extent.max_inflated_bytes), bad.next_offset)
    except CorruptBatch:
        return None
