"""Checks the files of a log directory whose broker does not run; nothing is changed.

Of every segment: each batch's checksum, length and counts, the order of offsets within it and to the next segment, and
leader epochs against `leader-epoch-checkpoint`; that each entry of an index points to a batch with that offset, and
that the entries rise; that aborted transactions, producer snapshots and checkpoints can be read.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from barnabas.admin.log_files import UnknownFile, kind_of
from barnabas.admin.stored_entries import DamagedFile
from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage import file_names
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_of, segment_file
from barnabas.storage.index import OFFSET_ENTRY, TIME_ENTRY, CorruptIndex, StoredIndex
from barnabas.storage.leader_epochs import EpochEntry, LeaderEpochs
from barnabas.storage.scan import CorruptSegment, iterate_file_headers
from barnabas.storage.scrub_scan import Extent, Place, check_piece

Row = dict[str, Any]
_PIECE_BYTES: Final = 16 * 1024 * 1024
_MAX_INFLATED_BYTES: Final = 512 * 1024 * 1024
_OFFSET_SPAN: Final = 1 << 31


def verify_directory(disk: Disk, path: str) -> Iterator[Row]:
    """A row for the directory's own files, then one for each partition; `problems` is empty where nothing is wrong."""
    yield _row(
        path, path, 0, 0, [f"{name}: {why}" for name in _files(disk, path) if (why := _unreadable(disk, path, name))]
    )
    for name in disk.list_directory(path):
        directory = f"{path}/{name}"
        is_log = disk.is_directory(directory) and file_names.parse_partition_directory(name) is not None
        if is_log and not file_names.is_deleted_directory(name):
            yield _verify_partition(disk, path, name)


def _row(path: str, what: str, segments: int, size_bytes: int, problems: list[str]) -> Row:
    return {"directory": path, "log": what, "segments": segments, "size_bytes": size_bytes, "problems": problems}


def _files(disk: Disk, directory: str) -> list[str]:
    return [name for name in disk.list_directory(directory) if not disk.is_directory(f"{directory}/{name}")]


def _unreadable(disk: Disk, directory: str, name: str) -> str | None:
    """Why a file that is no log and no index of places cannot be what its name says."""
    try:
        kind = kind_of(name)
        if kind.suffix not in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            for _ in kind.read(disk, f"{directory}/{name}"):
                pass
    except UnknownFile:
        return None
    except DamagedFile as error:
        return str(error)
    return None


def _verify_partition(disk: Disk, path: str, name: str) -> Row:
    directory = f"{path}/{name}"
    names = _files(disk, directory)
    problems = [f"{each}: {why}" for each in names if (why := _unreadable(disk, directory, each)) is not None]
    epochs = _epochs(disk, directory)
    bases = sorted(base for each in names if each.endswith(LOG_SUFFIX) and (base := offset_of(each)) is not None)
    size_bytes = 0
    for place, base in enumerate(bases):
        next_base = bases[place + 1] if place + 1 < len(bases) else base + _OFFSET_SPAN
        file = disk.open(f"{directory}/{segment_file(base, LOG_SUFFIX)}", writable=False)
        try:
            size_bytes += file.size()
            damaged = list(_damage(file, base, next_base, epochs))
            problems += [f"{segment_file(base, LOG_SUFFIX)}: {each}" for each in damaged]
            if not damaged:
                problems += _verify_indexes(disk, directory, file, base)
        finally:
            file.close()
    return _row(path, name, len(bases), size_bytes, problems)


def _epochs(disk: Disk, directory: str) -> tuple[EpochEntry, ...]:
    try:
        return LeaderEpochs.decode(disk.read_bytes(f"{directory}/{file_names.LEADER_EPOCH_CHECKPOINT}")).entries
    except (FileNotFoundError, CorruptCheckpoint):
        return ()


def _damage(file: File, base: int, next_base: int, epochs: tuple[EpochEntry, ...]) -> Iterator[str]:
    extent = Extent(base, next_base, file.size(), epochs, _MAX_INFLATED_BYTES, may_have_gaps=True)
    place = Place(0, base)
    while place.position < extent.end:
        piece = check_piece(file, extent, place, max_bytes=_PIECE_BYTES)
        place = piece.place
        yield from map(str, piece.damaged)


def _verify_indexes(disk: Disk, directory: str, log_file: File, base: int) -> Iterator[str]:
    """Hold the indexes of a good segment against it."""
    offsets = _entries(disk, directory, base, INDEX_SUFFIX)
    times = _entries(disk, directory, base, TIME_INDEX_SUFFIX)
    for name, found in ((INDEX_SUFFIX, offsets), (TIME_INDEX_SUFFIX, times)):
        if isinstance(found, str):
            yield f"{segment_file(base, name)}: {found}"
    wanted = {position: base + relative for relative, position in offsets} if isinstance(offsets, list) else {}
    # (timestamp, offset): no batch up to that offset is later.
    marks = [(timestamp, base + relative) for timestamp, relative in times] if isinstance(times, list) else []
    greatest = max(wanted.values(), default=-1)
    mark, latest, next_offset = 0, -1, base
    try:
        for position, header in iterate_file_headers(log_file, 0, log_file.size()):
            offset = wanted.pop(position, None)
            if offset is not None and offset < header.base_offset:
                yield f"{segment_file(base, INDEX_SUFFIX)}: offset {offset} points to byte {position}, behind it"
            while mark < len(marks) and marks[mark][1] < header.base_offset:
                if latest > marks[mark][0]:
                    yield f"{segment_file(base, TIME_INDEX_SUFFIX)}: a record before offset {marks[mark][1]} is later"
                mark += 1
            latest, next_offset = max(latest, header.max_timestamp), header.next_offset
    except CorruptSegment as error:
        yield str(error)
    if greatest >= next_offset:
        yield f"{segment_file(base, INDEX_SUFFIX)}: offset {greatest} is beyond the segment's end, {next_offset}"
    for position, offset in wanted.items():
        yield f"{segment_file(base, INDEX_SUFFIX)}: no batch begins at byte {position}, where offset {offset} points"


def _entries(disk: Disk, directory: str, base: int, suffix: str) -> list[tuple[int, int]] | str:
    """The entries of an index file; why there are none, where it is damaged."""
    entry = OFFSET_ENTRY if suffix == INDEX_SUFFIX else TIME_ENTRY
    try:
        stored = StoredIndex(disk.open(f"{directory}/{segment_file(base, suffix)}", writable=False), entry)
    except FileNotFoundError:
        return "missing"
    try:
        found = [stored.entry(slot) for slot in range(len(stored))]
    except CorruptIndex as error:
        return str(error)
    finally:
        stored.close()
    for before, after in pairwise(found):
        if after[0] <= before[0] or after[1] < before[1]:
            return f"the entries do not rise: {before}, {after}"
    return found


def is_in_use(disk: Disk, path: str) -> bool:
    """Whether a broker runs on the directory."""
    lock = f"{path}/{file_names.LOCK_FILE}"
    if not os.path.exists(lock):
        return False
    try:
        disk.lock(lock).release()
    except BlockingIOError:
        return True
    return False
