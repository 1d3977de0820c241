"""What a crash may have left in a partition's directory besides its segments, and how it is tidied.

`.deleted` and `.tmp` files are removed. `.cleaned` files are an unfinished compaction: removed. `.swap` files are a
finished one that was being put into place: the logs among them are finished (`Swap`), except those at or above the
lowest `.cleaned` offset, which belong to a split that did not finish and whose original is still there. Of their
indexes that of the aborted transactions is kept, because the log alone does not tell where those began that are older
than the segment; where a crash came between the two, the log has its name already. An index without a log is removed.

So while a log runs no `.cleaned` file of work that was given up may lie below a `.swap` file: the swap would be taken
for a part of a split and removed, and the original that it stands for is gone. Whoever writes `.cleaned` files calls
`remove_cleaned` first.
"""

import logging
from dataclasses import dataclass

from barnabas.runtime.disk import Disk
from barnabas.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
    segment_file,
)

log = logging.getLogger(__name__)

_LOG_SWAP = LOG_SUFFIX + SWAP_SUFFIX
_TXN_INDEX_SWAP = TXN_INDEX_SUFFIX + SWAP_SUFFIX
_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)


@dataclass(slots=True)
class Contents:
    """The files that make up a log: base offsets of its segments, of the swaps to finish, offsets of its snapshots."""

    names: set[str]
    segments: list[int]
    swaps: list[int]
    snapshots: list[int]


def tidy(disk: Disk, directory: str) -> Contents:
    """Remove what is left over and list the rest. Raises OSError."""
    names = set(disk.list_directory(directory))
    lowest_cleaned = min((_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)), default=1 << 63)
    swaps: list[int] = []
    # Backwards, so that of a swap that is given up the log goes last.
    for name in sorted(names, reverse=True):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            _remove(disk, directory, name, names)
        elif name.endswith(SWAP_SUFFIX):
            is_kept = name.endswith((_LOG_SWAP, _TXN_INDEX_SWAP)) and _offset(name) < lowest_cleaned
            if not is_kept:
                _remove(disk, directory, name, names)
            elif name.endswith(_LOG_SWAP):
                swaps.insert(0, _offset(name))
            elif segment_file(_offset(name), _LOG_SWAP) not in names:
                _finish_txn_index(disk, directory, names, _offset(name))
    segments = sorted(_offset(name) for name in names if name.endswith(LOG_SUFFIX) and offset_of(name) is not None)
    for name in sorted(names):
        if name.endswith(_INDEX_SUFFIXES) and offset_of(name) is not None and offset_of(name) not in segments:
            log.warning("%s/%s: removed, an index without a log", directory, name)
            _remove(disk, directory, name, names)
    snapshots = sorted(
        _offset(name) for name in names if name.endswith(SNAPSHOT_SUFFIX) and offset_of(name) is not None
    )
    return Contents(names, segments, swaps, snapshots)


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove what was written for a replacement that was given up. Raises OSError."""
    for name in disk.list_directory(directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{directory}/{name}")


def finish_swap(disk: Disk, directory: str, contents: Contents, base_offset: int, *, next_offset: int) -> None:
    """Put the swapped log into the place of the segments that it covers, [base offset, next offset)."""
    for covered in [base for base in contents.segments if base_offset <= base < next_offset or base == base_offset]:
        for suffix in SEGMENT_SUFFIXES:
            name = segment_file(covered, suffix)
            if name in contents.names:
                _remove(disk, directory, name, contents.names)
        contents.segments.remove(covered)
    plain = segment_file(base_offset, LOG_SUFFIX)
    log.info("%s/%s: finished the swap that a crash interrupted", directory, plain)
    disk.rename(f"{directory}/{plain}{SWAP_SUFFIX}", f"{directory}/{plain}")
    contents.names.add(plain)
    _finish_txn_index(disk, directory, contents.names, base_offset)
    contents.segments = sorted([*contents.segments, base_offset])


def drop_swap(disk: Disk, directory: str, contents: Contents, base_offset: int) -> None:
    """Remove a swapped log that is damaged while the originals are there."""
    for suffix in (_TXN_INDEX_SWAP, _LOG_SWAP):
        _remove(disk, directory, segment_file(base_offset, suffix), contents.names)


def _finish_txn_index(disk: Disk, directory: str, names: set[str], base_offset: int) -> None:
    plain = segment_file(base_offset, TXN_INDEX_SUFFIX)
    if plain + SWAP_SUFFIX in names:
        disk.rename(f"{directory}/{plain}{SWAP_SUFFIX}", f"{directory}/{plain}")
        names.discard(plain + SWAP_SUFFIX)
        names.add(plain)


def _remove(disk: Disk, directory: str, name: str, names: set[str]) -> None:
    disk.remove(f"{directory}/{name}")
    names.discard(name)


def _offset(name: str) -> int:
    offset = offset_of(name)
    return -1 if offset is None else offset
