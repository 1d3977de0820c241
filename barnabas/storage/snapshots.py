"""The producer snapshots of a log: which there are, writing them, loading the best.

A snapshot is written without waiting for the disk; the flush that lets the recovery point pass it syncs it. One that a
power cut tore has a wrong checksum: it is removed and the one before is taken.
"""

import logging
from bisect import insort

from barnabas.runtime.disk import Disk
from barnabas.runtime.files import File
from barnabas.storage.file_names import SNAPSHOT_SUFFIX, segment_file
from barnabas.storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from barnabas.storage.producer_state import ProducerState

log = logging.getLogger(__name__)


class Snapshots:
    """The snapshot files of one log, by their offsets."""

    __slots__ = ("_disk", "_offsets", "_unsynced", "directory")

    def __init__(self, disk: Disk, directory: str, offsets: list[int]) -> None:
        self._disk = disk
        self.directory = directory
        self._offsets = sorted(offsets)
        self._unsynced: list[int] = []

    @property
    def offsets(self) -> tuple[int, ...]:
        return tuple(self._offsets)

    def path(self, offset: int) -> str:
        return f"{self.directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"

    def write(self, producers: ProducerState) -> None:
        """Write the state as it is at its end offset, unless there is such a snapshot. Raises OSError."""
        if producers.end_offset not in self._offsets:
            self.write_anew(producers)

    def write_anew(self, producers: ProducerState) -> None:
        """Write it whatever is there, which after a crash may be torn, or whole and not synced. Raises OSError."""
        offset = producers.end_offset
        data = encode_snapshot(producers)
        file = self._disk.open(self.path(offset), create=True)
        try:
            file.pwrite(data, 0)
            file.truncate(len(data))
        finally:
            file.close()
        if offset not in self._offsets:
            insort(self._offsets, offset)
        if offset not in self._unsynced:
            self._unsynced.append(offset)

    def take_unsynced(self) -> tuple[File, ...]:
        """The snapshots that no flush was told of yet; the caller syncs and closes them."""
        files = tuple(self._disk.open(self.path(offset)) for offset in self._unsynced)
        self._unsynced.clear()
        return files

    def load(self, *, upto: int, log_start_offset: int) -> ProducerState:
        """The state of the newest good snapshot at or below `upto`, else an empty one.

        Who seems idle by the timestamps of its records is in it: it may be about to send its last batch again. A
        corrupt snapshot is removed. Raises OSError.
        """
        for offset in reversed([offset for offset in self._offsets if log_start_offset < offset <= upto]):
            try:
                entries = decode_snapshot(self._disk.read_bytes(self.path(offset)))
            except CorruptSnapshot as error:
                log.warning("%s: removed, an older one is taken: %s", self.path(offset), error)
                self._remove(offset)
                continue
            return ProducerState(entries, end_offset=offset)
        return ProducerState(end_offset=log_start_offset)

    def newest_at(self, offset: int) -> int:
        """The offset of the newest snapshot that is not above `offset`; 0 when there is none."""
        return max((kept for kept in self._offsets if kept <= offset), default=0)

    def remove_before(self, offset: int) -> None:
        """Remove the snapshots below `offset`."""
        for old in [kept for kept in self._offsets if kept < offset]:
            self._remove(old)

    def remove_after(self, offset: int) -> None:
        """Remove the snapshots above `offset`: they tell of records that are gone."""
        for old in [kept for kept in self._offsets if kept > offset]:
            self._remove(old)

    def remove_at(self, offset: int) -> bool:
        """Remove the snapshot at `offset`; False where there is none."""
        if offset not in self._offsets:
            return False
        self._remove(offset)
        return True

    def remove_all(self) -> None:
        self.remove_before(1 << 63)

    def _remove(self, offset: int) -> None:
        self._disk.remove(self.path(offset))
        self._offsets.remove(offset)
        if offset in self._unsynced:
            self._unsynced.remove(offset)
